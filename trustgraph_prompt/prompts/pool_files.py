"""Reads the gold files that prompts name in `examples` into pools."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trustgraph_prompt.errors import PromptError
from trustgraph_prompt.prompts.definition import PromptDefinition
from trustgraph_prompt.prompts.filled_quotes import with_quotes
from trustgraph_prompt.prompts.gold_file import read, texts_for
from trustgraph_prompt.prompts.pool import POOL, Pool, PoolText, passage_term
from trustgraph_prompt.prompts.shown_examples import check_pool


def pool_of_file(prompt: PromptDefinition, path: Path) -> Pool:
    """Read the pool of a prompt from a gold file, of which the lines count that are for the prompt.

    Where the prompt asks for quotes and objects have none, these are filled in, and a text is left out that
    has no sentence for an object. Raises `ConfigError` with file and line.
    """
    texts = texts_for(prompt, read(path))
    if not texts:
        raise PromptError(f"no line is for {prompt.id}", where=str(path))
    term = passage_term(texts[0].terms)
    quoted = ((text, with_quotes(text.objects, str(text.terms.get(term)), prompt.contract)) for text in texts)
    shown = [PoolText(text.where, text.terms, objects) for text, objects in quoted if objects is not None]
    if not shown:
        message, expected = "no sentence names all values of an object", "objects with quotes"
        raise PromptError(f"{message}, to be its quote", where=str(path), expected=expected)
    pool = Pool.of(shown, term, str(path))
    check_pool(prompt, pool)
    return pool


def naming(pool: Pool, entry: Mapping[str, Any]) -> dict[str, Any]:
    """The entry of a prompt with the hash of its pool instead of the name of its file."""
    clause = {key: value for key, value in entry["examples"].items() if key != "from"}
    return {**entry, "examples": {"pool": pool.key.removeprefix(POOL), **clause}}
