"""The format of our own entries and prompt files, as JSON Schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SCHEMA_OF_ANSWERS = {"type": ["object", "boolean", "null"]}

SCHEMA: Mapping[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "A prompt of trustgraph-prompt",
    "description": "How a question is written, what its answer must be, how the model is set.",
    "type": "object",
    "required": ["prompt", "dialect"],
    "additionalProperties": False,
    "properties": {
        "description": {"type": "string", "description": "What the prompt is for, for people."},
        "dialect": {
            "enum": ["jinja", "ibis"],
            "description": "How templates are written: jinja is this project's, ibis is TrustGraph's.",
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
        "many": {
            "type": "boolean",
            "default": False,
            "description": "Whether the value is a list of what the schema describes (json).",
        },
        "fences": {
            "enum": ["any", "strict", "one"],
            "default": "any",
            "description": "Which code fences count: any that holds a valid value; strict, where blocks say "
            "json, the whole of one and nothing else; or one, and several that differ are an error (json).",
        },
        "native": {
            "enum": ["items"],
            "description": "How a server that holds answers to schemas is asked for many objects (jsonl): "
            "for one whose items they are. If left out, it is asked without the schema.",
        },
        "answer-format": {
            "enum": ["append", "none"],
            "description": "Whether the question ends with what its answer must be, unless it has that at "
            "{{ answer_format }}; if left out, it does where it does not name the keys.",
        },
        "repair": {
            "type": "boolean",
            "default": False,
            "description": "Whether broken JSON is mended; else it is refused.",
        },
        "extra": {
            "enum": ["forbid", "ignore"],
            "description": "Whether keys that the schema does not declare are refused or dropped; "
            "as the schema says if left out.",
        },
        "coerce": {
            "type": "boolean",
            "default": False,
            "description": 'Whether "12" becomes 12 where the schema wants it, and other scalars likewise.',
        },
        "invariants": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["rule"],
                "additionalProperties": False,
                "properties": {
                    "rule": {"type": "string", "description": "An expression that holds for each object."},
                    "message": {"type": "string", "description": "What to say where it does not hold."},
                },
            },
            "description": "Rules about the whole object, such as `total is none or total >= shown`.",
        },
        "versions": {
            "type": "object",
            "minProperties": 1,
            "additionalProperties": {"type": ["object", "boolean"]},
            "description": "Schemas by version (1.0), of which an object picks one by its `schema_version`.",
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
            "maximum": 10,
            "default": 1,
            "description": "How often the question is put until the answer is valid.",
        },
        "repair-by-model": {
            "type": "boolean",
            "default": False,
            "description": "Whether the attempt after an answer of a wrong form shows the model that answer "
            "alone, and not the whole question again.",
        },
        "echoes": {
            "enum": ["refuse", "keep"],
            "default": "refuse",
            "description": "Whether an object that repeats an example of the prompt, and says nothing that "
            "stands in a term, is refused.",
        },
        "escalate": {
            "type": "object",
            "required": ["op", "value"],
            "additionalProperties": False,
            "properties": {
                "op": {"enum": ["~", "==", "!=", "contains"]},
                "value": {"type": "string", "minLength": 1},
            },
            "description": "Which answers are for somebody else to deal with: a comparison with their text.",
        },
        "cache": {
            "oneOf": [
                {"type": "boolean"},
                {
                    "type": "object",
                    "required": ["seconds"],
                    "additionalProperties": False,
                    "properties": {"seconds": {"type": "number", "minimum": 1, "maximum": 31_536_000}},
                },
            ],
            "default": False,
            "description": "Whether the same question may be given the answer of before, for an hour or "
            "for so many seconds.",
        },
        "model": {
            "type": "object",
            "description": "Settings of the model.",
            "additionalProperties": False,
            "properties": {
                "name": {"type": "string", "minLength": 1, "maxLength": 200},
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
    **SCHEMA,
    "properties": {key: SCHEMA["properties"][key] for key in ("description", "dialect", "prompt")},
}
"""The format of a workspace's system message, where it is more than a string."""
