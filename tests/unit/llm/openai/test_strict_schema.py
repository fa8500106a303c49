"""Which schemas servers are known to take as strict."""

from __future__ import annotations

from typing import Any

import pytest

from trustgraph_prompt.llm.openai.strict_schema import is_strict


def closed(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def nested(levels: int) -> dict[str, Any]:
    schema = closed()
    for _ in range(levels - 1):
        schema = closed(a=schema)
    return schema


TEXT = {"type": "string"}


@pytest.mark.parametrize(
    "schema",
    [
        closed(),
        closed(a=TEXT),
        {"type": "object", "additionalProperties": False},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "T", **closed(a=TEXT)},
        closed(a={"type": ["string", "null"], "description": "x", "title": "A"}),
        closed(a={"enum": ["x", "y"]}),
        closed(a={"const": 1}),
        closed(a={"type": "string", "enum": ["x"], "const": "x"}),
        closed(a={"type": "string", "pattern": "^x", "format": "date"}),
        closed(a={"type": "number", "minimum": 0, "exclusiveMaximum": 9, "multipleOf": 2}),
        closed(a={"type": "array", "items": TEXT, "minItems": 1, "maxItems": 3}),
        closed(a={"type": "array", "items": closed(b=TEXT)}),
        closed(a={"anyOf": [TEXT, {"type": "null"}, closed(b=TEXT)]}),
        {**closed(a={"$ref": "#/$defs/x"}), "$defs": {"x": closed(next={"anyOf": [{"$ref": "#"}, TEXT]})}},
        {**closed(a={"$ref": "#/definitions/x"}), "definitions": {"x": TEXT}},
        closed(**{"$ref": TEXT, "oneOf": TEXT}),  # names, not keywords
        nested(10),
    ],
)
def test_closed_schema_of_known_keywords_is_strict(schema: dict[str, Any]) -> None:
    assert is_strict(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        TEXT,
        {"type": "array", "items": TEXT},
        {"type": ["object", "null"]},
        {"type": "object"},
        {"type": "object", "properties": {"a": TEXT}, "required": ["a"]},
        {**closed(a=TEXT), "additionalProperties": True},
        {**closed(a=TEXT), "additionalProperties": TEXT},
        {**closed(a=TEXT), "additionalProperties": 0},
        {**closed(a=TEXT), "required": []},
        {**closed(a=TEXT), "required": ["a", "b"]},
        {**closed(a=TEXT), "required": "a"},
        {**closed(a=TEXT), "required": [["a"]]},
        {**closed(a=TEXT), "properties": ["a"]},
        {**closed(a=TEXT), "anyOf": [closed(a=TEXT)]},
        {**closed(a=TEXT), "oneOf": [closed(a=TEXT)]},
        {**closed(a=TEXT), "allOf": [closed(a=TEXT)]},
        {**closed(a=TEXT), "not": {"type": "null"}},
        {**closed(a=TEXT), "if": TEXT, "then": TEXT},
        {**closed(a=TEXT), "patternProperties": {"^x": TEXT}},
        {**closed(a=TEXT), "minProperties": 1},
        {**closed(a=TEXT), "$defs": {"x": {"type": "object"}}},
        {**closed(a=TEXT), "$defs": [TEXT]},
        {**closed(a=TEXT), "x-mine": 1},
        closed(a={}),
        closed(a=True),
        closed(a={"type": "text"}),
        closed(a={"type": [["string"]]}),
        closed(a={"type": 7}),
        closed(a={"type": "string", "maxLength": 3}),
        closed(a={"type": "string", "minimum": 3}),
        closed(a={"type": "string", "format": "uri"}),
        closed(a={"type": "string", "format": ["date"]}),
        closed(a={"type": "string", "default": "x"}),
        closed(a={"enum": []}),
        closed(a={"enum": 7}),
        closed(a={"anyOf": TEXT}),
        closed(a={"oneOf": [TEXT]}),
        closed(a={"type": "array"}),
        closed(a={"type": "array", "items": [TEXT]}),
        closed(a={"type": "array", "prefixItems": [TEXT], "items": False}),
        closed(a={"type": "array", "items": TEXT, "uniqueItems": True}),
        closed(a={"type": "object", "properties": {}}),
        closed(a={"$ref": "#/$defs/x"}),
        closed(a={"$ref": "https://example.org/schema"}),
        closed(a={"$ref": 7}),
        {**closed(a={"$ref": "#/$defs/x", "description": "x"}), "$defs": {"x": TEXT}},
        closed(a={"type": "array", "items": {"type": "object", "properties": {"b": TEXT}}}),
        closed(a={"enum": list(range(1_001))}),
        closed(**{f"p{number}": TEXT for number in range(5_001)}),
        nested(11),
        nested(500),
    ],
)
def test_open_schema_or_unknown_keyword_is_not_strict(schema: dict[str, Any]) -> None:
    assert not is_strict(schema)


def test_schema_that_contains_itself_is_not_strict() -> None:
    branches: list[Any] = [TEXT]
    endless = {"anyOf": branches}
    branches += [endless, endless]

    assert not is_strict(closed(a=endless))
