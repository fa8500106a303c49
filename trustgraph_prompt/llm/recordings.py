"""Reads recordings: JSON Lines files of scripted answers (docs/reference/providers.md has the format)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trustgraph_prompt.config_files import read_json_lines
from trustgraph_prompt.cost import Usage
from trustgraph_prompt.errors import PROVIDER_ERRORS, ConfigError, ProviderError
from trustgraph_prompt.llm.scripted import ScriptedAnswer

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


def read(path: Path) -> Iterator[ScriptedAnswer]:
    """Yield the answers of a recording, in order. Raises `ConfigError` with file and line."""
    for where, entry in read_json_lines(path, LINE):
        yield _answer(entry, where)


def _answer(entry: Mapping[str, Any], where: str) -> ScriptedAnswer:
    _check_regex(entry.get("match"), where)
    converted = ("note", "answer", "thinking", "usage", "error")
    values = {key: value for key, value in entry.items() if key not in converted}
    if "usage" in entry:
        values["usage"] = Usage(**entry["usage"])
    if "error" in entry:
        values["error"] = _error(**entry["error"])
    return ScriptedAnswer(_text(entry.get("answer", "")), thinking=_text(entry.get("thinking", "")), **values)


def _error(category: str, message: str = "as recorded", retry_after: float | None = None) -> ProviderError:
    return PROVIDER_ERRORS[category](message, retry_after=retry_after)


def _check_regex(pattern: str | None, where: str) -> None:
    try:
        re.compile(pattern or "")
    except re.error as error:
        raise ConfigError(
            f"not a regular expression: {error}", where=where, path="/match", found=pattern
        ) from None


def _text(value: str | list[str]) -> str:
    return value if isinstance(value, str) else "\n".join(value)
