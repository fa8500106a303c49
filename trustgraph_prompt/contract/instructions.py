"""How a model is told what its answer must be: one text for every way in which a contract can be written."""

from __future__ import annotations

import json
from typing import Any, NamedTuple


class Wording(NamedTuple):
    """What is said of one value, of a list of values, and of objects one a line; `{schema}` is filled in."""

    one: str
    many: str
    lines: str

    def of(self, *, format: str, many: bool, schema: Any) -> str:
        """The instructions for an answer of this kind, with its schema, or that of each object in it."""
        wording = self.lines if format == "jsonl" else self.many if many else self.one
        return wording.replace("{schema}", json.dumps(schema, indent=2, ensure_ascii=False))


_NOTHING_ELSE = "Write nothing else: no explanation, no Markdown, no code fence."

PLAIN = Wording(
    one="Answer with one JSON value that is valid against this JSON Schema:\n\n{schema}\n\n" + _NOTHING_ELSE,
    many="Answer with a JSON array, each element of which is valid against this JSON Schema:\n\n{schema}\n\n"
    f"An empty array where there is none. {_NOTHING_ELSE}",
    lines="Answer with JSON objects, each on one line of its own and valid against this JSON Schema:\n\n"
    "{schema}\n\nNo array around them, no commas between the lines; [] where there is none. "
    f"{_NOTHING_ELSE}",
)
"""Our own words."""
