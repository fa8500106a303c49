"""Which keys of an object make its statement: `x-supported`, `@supported`, and roles that are handed in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel, Field

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.contract.roles import Role
from trustgraph_prompt.errors import ContractError, LanguageError


def said_of(name: str, type: str = "string") -> dict[str, Any]:
    return {"type": type, "x-supported": name}


def roles(schema: dict[str, Any], **more: Any) -> tuple[Role, ...]:
    return Contract.from_schema(schema, **more).roles


def test_marked_key_is_said_of_the_key_that_it_names() -> None:
    schema = {"properties": {"entity": {"type": "string"}, "definition": said_of("entity")}}
    assert roles(schema) == (Role("entity", None, "definition"),)


def test_key_between_two_others_is_the_relation() -> None:
    schema = {
        "properties": {
            "object": said_of("relation"),
            "relation": said_of("subject"),
            "subject": {"type": "string"},
        }
    }
    assert roles(schema) == (Role("subject", "relation", "object"),)


def test_several_keys_may_be_said_of_one() -> None:
    schema = {
        "properties": {"name": {"type": "string"}, "age": said_of("name", "integer"), "job": said_of("name")}
    }
    assert roles(schema) == (Role("name", None, "age"), Role("name", None, "job"))


def test_role_of_a_branch_counts_in_all_branches() -> None:
    schema = {
        "oneOf": [
            {"properties": {"kind": {"const": "a"}, "x": {"type": "string"}, "y": said_of("x")}},
            {"properties": {"kind": {"const": "b"}, "x": {"type": "string"}, "y": {"type": "string"}}},
        ]
    }
    assert roles(schema) == (Role("x", None, "y"),)


def test_key_that_is_said_of_different_keys_is_an_error() -> None:
    keys = {"x": {"type": "string"}, "z": {"type": "string"}}
    branches = [{"properties": {**keys, "y": said_of("x")}}, {"properties": {**keys, "y": said_of("z")}}]
    with pytest.raises(ContractError, match="something else in another branch") as caught:
        Contract.from_schema({"oneOf": branches})
    assert caught.value.path == "/oneOf/1/properties/y/x-supported"


def test_role_applies_to_objects_with_the_values_of_when() -> None:
    role = Role("x", None, "y", (("kind", "a"),))
    assert role.applies({"kind": "a", "x": "1"})
    assert not role.applies({"kind": "b", "x": "1"})
    assert not role.applies({"x": "1"})


def test_roles_of_each_version_count() -> None:
    one = {"properties": {"x": {"type": "string"}, "y": said_of("x")}}
    two = {"properties": {"x": {"type": "string"}, "z": said_of("x")}}
    contract = Contract.from_schema(None, versions={"1.0": one, "2.0": two})
    assert contract.roles == (Role("x", None, "y"), Role("x", None, "z"))


def test_keyword_is_removed_from_the_schema_that_others_see() -> None:
    schema = {"properties": {"x": {"type": "string"}, "y": {"anyOf": [said_of("x"), {"type": "null"}]}}}
    contract = Contract.from_schema(schema)
    assert contract.roles == (Role("x", None, "y"),)
    assert "x-supported" not in str(contract.schema)
    assert "x-supported" in str(schema)
    assert "supported" not in contract.instructions()


def test_schema_language_class_and_json_schema_say_the_same() -> None:
    @dataclass
    class Definition:
        entity: str
        definition: str | None = field(default=None, metadata={"x-supported": "entity"})

    class Model(BaseModel):
        entity: str
        definition: str | None = Field(None, json_schema_extra={"x-supported": "entity"})

    text = "schema D:\n    entity: string\n    definition: string? @supported(of: entity)"
    expected = (Role("entity", None, "definition"),)
    assert Contract.of(Definition).roles == expected
    assert Contract.of(Model).roles == expected
    assert Contract.language(text)["D"].roles == expected


@pytest.mark.parametrize(
    ("y", "path", "message"),
    [
        (said_of("z"), "/properties/y/x-supported", "names no other key"),
        (said_of("y"), "/properties/y/x-supported", "names no other key"),
        (said_of("xx"), "/properties/y/x-supported", "did you mean 'x'"),
        ({"type": "string", "x-supported": ["x"]}, "/properties/y/x-supported", "names no other key"),
        ({"type": "string", "x-supported": None}, "/properties/y/x-supported", "names no other key"),
        ({"type": "array", "items": said_of("x")}, "/properties/y/items/x-supported", "no effect here"),
        ({"properties": {"a": said_of("x")}}, "/properties/y/properties/a/x-supported", "no effect here"),
        ({"x-suported": "x"}, "/properties/y/x-suported", "did you mean 'x-supported'"),
    ],
)
def test_keyword_that_means_nothing_is_an_error_with_its_path(
    y: dict[str, Any], path: str, message: str
) -> None:
    with pytest.raises(ContractError, match=message) as caught:
        Contract.from_schema({"properties": {"x": {"type": "string"}, "y": y}})
    assert caught.value.path == path


@pytest.mark.parametrize(
    "hostile",
    [
        {"properties": 5},
        {"properties": ["x"]},
        {"oneOf": 5},
        {"anyOf": [5, {"properties": 5}, {"properties": {"x": 5, "z": {"enum": 5}}}]},
        {"anyOf": [{"properties": {"x": {"const": [1]}, "y": {"anyOf": 5}}}]},
        {"$ref": "#"},
        {"oneOf": [{"$ref": "#"}]},
    ],
)
def test_schema_that_is_invalid_elsewhere_is_no_other_error(hostile: dict[str, Any]) -> None:
    with pytest.raises(ContractError):
        Contract.from_schema({**hostile, "$defs": {"a": said_of("x")}})


@pytest.mark.parametrize("of", [{"a": "b", "b": "a"}, {"a": "b", "b": "c", "c": "d"}, {"a": "b", "b": ["c"]}])
def test_chain_of_more_than_a_relation_is_an_error(of: dict[str, Any]) -> None:
    keys = {**{key: {"type": "string"} for key in "abcd"}, **{key: said_of(of[key]) for key in of}}
    with pytest.raises(ContractError):
        Contract.from_schema({"properties": keys})


@pytest.mark.parametrize(
    "constraint", ["@supported", "@supported(entity)", "@supported(off: entity)", "@supported(of: a, of: b)"]
)
def test_wrong_arguments_in_the_schema_language_are_an_error_with_an_example(constraint: str) -> None:
    with pytest.raises(LanguageError, match=r"invalid arguments .* expected @supported\(of: name\)"):
        Contract.language(f"schema D:\n    entity: string\n    definition: string {constraint}")


def test_contract_without_a_quote_keeps_its_fingerprint_whatever_roles_are_handed_in() -> None:
    contract = Contract.from_schema({"properties": {"x": {"type": "string"}}})
    assert contract.with_roles([Role("x", None, "y")]) is contract


def test_fingerprint_has_the_roles_that_decide() -> None:
    plain = {"properties": {"x": {"type": "string"}, "y": {"type": "string"}}}
    marked = {"properties": {"x": {"type": "string"}, "y": said_of("x")}}
    own = Contract.from_schema(marked)
    more = own.with_roles([Role("y", None, "x")])
    assert len({Contract.from_schema(plain).fingerprint, own.fingerprint, more.fingerprint}) == 3
    assert more.with_roles([Role("y", None, "x")]) is more
    assert own.with_roles([Role("y", None, "x")]).fingerprint == more.fingerprint
