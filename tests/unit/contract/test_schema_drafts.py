"""The drafts of JSON Schema, the formats, and which words of a schema mean something."""

from __future__ import annotations

from typing import Any

import pytest

from trustgraph_prompt.contract import Contract, Limits
from trustgraph_prompt.errors import ContractError, Issue, Reason

DRAFTS = {
    "4": "http://json-schema.org/draft-04/schema#",
    "6": "http://json-schema.org/draft-06/schema#",
    "7": "http://json-schema.org/draft-07/schema#",
    "2019-09": "https://json-schema.org/draft/2019-09/schema",
    "2020-12": "https://json-schema.org/draft/2020-12/schema",
}

# Each keyword with a value that it refuses, and the drafts that know it so.
KEYWORDS: list[tuple[dict[str, Any], Any, str]] = [
    ({"minimum": 3, "exclusiveMinimum": True}, 3, "4"),
    ({"exclusiveMinimum": 3}, 3, "6 7 2019-09 2020-12"),
    ({"type": "integer"}, 3.0, "4"),
    ({"const": 1}, 2, "6 7 2019-09 2020-12"),
    ({"contains": {"type": "null"}}, [1], "6 7 2019-09 2020-12"),
    ({"if": True, "then": False}, 1, "7 2019-09 2020-12"),
    ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "2019-09 2020-12"),
    ({"unevaluatedProperties": False}, {"a": 1}, "2019-09 2020-12"),
    ({"items": [{"type": "null"}]}, [1], "4 6 7 2019-09"),
    ({"prefixItems": [{"type": "null"}]}, [1], "2020-12"),
    ({"$ref": "#/definitions/a", "maximum": 1, "definitions": {"a": {}}}, 5, "2019-09 2020-12"),
    ({"$dynamicRef": "#a", "$defs": {"a": {"$dynamicAnchor": "a", "type": "null"}}}, 5, "2020-12"),
]


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize(("schema", "value", "known"), KEYWORDS)
def test_each_draft_knows_its_own_keywords(schema: Any, value: Any, known: str, draft: str) -> None:
    try:
        contract = Contract.from_schema({"$schema": DRAFTS[draft], **schema})
    except ContractError:  # a keyword that has another form in this draft
        assert draft not in known.split()
        return
    assert contract.accepts(value) == (draft not in known.split())
    assert (contract.take_all([value, value], 100, 50) is not None) == contract.accepts(value)


def test_newest_draft_is_the_default() -> None:
    assert not Contract.from_schema({"prefixItems": [{"type": "null"}]}).accepts([1])


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize(
    ("form", "good", "bad"),
    [
        ("date", "2026-11-21", "2026-02-30"),
        ("date-time", "2026-11-21T10:00:00Z", "2026-11-21 10:00"),
        ("time", "10:00:00Z", "25:00:00Z"),
        ("duration", "P1DT2H", "1 day"),
        ("email", "a@b.org", "a@"),
        ("hostname", "a.example", "-a-"),
        ("ipv4", "10.0.0.1", "10.0.0.256"),
        ("ipv6", "::1", ":::"),
        ("uri", "https://a.example/b", "a b"),
        ("uri-reference", "/b?c", "\\b"),
        ("uuid", "f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "f81d4fae"),
        ("json-pointer", "/a/0", "a"),
        ("regex", "^a+$", "("),
    ],
)
def test_formats_are_asserted_in_every_draft(draft: str, form: str, good: str, bad: str) -> None:
    contract = Contract.from_schema({"$schema": DRAFTS[draft], "format": form})
    assert contract.accepts(good)
    assert contract.accepts(5)
    assert contract.issues(bad) == (
        Issue(Reason.SCHEMA_VALUE_ERROR, f'expected format {form}, found "{bad}"'),
    )


@pytest.mark.parametrize(
    ("schema", "path", "found", "meant"),
    [
        ({"requird": ["a"]}, "/requird", "requird", "required"),
        ({"propertys": {}}, "/propertys", "propertys", "properties"),
        ({"properties": {"a": {"minlength": 3}}}, "/properties/a/minlength", "minlength", "minLength"),
        ({"items": {"additional_properties": False}}, None, "additional_properties", "additionalProperties"),
        ({"oneOf": [{"oneof": []}]}, "/oneOf/0/oneof", "oneof", "oneOf"),
        ({"$defs": {"a/b": {"enums": []}}}, "/$defs/a~1b/enums", "enums", "enum"),
        ({"properties": {"a": {"format": "datetime"}}}, "/properties/a/format", "datetime", "date-time"),
        ({"properties": {"a": {"type": "strin"}}}, "/properties/a/type", "strin", "string"),
        ({"type": "int"}, "/type", "int", "integer"),
        ({"type": ["str", "null"]}, "/type/0", "str", "string"),
        ({"type": "List"}, "/type", "List", "array"),
        ({"properties": {"properties": {"type": "text"}}}, "/properties/properties/type", "text", "string"),
    ],
)
def test_misspelt_keyword_is_refused_with_a_suggestion(
    schema: Any, path: str | None, found: str, meant: str
) -> None:
    with pytest.raises(ContractError) as raised:
        Contract.from_schema(schema)
    error = raised.value
    assert path is None or error.path == path
    assert error.found == found
    assert f"did you mean '{meant}'?" in error.message
    assert error.expected


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"requird": {}, "propertys": {}, "format": {}}},
        {"x-order": 1, "example": {}, "nullable": True, "discriminator": {"propertyName": "a"}, "unit": "m"},
        {"default": {"requird": 1}, "enum": [{"minlength": 1}], "const": {"minlength": 1}},
        {"format": "int32"},
        {"$defs": {"definition": {}, "requirement": {}}},
    ],
)
def test_property_names_and_keywords_of_other_vocabularies_are_no_misspellings(schema: Any) -> None:
    Contract.from_schema(schema)


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize(
    "address",
    [
        "schema.json",
        "/schema.json",
        "../a",
        "x#",
        "#",
        "",
        "?q",
        "http://x/s",
        "http://x/s#",
        "//x/s",
        "urn:x:y",
    ],
)
def test_id_of_a_schema_changes_no_verdict(address: str, draft: str) -> None:
    schema = {
        "$schema": DRAFTS[draft],
        "id" if draft == "4" else "$id": address,
        "items": {"anyOf": [{"$ref": "#/definitions/a"}, {"type": "integer", "minimum": 3}]},
        "definitions": {"a": {"type": "string", "pattern": "^a"}},
    }
    contract = Contract.from_schema(schema)
    for value, accepted in ((["a", 5], True), (["b"], False)):
        assert contract.accepts(value) == (contract.take_all([value], 50, 50) is not None) == accepted
    assert Contract.from_schema(schema, coerce=True).conform(["a", "5"]) == ["a", 5]


UNION = {
    "oneOf": [
        {"properties": {"type": {"const": "a"}, "n": {"type": "integer"}}, "required": ["type", "n"]},
        {"properties": {"type": {"const": "b"}, "s": {"type": "string"}}, "required": ["type", "s"]},
    ]
}


@pytest.mark.parametrize(
    ("schema", "value", "message", "path"),
    [
        (UNION, {"type": "b", "s": 1}, "expected string, found integer 1", "/s"),
        ({"properties": {"l": {"items": UNION}}}, {"l": [{"type": "b"}]}, '"s" is missing', "/l/0"),
        (
            {"properties": {"l": {"items": {"$ref": "#/$defs/u"}}}, "$defs": {"u": UNION}},
            {"l": [{"type": "c"}]},
            'expected "a" or "b", found "c"',
            "/l/0/type",
        ),
        ({"properties": {"u": UNION}}, {"u": {}}, '"type" is missing, expected "a" or "b"', "/u"),
        ({"properties": {"u": UNION}}, {"u": 5}, None, "/u"),
        ({"allOf": [UNION]}, {"type": "a", "n": "x"}, 'expected integer, found string "x"', "/n"),
        (
            {"properties": {"u": {"anyOf": [{"type": "null"}, {"type": "object", "required": ["a"]}]}}},
            {"u": {}},
            '"a" is missing',
            "/u",
        ),
    ],
)
def test_matching_branch_of_nested_alternatives_is_reported(
    schema: Any, value: Any, message: str | None, path: str
) -> None:
    schema = schema if "oneOf" not in schema else {**schema, "type": "object"}
    issues = Contract.from_schema(schema).issues(value)
    if message is not None:
        assert [(issue.message, issue.path) for issue in issues] == [(message, path)]
    assert {issue.path for issue in issues} == {path}


def test_names_are_those_of_the_properties_of_all_subschemas() -> None:
    schema = {
        "properties": {"a": {"items": {"$ref": "#/$defs/d"}}, "properties": {"type": "string"}},
        "oneOf": [{"properties": {"b": {}}}, {"if": {"properties": {"c": {}}}}],
        "$defs": {"d": {"properties": {"object-entity": {}}}},
        "default": {"properties": {"z": 1}},
        "enum": [{"properties": {"y": 1}}],
        "elsewhere": {"properties": {"e": {}}},
        "allOf": [{"$ref": "#/elsewhere"}],
    }
    assert Contract.from_schema(schema).names() == {"a", "properties", "b", "c", "object-entity", "e"}
    assert Contract.from_schema(None).names() == Contract.from_schema(True).names() == frozenset()


@pytest.mark.parametrize("depth", [0, 1_001, "5", True, None])
def test_invalid_limit_is_refused(depth: Any) -> None:
    with pytest.raises(ContractError, match="invalid limit") as raised:
        Limits(depth=depth)
    assert raised.value.path == "/limits/depth"
