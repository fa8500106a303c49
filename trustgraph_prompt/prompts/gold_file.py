"""Gold files: JSON Lines of terms and of the objects that should come, to measure with and to show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from trustgraph_prompt.config_files import read_json_lines
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.prompts.definition import PromptDefinition

MAX_OBJECTS: Final = 2_000
"""Objects of one line: matching takes memory for each pair of an expected and a found one."""

LINE: Final[Mapping[str, Any]] = {
    "type": "object",
    "required": ["terms", "objects"],
    "additionalProperties": False,
    "properties": {
        "note": {"type": "string", "description": "for readers of the file"},
        "name": {"type": "string", "description": "what the text is, for people"},
        "prompt": {"type": "string", "description": "the id of the only prompt that the line is for"},
        "terms": {"type": "object", "description": "the terms of the prompt, such as its text"},
        "objects": {
            "type": "array",
            "maxItems": MAX_OBJECTS,
            "description": "the objects that should come, [] if none should",
        },
    },
}
"""The format of a line."""


@dataclass(frozen=True, slots=True)
class GoldText:
    """A line of a gold file: the terms of a question, and the objects that should come.

    `prompt` is the only prompt that it is for, None for any. `where` is file and line, `name` is for people.
    """

    where: str
    name: str
    terms: Mapping[str, Any] = field(repr=False)
    objects: tuple[Any, ...] = field(repr=False)
    prompt: str | None = None

    def as_asked(self, as_asked: Callable[[Any], Any]) -> GoldText:
        """The text with its objects as a prompt asks for them."""
        return replace(self, objects=tuple(map(as_asked, self.objects)))


def read(path: Path) -> list[GoldText]:
    """Read a gold file. Raises `ConfigError` with file, line and key."""
    lines = read_json_lines(path, LINE)
    if not lines:
        expected = 'lines such as {"terms": {"text": "…"}, "objects": []}'
        raise ConfigError("there are no texts", where=str(path), found="nothing", expected=expected)
    return [
        GoldText(
            where,
            line.get("name", f"line {where.rpartition(':')[2]}"),
            line["terms"],
            tuple(line["objects"]),
            line.get("prompt"),
        )
        for where, line in lines
    ]


def texts_for(prompt: PromptDefinition, texts: Sequence[GoldText]) -> list[GoldText]:
    """The texts that are for a prompt, also by one of its aliases."""
    return [text for text in texts if text.prompt in (None, prompt.id, *prompt.aliases)]
