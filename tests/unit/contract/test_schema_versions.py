"""Schemas by version: which one judges a value, and what becomes of the keys of a newer one."""

from __future__ import annotations

from typing import Any

import pytest

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import ContractError, Reason

V1 = {
    "properties": {"answer": {"type": "string"}, "items_shown": {"type": "integer"}},
    "required": ["answer", "items_shown"],
}
V2 = {"properties": {"response": {"type": "string"}}, "required": ["response"]}
VERSIONED = Contract.from_schema(None, versions={"2.0": V2, "1.0": V1})
ONE = {"answer": "a", "items_shown": 1}


@pytest.mark.parametrize(
    ("version", "value", "accepted"),
    [
        ("1.0", ONE, True),
        ("1.1", ONE, True),
        ("1.25", {**ONE, "confidence": 1}, True),
        ("1.1", {"answer": "a"}, False),
        ("2.0", {"response": "a"}, True),
        ("2.3", ONE, False),
        (None, ONE, False),
        (None, {"response": "a"}, False),
    ],
)
def test_version_of_a_value_picks_its_schema(version: str | None, value: Any, accepted: bool) -> None:
    assert VERSIONED.accepts({**value, "schema_version": version}) == accepted


def test_value_without_a_version_is_judged_by_the_plain_schema() -> None:
    assert VERSIONED.accepts(ONE)
    assert VERSIONED.take_all([ONE, {"schema_version": "2.0", "response": "a"}]) is not None
    assert not VERSIONED.accepts({"response": "a"})
    assert Contract.from_schema(V2, versions={"1.0": V1}).accepts({"response": "a"})


@pytest.mark.parametrize(
    "version", ["3.0", "9.9", "0.9", 2, 1.0, True, [1], {}, "", "1", "1.0.0", "v1.0", "1.x", "１.0"]
)
def test_unknown_version_is_the_only_issue(version: Any) -> None:
    value = {**ONE, "schema_version": version}
    [issue] = VERSIONED.issues(value)
    assert (issue.reason, issue.path) == (Reason.UNSUPPORTED_VERSION, "/schema_version")
    assert issue.message.startswith("expected 1.x or 2.x, found ")
    assert VERSIONED.conform(value) is value
    assert not VERSIONED.accepts(value)


def test_newest_minor_version_up_to_that_of_the_value_decides() -> None:
    contract = Contract.from_schema(
        None, versions={"1.2": {"required": ["a"]}, "1.5": {"required": ["a", "b"]}}
    )
    assert contract.accepts({"a": 1, "schema_version": "1.4"})
    assert not contract.accepts({"a": 1, "schema_version": "1.5"})
    assert not contract.accepts({"a": 1, "schema_version": "1.10"})
    assert contract.accepts({"a": 1, "schema_version": "1.0"})


def test_version_in_an_example_of_a_closed_schema_declares_no_key() -> None:
    closed = {**V1, "additionalProperties": False, "examples": [{"schema_version": "1.0", **ONE}]}
    contract = Contract.from_schema(None, versions={"1.0": closed})
    assert contract.accepts({"schema_version": "1.0", **ONE})


def test_closed_schema_may_omit_the_key_of_its_version() -> None:
    named = {**V1, "properties": {**V1["properties"], "schema_version": {"const": "1.0"}}}  # type: ignore[dict-item]
    for schema in (V1, named):
        contract = Contract.from_schema(None, versions={"1.0": {**schema, "additionalProperties": False}})
        for version in ("1.0", "1.3"):
            value = {"schema_version": version, **ONE}
            assert contract.accepts(value)
            assert contract.conform(value) is value


def test_keys_of_a_newer_minor_version_are_dropped_in_a_closed_schema() -> None:
    contract = Contract.from_schema(None, versions={"1.0": {**V1, "additionalProperties": False}})
    newer = {"schema_version": "1.1", "confidence": 0.5, **ONE}
    assert contract.conform(newer) == {"schema_version": "1.1", **ONE}
    assert list(contract.conform(newer)) == ["schema_version", "answer", "items_shown"]
    assert contract.accepts(newer)
    same = {**newer, "schema_version": "1.0"}
    assert [issue.reason for issue in contract.issues(same)] == [Reason.SCHEMA_EXTRA_FIELD]
    forbids = Contract.from_schema(None, versions={"1.0": V1}, extra="forbid")
    assert [issue.reason for issue in forbids.issues(newer)] == [Reason.SCHEMA_EXTRA_FIELD]


def test_values_of_each_version_are_converted_by_its_schema() -> None:
    contract = Contract.from_schema(None, versions={"1.0": V1, "2.0": V2}, coerce=True)
    assert contract.conform({"schema_version": "1.0", "items_shown": "5"}) == {
        "schema_version": "1.0",
        "items_shown": 5,
    }
    assert contract.names() == {"answer", "items_shown", "response"}
    assert contract.declares("answer")


def test_schema_of_a_versioned_contract_is_the_newest() -> None:
    assert VERSIONED.schema == V2
    assert Contract.from_schema(V1, versions={"1.0": V1, "2.0": V2}).schema == V1
    assert VERSIONED.versions == {"1.0": V1, "2.0": V2}


@pytest.mark.parametrize("value", [None, 5, "x", [], [ONE]])
def test_value_that_is_no_object_has_no_version(value: Any) -> None:
    assert Contract.from_schema(None, versions={"1.0": {"type": "object"}}).issues(value)[0].reason is (
        Reason.SCHEMA_TYPE_ERROR
    )


@pytest.mark.parametrize(
    ("versions", "path", "said"),
    [
        ({}, "/versions", "invalid versions"),
        ({"1": V1}, "/versions", 'expected such as "1.0"'),
        ({1.0: V1}, "/versions", 'expected such as "1.0"'),
        ([V1], "/versions", "invalid versions"),
        ({"1.0": {"type": "strin"}}, "/versions/1.0/type", "'string'"),
        ({"1.0": 5}, "/versions/1.0", "not a JSON Schema"),
        ({f"{n}.0": True for n in range(1_000)}, "/versions", "1 to 50 versions"),
    ],
)
def test_malformed_versions_are_refused(versions: Any, path: str, said: str) -> None:
    with pytest.raises(ContractError) as raised:
        Contract.from_schema(None, versions=versions)
    assert raised.value.path == path
    assert said in str(raised.value)
    assert len(str(raised.value)) < 400


def test_text_has_neither_versions_nor_invariants() -> None:
    for more in ({"versions": {"1.0": V1}}, {"invariants": ["a > 1"]}):
        with pytest.raises(ContractError, match="an answer of format text has no schema"):
            Contract.from_schema(None, format="text", **more)
