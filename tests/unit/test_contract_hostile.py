"""Schemas that are wrong, or meant to do harm: refused with their place, in no time."""

from __future__ import annotations

import time
from typing import Any

import pytest

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import ContractError


def nested(levels: int) -> Any:
    schema: Any = {}
    for _ in range(levels):
        schema = {"items": schema}
    return schema


@pytest.mark.parametrize(
    ("schema", "path", "says"),
    [
        ({"properties": {"a": {"type": "strin"}}}, "/properties/a/type", "strin"),
        ({"required": "a"}, "/required", "array"),
        ({"properties": {"a": 5}}, "/properties/a", "5"),
        ({"pattern": "("}, "/pattern", "regex"),
        ({"pattern": "(?=a)b"}, "/pattern", "linear time"),
        ({"$ref": "http://127.0.0.1:9/schema.json"}, "", "127.0.0.1"),
        ({"$ref": "file:///etc/passwd"}, "", "/etc/passwd"),
        ({"$ref": "#/$defs/missing"}, "", "missing"),
        ({"$schema": "http://example.com/mine"}, "", "example.com"),
        ({"$schema": 7}, "/$schema", "7"),
        ({"a": {1: 2}}, "/a", "expected a string"),
        ({"enum": [object()]}, "/enum/0", "expected a JSON value"),
        ({"minimum": float("nan")}, "/minimum", "expected a JSON value"),
        (nested(500), "/items/items/items/items", "100 levels"),
        ({"enum": list(range(200_000))}, "", "too large"),
    ],
)
def test_a_schema_that_is_none_is_refused_with_its_place(schema: Any, path: str, says: str) -> None:
    with pytest.raises(ContractError) as caught:
        Contract.from_schema(schema)
    assert caught.value.path == path
    assert says in str(caught.value)
    assert len(str(caught.value)) < 700


@pytest.mark.parametrize("schema", [5, "object", [], 1.5, b"{}"])
def test_a_schema_is_an_object_or_a_truth_value(schema: Any) -> None:
    with pytest.raises(ContractError, match="expected an object, true or false"):
        Contract.from_schema(schema)


def test_a_cyclic_schema_is_refused() -> None:
    schema: dict[str, Any] = {}
    schema["items"] = schema
    with pytest.raises(ContractError, match="nested too deep"):
        Contract.from_schema(schema)


def test_a_hostile_pattern_takes_linear_time() -> None:
    contract = Contract.from_schema({"pattern": "^(a+)+$"})
    started = time.perf_counter()
    assert contract.issues("a" * 5000 + "!")
    assert time.perf_counter() - started < 5


def test_a_pattern_that_would_fill_memory_is_refused() -> None:
    with pytest.raises(ContractError):
        Contract.from_schema({"pattern": "(a{1,1000}){1,1000}"})


def test_a_recursive_schema_judges_nested_values() -> None:
    schema = {"type": "object", "properties": {"child": {"$ref": "#"}}, "additionalProperties": False}
    contract = Contract.from_schema(schema)
    value: dict[str, Any] = {}
    for _ in range(150):
        value = {"child": value}
    assert contract.accepts(value)
    assert contract.issues({"child": {"child": {"kid": 1}}})[0].path == "/child/child"


def test_references_in_a_circle_end() -> None:
    with pytest.raises(ContractError):
        Contract.from_schema(
            {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/missing"}}}
        )
    circle = {
        "oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}],
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
    }
    assert Contract.from_schema(circle).discriminator is None
