"""Reads the gold files that prompts name in `examples` into pools, and fills in missing quotes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import PromptError
from trustgraph_prompt.grounding import Passage
from trustgraph_prompt.grounding.quotes import sentences
from trustgraph_prompt.json_text.values import strings
from trustgraph_prompt.prompts.definition import PromptDefinition
from trustgraph_prompt.prompts.gold_file import read, texts_for
from trustgraph_prompt.prompts.pool import POOL, Pool, PoolClause, PoolText
from trustgraph_prompt.prompts.shown_examples import passage_term, pool_examples


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
    pool_examples(prompt, pool, PoolClause(), looks_up=True)
    return pool


def naming(pool: Pool, entry: Mapping[str, Any]) -> dict[str, Any]:
    """The entry of a prompt with the hash of its pool instead of the name of its file."""
    clause = {key: value for key, value in entry["examples"].items() if key != "from"}
    return {**entry, "examples": {"pool": pool.key.removeprefix(POOL), **clause}}


def with_quotes(objects: Sequence[Any], text: str, contract: Contract) -> list[Any] | None:
    """The objects of a text, each with a quote: the shortest sentence that names its values.

    Those are the values that the contract takes from terms, or else all texts of the object. An object that
    has a quote keeps it. None if there is no such sentence for one of them.
    """
    if not contract.quote_keys:
        return list(objects)
    passages = [Passage(sentence) for sentence in sorted(sentences(text), key=len)]
    filled = [_with_quote(value, passages, contract) for value in objects]
    return None if None in filled else filled


def _with_quote(value: Any, passages: Sequence[Passage], contract: Contract) -> Any:
    keys = contract.quote_keys
    if not isinstance(value, dict) or not value.keys().isdisjoint(keys):
        return value
    sourced = contract.sources.values(value) if contract.sources else ()
    names = [name for _, _, name in sourced] or list(strings(value))
    if not names:
        return None
    quote = next((passage.text for passage in passages if _has_all(passage, names)), None)
    return None if quote is None else {keys[0]: quote, **value}


def _has_all(passage: Passage, names: Sequence[str]) -> bool:
    """Whether a sentence has each name, and not only a part of it."""
    found = map(passage.find, names)
    return all(match is not None and not match.kind.is_weak for match in found)
