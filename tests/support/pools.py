"""A prompt with a pool of examples, as entries and as files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trustgraph_prompt.prompts import PromptSet
from trustgraph_prompt.prompts.pool import Pool, PoolText

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"film": {"type": "string"}, "by": {"type": "string"}},
    "required": ["film", "by"],
    "additionalProperties": False,
}

FILMS: Sequence[tuple[str, Sequence[Mapping[str, str]]]] = (
    ("Atonement is a drama by Joe Wright.", [{"by": "Joe Wright", "film": "Atonement"}]),
    ("Solaris is a film by Andrei Tarkovsky.", [{"film": "Solaris", "by": "Andrei Tarkovsky"}]),
    ("The lake froze early that winter.", []),
    ("Alien is a film by Ridley Scott.", [{"film": "Alien", "by": "Ridley Scott"}]),
)
"""Texts and their objects, the first with its keys in another order than the schema's."""


def pool(texts: Iterable[tuple[str, Sequence[Any]]] = FILMS) -> Pool:
    numbered = enumerate(texts, 1)
    return Pool.of(
        (PoolText(f"g:{at}", {"text": said}, objects) for at, (said, objects) in numbered), "text", "g"
    )


def entries(of: Pool | None = None, *, show: int = 2, by: str = "nearest", **more: Any) -> dict[str, str]:
    """The pool, and the prompt `films` that shows some of it, by their keys."""
    shown = of or pool()
    prompt = {
        "dialect": "jinja",
        "prompt": "{{ text }}",
        "system": "Which films are by whom?",
        "response-type": "jsonl",
        "schema": SCHEMA,
        "answer-format": "none",
        "examples": {"pool": shown.key.removeprefix("pool."), "show": show, "by": by},
        **more,
    }
    return {shown.key: shown.text.decode(), "template.films": json.dumps(prompt)}


def prompts(of: Pool | None = None, **more: Any) -> PromptSet:
    return PromptSet.build(entries(of, **more))


def gold_line(text: str, objects: Sequence[Any], **more: Any) -> str:
    return json.dumps({"terms": {"text": text}, "objects": objects, **more})


def prompt_file(folder: Path, *lines: str, examples: str = '{from: "films.gold.jsonl", show: 2}') -> Path:
    """Write a prompt file beside a gold file with these lines, or with `FILMS`."""
    gold = lines or tuple(gold_line(*each) for each in FILMS)
    (folder / "films.gold.jsonl").write_text("\n".join(gold))
    path = folder / "films.prompt"
    path.write_text(
        "schema Film:\n    film: string\n    by: string\n\n"
        "prompt films expecting Film[] as jsonl:\n"
        f'    text: """{{{{ text }}}}"""\n    examples: {examples}\n    answer-format: none\n'
    )
    return path
