"""Prepared answers, and recordings: JSON Lines files of them (docs/reference/providers.md has the format)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trustgraph_prompt.cost import Usage
from trustgraph_prompt.errors import PROVIDER_ERRORS, ConfigError, ProviderError
from trustgraph_prompt.llm.records import FinishReason

_COUNT = {"type": "integer", "minimum": 0}
_TEXT = {
    "description": "a text, or a list of its lines",
    "oneOf": [
        {"type": "string"},
        {"type": "array", "items": {"type": "string"}, "description": "a list of its lines"},
    ],
}

LINE: Mapping[str, Any] = {
    "type": "object",
    "description": "an object with an answer",
    "additionalProperties": False,
    "anyOf": [{"required": ["answer"]}, {"required": ["thinking"]}, {"required": ["error"]}],
    "properties": {
        "note": {"type": "string", "description": "for readers of the recording"},
        "prompt": {"type": "string", "description": "the id of a prompt"},
        "contains": {"type": "string", "description": "a text"},
        "match": {"type": "string", "description": "a regular expression"},
        "answer": _TEXT,
        "thinking": _TEXT,
        "finish_reason": {"enum": ["stop", "length", "tool_calls", "content_filter", "error", None]},
        "usage": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"prompt_tokens": _COUNT, "completion_tokens": _COUNT, "total_tokens": _COUNT},
        },
        "model": {"type": "string"},
        "delay": {"type": "number", "minimum": 0, "description": "seconds"},
        "chunk": {"type": "integer", "minimum": 1, "description": "characters"},
        "cut_after": {**_COUNT, "description": "characters"},
        "error": {
            "type": "object",
            "additionalProperties": False,
            "required": ["category"],
            "properties": {
                "category": {"enum": sorted(PROVIDER_ERRORS)},
                "message": {"type": "string"},
                "retry_after": {"type": "number", "minimum": 0, "description": "seconds"},
            },
        },
    },
}
"""The format of a line."""


@dataclass(frozen=True, slots=True)
class ScriptedAnswer:
    """One answer, and which questions it is for.

    Which questions: `prompt` is the id of the prompt; `contains` is a text and `match` a regular expression
    to find in the user's messages, without examples that are shown. None matches every question.

    How it is sent: `delay` is the seconds before the first piece, `chunk` the characters of a piece. After
    `cut_after` characters the answer is truncated, with the finish reason "length" unless another is given.
    `error` is raised after the text, like a broken connection, or at once without a text. `usage` is
    estimated where it is not given.
    """

    text: str = ""
    prompt: str | None = None
    contains: str | None = None
    match: str | None = None
    thinking: str = ""
    finish_reason: FinishReason | None = "stop"
    usage: Usage | None = None
    model: str = "scripted"
    delay: float = 0.0
    chunk: int = 64
    cut_after: int | None = None
    error: ProviderError | None = None

    @property
    def question(self) -> tuple[str | None, str | None, str | None]:
        """The conditions; answers with the same ones are given in turn."""
        return self.prompt, self.contains, self.match

    def fits(self, prompt: str | None, text: str) -> bool:
        """Whether the answer is for the question."""
        return (
            (self.prompt is None or self.prompt == prompt)
            and (self.contains is None or self.contains in text)
            and (self.match is None or re.search(self.match, text) is not None)
        )


def read(path: Path) -> Iterator[ScriptedAnswer]:
    """Yield the answers of a recording, in order. Raises `ConfigError` with file and line."""
    from trustgraph_prompt.config_files import read_json_lines  # yaml takes 10 ms to import

    for where, entry in read_json_lines(path, LINE):
        yield _answer(entry, where)


def _answer(entry: Mapping[str, Any], where: str) -> ScriptedAnswer:
    try:
        re.compile(entry.get("match", ""))
    except re.error as error:
        message, found = f"not a regular expression: {error}", entry["match"]
        raise ConfigError(message, where=where, path="/match", found=found) from None
    values = {key: value for key, value in entry.items() if key not in ("note", "answer")}
    values["text"] = _text(entry.get("answer", ""))
    values["thinking"] = _text(entry.get("thinking", ""))
    if "usage" in entry:
        values["usage"] = Usage(**entry["usage"])
    if "error" in entry:
        values["error"] = _error(**entry["error"])
    return ScriptedAnswer(**values)


def _error(category: str, message: str = "as recorded", retry_after: float | None = None) -> ProviderError:
    return PROVIDER_ERRORS[category](message, retry_after=retry_after)


def _text(value: str | list[str]) -> str:
    return value if isinstance(value, str) else "\n".join(value)
