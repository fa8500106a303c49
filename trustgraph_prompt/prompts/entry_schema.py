"""The JSON Schemas of entries with a dialect and of YAML prompt files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trustgraph_prompt.graph.graph_clause import SCHEMA as GRAPH_SCHEMA
from trustgraph_prompt.llm.records import NO_EXTRAS
from trustgraph_prompt.prompts.match_clause import SCHEMA as MATCH_SCHEMA
from trustgraph_prompt.prompts.pool import CLAUSE as EXAMPLES_SCHEMA
from trustgraph_prompt.prompts.shown_examples import SCHEMA as SHOWN_SCHEMA


def _flag(description: str) -> dict[str, Any]:
    return {"type": "boolean", "default": False, "description": description}


def _count(most: int, description: str) -> dict[str, Any]:
    return {"type": "integer", "minimum": 1, "maximum": most, "default": 1, "description": description}


_SCHEMA_OF_ANSWERS = {"type": ["object", "boolean", "null"]}

SCHEMA: Mapping[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "A prompt of trustgraph-prompt",
    "description": "The templates of a question, the format of its answer, the settings of the model.",
    "type": "object",
    "required": ["prompt", "dialect"],
    "additionalProperties": False,
    "properties": {
        "description": {"type": "string", "description": "The purpose of the prompt, for people."},
        "dialect": {
            "enum": ["jinja", "ibis"],
            "description": "The language of templates: jinja is this project's, ibis is TrustGraph's.",
        },
        "prompt": {"type": "string", "description": "The template of the question."},
        "system": {
            "type": "string",
            "description": "The template of the system message; by default the workspace's.",
        },
        "response-type": {
            "enum": ["text", "json", "jsonl"],
            "default": "text",
            "description": "The format of the answer: plain text, one JSON value, or one object per line.",
        },
        "schema": {
            **_SCHEMA_OF_ANSWERS,
            "description": "JSON Schema of the value (json), or of each object (jsonl).",
        },
        "object-schema": {
            **_SCHEMA_OF_ANSWERS,
            "description": "JSON Schema of each object (jsonl); takes precedence over `schema`.",
        },
        "many": _flag("Whether the answer is a list of values that match the schema (json)."),
        "fences": {
            "enum": ["any", "strict", "one"],
            "default": "any",
            "description": "Which code fences are read (json). any: any that holds a valid value; strict: if "
            "blocks are marked json, the value must be the whole content of one; one: several values that "
            "differ are an error.",
        },
        "native": {
            "enum": ["items"],
            "description": "items: asks a server with structured output for one object with the list `items` "
            "(jsonl). By default, the schema is not sent to the server.",
        },
        "answer-format": {
            "enum": ["append", "none"],
            "description": "Whether a description of the answer is appended to a question without "
            "{{ answer_format }}; by default, if the question does not name every required key.",
        },
        "repair": _flag("Whether broken JSON is repaired instead of rejected."),
        "extra": {
            "enum": ["forbid", "ignore"],
            "description": "Whether keys that the schema does not declare are rejected or dropped; "
            "by default, the schema decides.",
        },
        "coerce": _flag('Whether scalars are converted to the type of the schema, such as "12" to 12.'),
        "invariants": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["rule"],
                "additionalProperties": False,
                "properties": {
                    "rule": {
                        "type": "string",
                        "description": "An expression that must be true for each object.",
                    },
                    "message": {"type": "string", "description": "The error message for other objects."},
                },
            },
            "description": "Rules about a whole object, such as `total is none or total >= shown`.",
        },
        "versions": {
            "type": "object",
            "minProperties": 1,
            "additionalProperties": {"type": ["object", "boolean"]},
            "description": "Schemas by version (such as 1.0), selected by the `schema_version` of an object.",
        },
        "graph": GRAPH_SCHEMA,
        "match": MATCH_SCHEMA,
        "terms": {"type": "object", "description": "Default values of terms."},
        "aliases": {
            "type": "array",
            "items": {"type": "string", "minLength": 1},
            "uniqueItems": True,
            "description": "Other ids of this prompt.",
        },
        "attempts": _count(10, "The maximum number of attempts until the answer is valid."),
        "passes": _count(
            5,
            "The maximum number of passes: each one after the first asks for objects that are "
            "still missing (jsonl).",
        ),
        "repair-by-model": _flag(
            "Whether the attempt after a malformed answer shows the model only that answer, "
            "without the question."
        ),
        "echoes": {
            "enum": ["refuse", "keep"],
            "default": "refuse",
            "description": "Whether an object is rejected that repeats an example of the prompt and contains "
            "nothing from a term.",
        },
        "shown": SHOWN_SCHEMA,
        "examples": EXAMPLES_SCHEMA,
        "ontology": {
            "enum": ["mark", "strict"],
            "default": "mark",
            "description": "Whether an object that does not fit the ontology is marked or rejected, if its "
            "relation is known (jsonl).",
        },
        "escalate": {
            "type": "object",
            "required": ["op", "value"],
            "additionalProperties": False,
            "properties": {
                "op": {"enum": ["~", "==", "!=", "contains"]},
                "value": {"type": "string", "minLength": 1},
            },
            "description": "Which answers to escalate, by a comparison with their text.",
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
            "description": "Whether the answer is cached, for an hour or for the given number of seconds.",
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
                "extras": {
                    "type": "object",
                    "allOf": [{"not": {"required": [name]}} for name in NO_EXTRAS],
                    "description": "Further parameters of the server, such as reasoning_effort, which the "
                    "flow or --allow-parameter must allow.",
                },
            },
        },
    },
}
"""The format of an entry with a dialect; `templates/prompt.schema.json` is generated from it."""

SYSTEM_SCHEMA: Mapping[str, Any] = {
    **SCHEMA,
    "properties": {key: SCHEMA["properties"][key] for key in ("description", "dialect", "prompt")},
}
"""The format of a workspace's system message that is not just a string."""
