"""The schema language as JSON Schema, and back."""

# ruff: noqa: E501  (tables)

from __future__ import annotations

from typing import Any

import pytest

from trustgraph_prompt.errors import LanguageError
from trustgraph_prompt.language import locate, parse, to_json_schema
from trustgraph_prompt.language.nodes import ListOf, Name, Position, Union

STRING, NULL = {"type": "string"}, {"type": "null"}


def written(text: str, of: str = "A") -> dict[str, Any]:
    return to_json_schema(parse(text), of)


def field(text: str) -> dict[str, Any]:
    """The JSON Schema of a field with that type and what follows it."""
    schema = written(f"schema A:\n  a: {text}\n")
    properties: dict[str, Any] = schema["properties"]["a"]
    return properties


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("string", STRING),
        ("int", {"type": "integer"}),
        ("float", {"type": "number"}),
        ("bool", {"type": "boolean"}),
        ("any", {}),
        ("null", NULL),
        ("date", {"type": "string", "format": "date"}),
        ("time", {"type": "string", "format": "time"}),
        ("datetime", {"type": "string", "format": "date-time"}),
        ("uuid", {"type": "string", "format": "uuid"}),
        ("string[]", {"type": "array", "items": STRING}),
        ("any[]", {"type": "array", "items": {}}),
        ("map[string]", {"type": "object", "additionalProperties": STRING}),
        ("map[any]", {"type": "object", "additionalProperties": True}),
        ("string?", {"anyOf": [STRING, NULL]}),
        ("(string | int)?", {"anyOf": [STRING, {"type": "integer"}, NULL]}),
        ("string | null", {"anyOf": [STRING, NULL]}),
        ("'x'", {"const": "x", "type": "string"}),
        ("'x' | 'y'", {"enum": ["x", "y"], "type": "string"}),
        ("1 | 'y'", {"enum": [1, "y"]}),
        ("'x' | 'y' | int", {"anyOf": [{"enum": ["x", "y"], "type": "string"}, {"type": "integer"}]}),
        ("int @min(1) @max(9)", {"type": "integer", "minimum": 1, "maximum": 9}),
        ("float @above(0) @below(1)", {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}),
        ("int? @multiple(5)", {"anyOf": [{"type": "integer", "multipleOf": 5}, NULL]}),
        ("string @length(3)", {**STRING, "minLength": 3, "maxLength": 3}),
        ("string @length(1, any)", {**STRING, "minLength": 1}),
        ("string @quote(text)", {**STRING, "x-quote": "text"}),
        ("string? @quote(text, 'my title')", {"anyOf": [{**STRING, "x-quote": ["text", "my title"]}, {"type": "null"}]}),
        ("string[] @length(0, 3) @unique", {"type": "array", "items": STRING, "maxItems": 3, "uniqueItems": True}),
        ("map[string] @length(1, 2)", {"type": "object", "additionalProperties": STRING, "minProperties": 1, "maxProperties": 2}),
        ("string @pattern('^a') @format('email')", {**STRING, "pattern": "^a", "format": "email"}),
        ("string | int @min(1)", {"anyOf": [STRING, {"type": "integer", "minimum": 1}]}),
        ("(string @length(1, 9) 'One.')[] @unique 'All.'", {"type": "array", "items": {**STRING, "minLength": 1, "maxLength": 9, "description": "One."}, "uniqueItems": True, "description": "All."}),
        ("(string? @length(1, 9) 'One.')[]", {"type": "array", "items": {"anyOf": [{**STRING, "minLength": 1, "maxLength": 9}, NULL], "description": "One."}}),
        ("map[(int @min(0))[] 'Many.']", {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "integer", "minimum": 0}, "description": "Many."}}),
        ("map[any 'x']", {"type": "object", "additionalProperties": {"description": "x"}}),
        ("(string @length(1)) | string[]", {"anyOf": [{**STRING, "minLength": 1, "maxLength": 1}, {"type": "array", "items": STRING}]}),
        ("('x' 'An x.') | ('y' 'A y.')", {"anyOf": [{"const": "x", "type": "string", "description": "An x."}, {"const": "y", "type": "string", "description": "A y."}]}),
        ("(string @length(1) 'x')?", {"anyOf": [{**STRING, "minLength": 1, "maxLength": 1, "description": "x"}, NULL]}),
        ("(A 'Another.')?", {"anyOf": [{"$ref": "#/$defs/A", "description": "Another."}, NULL]}),
        ("string = 'x' 'About.'", {**STRING, "default": "x", "description": "About."}),
    ],
)  # fmt: skip
def test_field_becomes_a_json_schema(text: str, schema: dict[str, Any]) -> None:
    assert field(text) == schema


def test_schema_is_open_and_requires_fields_without_default_or_question_mark() -> None:
    assert written("schema A:\n  'About.'\n  a: int\n  b: int?\n  c: int = 1\n  d: int | null\n") == {
        "title": "A",
        "description": "About.",
        "type": "object",
        "properties": {
            "a": {"type": "integer"},
            "b": {"anyOf": [{"type": "integer"}, NULL]},
            "c": {"type": "integer", "default": 1},
            "d": {"anyOf": [{"type": "integer"}, NULL]},
        },
        "required": ["a", "d"],
    }


def test_closed_schema_has_no_other_keys_and_a_schema_extending_it_may() -> None:
    text = "schema A closed:\n  a: B\nschema B extends C closed:\n  b: int\nschema C closed:\n  c: int\n"
    schema = written(f"{text}schema D extends A:\n  d: int\n")
    assert schema["additionalProperties"] is schema["$defs"]["B"]["additionalProperties"] is False
    assert "additionalProperties" not in written(f"{text}schema D extends A:\n  d: int\n", "D")


def test_field_that_may_be_missing_is_not_required() -> None:
    properties = {
        "a": {**STRING, "maxLength": 3, "description": "If any."},
        "b": {},
        "c": {"anyOf": [STRING, NULL]},
        "d": NULL,
    }
    text = 'schema A:\n    a?: string @length(0, 3)  "If any."\n    b?: any\n    c: string?\n    d?: null\n'
    assert written(text) == {"title": "A", "type": "object", "properties": properties}


def test_other_schemas_are_definitions_and_the_root_too_if_referred_to() -> None:
    text = "schema C:\n  c: A?\nschema A:\n  b: B[]\nschema B:\n  c: C\n  'with space': B?\nschema D:\n  d: int\n"
    schema = written(text)
    assert list(schema["$defs"]) == ["C", "A", "B"]
    assert schema["properties"] == schema["$defs"]["A"]["properties"]
    assert schema["$defs"]["C"]["properties"]["c"] == {"anyOf": [{"$ref": "#/$defs/A"}, NULL]}
    assert "$defs" not in written(text, "D")


def test_fields_of_bases_come_first_and_are_replaced_in_their_place() -> None:
    schema = written(
        "schema C extends A, B:\n  b: string\n  c: int\nschema A:\n  a: int\n  b: int\nschema B:\n  d: int?",
        "C",
    )
    assert list(schema["properties"]) == ["a", "b", "d", "c"]
    assert schema["properties"]["b"] == STRING
    assert schema["required"] == ["a", "b", "c"]


def test_schemas_that_differ_in_a_literal_field_are_one_of() -> None:
    text = "schema A:\n  kind: 'a'\nschema B:\n  kind: 'b' | 'c'\nschema C:\n  kind: 'a' | 'd'\nschema D:\n  kind: 'x' = 'x'"
    file = parse(text)

    def either(*names: str) -> str:
        return next(iter(to_json_schema(file, Union(tuple(map(Name, names))))))

    assert either("A", "B") == "oneOf"
    assert either("A", "C") == "anyOf"
    assert either("A", "D") == "anyOf"
    many = to_json_schema(file, ListOf(Union((Name("A"), Name("B")))))
    assert many["items"] == {"oneOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]}


def test_types_handed_in_bring_their_definitions() -> None:
    shape = {"$ref": "#/$defs/Shape", "$defs": {"Shape": {"enum": ["round"]}}}
    types: dict[str, dict[str, Any]] = {"url": {"type": "string", "format": "uri"}, "shape": shape}
    schema = to_json_schema(
        parse("schema A:\n  u: url @length(0, 9)\n  s: shape[]", types=types), "A", types=types
    )
    assert schema["properties"]["u"] == {"type": "string", "format": "uri", "maxLength": 9}
    assert schema["properties"]["s"] == {"type": "array", "items": {"$ref": "#/$defs/Shape"}}
    assert schema["$defs"] == {"Shape": {"enum": ["round"]}}
    file = parse("schema A:\n  s: shape\n  t: Shape\nschema Shape:\n  a: int", types=types)
    with pytest.raises(LanguageError, match="Shape is defined twice"):
        to_json_schema(file, "A", types=types)


def test_unknown_schema_is_an_error() -> None:
    with pytest.raises(LanguageError, match="unknown schema B"):
        to_json_schema(parse("schema A:\n  a: int"), "B")


def test_json_pointer_leads_to_the_line_in_the_text() -> None:
    file = parse("schema A:\n  s: string @length(1) @pattern('x')\n  b: B\nschema B:\n  'b/~': int")
    assert locate(file, "A", "/properties/s/pattern") == Position(2, 24)
    assert locate(file, "A", "/properties/s/type") == Position(2, 3)
    assert locate(file, "A", "/$defs/B/properties/b~1~0/type") == Position(5, 3)
    assert locate(file, "A", "/required") == Position(1, 8)
    assert locate(file, "A", "/$defs/C") is None
