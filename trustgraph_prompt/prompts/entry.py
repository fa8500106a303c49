"""The format of our own entries and prompt files, as a JSON Schema, and the check against it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Literal

import jsonschema
from jsonschema.exceptions import best_match

from trustgraph_prompt.errors import PromptError

MAX_ATTEMPTS = 10

_SCHEMA_OF_ANSWERS = {"type": ["object", "boolean", "null"]}

SCHEMA: Mapping[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "A prompt of trustgraph-prompt",
    "type": "object",
    "required": ["prompt"],
    "additionalProperties": False,
    "properties": {
        "description": {"type": "string", "description": "What the prompt is for, for people."},
        "dialect": {
            "enum": ["jinja", "ibis"],
            "description": "How the templates are written: jinja is ours, ibis is TrustGraph's.",
        },
        "prompt": {"type": "string", "description": "The template of the question."},
        "system": {
            "type": "string",
            "description": "The template of the system message; the workspace's if left out.",
        },
        "response-type": {
            "enum": ["text", "json", "jsonl"],
            "default": "text",
            "description": "What the answer is: text as it is, one JSON value, or one JSON object a line.",
        },
        "schema": {
            **_SCHEMA_OF_ANSWERS,
            "description": "JSON Schema of the value (json), or of each object (jsonl).",
        },
        "object-schema": {
            **_SCHEMA_OF_ANSWERS,
            "description": "JSON Schema of each object (jsonl); goes before `schema`.",
        },
        "terms": {"type": "object", "description": "Values of terms that a request leaves out."},
        "aliases": {
            "type": "array",
            "items": {"type": "string", "minLength": 1},
            "uniqueItems": True,
            "description": "Other ids this prompt answers to.",
        },
        "attempts": {
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_ATTEMPTS,
            "default": 1,
            "description": "How often the question is put until the answer is valid.",
        },
        "model": {
            "type": "object",
            "description": "Settings of the model.",
            "additionalProperties": False,
            "properties": {
                "temperature": {"type": "number", "minimum": 0},
                "max-tokens": {"type": "integer", "minimum": 1},
                "top-p": {"type": "number", "minimum": 0, "maximum": 1},
                "seed": {"type": "integer"},
                "frequency-penalty": {"type": "number"},
                "presence-penalty": {"type": "number"},
                "stop": {"type": "array", "items": {"type": "string", "minLength": 1}},
            },
        },
    },
}
"""The format of an entry that names its dialect; `templates/prompt.schema.json` is this."""

SYSTEM_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "required": ["prompt", "dialect"],
    "additionalProperties": False,
    "properties": {key: SCHEMA["properties"][key] for key in ("description", "dialect", "prompt")},
}
"""The format of a workspace's system message, where it is not just a string."""

_validators = {
    "system": jsonschema.Draft202012Validator(SYSTEM_SCHEMA),
    "prompt": jsonschema.Draft202012Validator(SCHEMA),
}


def check(entry: object, where: str, kind: Literal["prompt", "system"] = "prompt") -> Mapping[str, Any]:
    """An entry that is of the format.

    Raises `PromptError` for what is most wrong with it: where, which key, what was found and expected.
    """
    error = best_match(_validators[kind].iter_errors(entry))
    if error is None:
        assert isinstance(entry, Mapping)
        return entry
    path = "".join(f"/{part}" for part in error.absolute_path)
    if error.validator == "additionalProperties":
        known = sorted(error.schema["properties"])
        unknown = min(key for key in error.instance if key not in known)
        near = difflib.get_close_matches(unknown, known, 1)
        raise PromptError(
            f"unknown key `{unknown}`" + (f"; did you mean `{near[0]}`?" if near else ""),
            where=where,
            path=f"{path}/{unknown}",
            found=unknown,
            expected=f"one of {', '.join(known)}",
        )
    if error.validator == "required":
        missing = next(key for key in error.validator_value if key not in error.instance)
        raise PromptError("a key is missing", where=where, path=f"{path}/{missing}", expected=f"`{missing}`")
    raise PromptError("wrong value", where=where, path=path, found=error.instance, expected=_expected(error))


def _expected(error: jsonschema.ValidationError) -> str:
    value: Any = error.validator_value
    match error.validator:
        case "type":
            return " or ".join([value] if isinstance(value, str) else value)
        case "enum":
            return " or ".join(map(str, value))
        case "minimum":
            return f"at least {value}"
        case "maximum":
            return f"at most {value}"
    return error.message
