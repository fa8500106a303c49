"""Contracts from the schema language: `Contract.language`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.contract.from_language import parse_whole
from trustgraph_prompt.errors import ConfigError, ContractError, LanguageError, Reason

TEXT = """
schema Source:
    title: string
    page: int? @min(1)

schema Finding extends Source:
    kind: "bug" | "smell"
    parts: Finding[] = []
"""


def test_each_schema_is_a_contract_of_one_json_value_under_its_name() -> None:
    contracts = Contract.language(TEXT)
    assert list(contracts) == ["Source", "Finding"]
    for name, contract in contracts.items():
        assert (contract.name, contract.format, contract.many) == (name, "json", False)


def test_contract_judges_as_its_text_says() -> None:
    finding = Contract.language(TEXT)["Finding"]
    right = {"title": "x", "kind": "bug", "parts": [{"title": "y", "kind": "smell", "page": None}]}
    assert finding.accepts(right)
    wrong = {**right, "parts": [{"title": 1, "kind": "odd", "page": 0}]}
    assert {issue.path for issue in finding.issues(wrong)} == {
        "/parts/0/title",
        "/parts/0/kind",
        "/parts/0/page",
    }


def test_options_are_those_of_from_schema() -> None:
    contract = Contract.language(
        "schema A:\n  a: int\n  b: int",
        repair=True,
        extra="forbid",
        coerce=True,
        fences="one",
        invariants=["a < b"],
    )["A"]
    assert (contract.repair, contract.extra, contract.coerce, contract.fences) == (
        True,
        "forbid",
        True,
        "one",
    )
    assert contract.accepts({"a": "1", "b": 2})
    assert not contract.accepts({"a": 3, "b": 2})
    assert not contract.accepts({"a": 1, "b": 2, "c": 3})


def test_bytes_are_base64() -> None:
    contract = Contract.language("schema A:\n  a: bytes")["A"]
    assert all(contract.accepts({"a": one}) for one in ("", "aGk=", "aGkh", "aA==", "+/+/"))
    assert not any(contract.accepts({"a": one}) for one in ("aGk", "aG k=", "a", "====", "aGk=\n", 3))


@dataclass
class Place:
    name: str
    within: Place | None = None


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        ({"type": "string", "format": "uri"}, "http://a/b", "a b"),
        (Place, {"name": "Etna", "within": {"name": "Sicily"}}, {"name": "Etna", "within": {}}),
        (list[Place], [{"name": "Etna"}], [{}]),
        (int, 3, "3"),
        (list[int] | None, [3], ["3"]),
    ],
)
def test_types_may_be_json_schemas_or_python_types(kind: Any, right: object, wrong: object) -> None:
    contract = Contract.language("schema A:\n  one: kind\n  many: kind[]", types={"kind": kind})["A"]
    assert contract.accepts({"one": right, "many": [right]})
    assert not contract.accepts({"one": wrong, "many": []})
    assert not contract.accepts({"one": right, "many": [wrong]})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("schema A:\n  a: nothing", "line 2, column 6: unknown type"),
        ('schema A:\n  a: int\n  b: string @pattern("(")', "line 3, column 13: "),
        ('schema A:\n  b: B\nschema B:\n  c: string @format("emial")', "line 4, column 13: unknown format"),
    ],
)
def test_error_in_the_text_names_its_line_and_column(text: str, said: str) -> None:
    with pytest.raises(LanguageError) as caught:
        Contract.language(text)
    assert str(caught.value).startswith(said)
    assert isinstance(caught.value, ConfigError)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('a: date = "tomorrow"', "line 2, column 13: the default is not of the type: expected format date"),
        (
            'a: string @pattern("^a$") = "b"',
            "line 2, column 31: the default is not of the type: expected pattern",
        ),
        (
            "a: int @multiple(5) = 3",
            "line 2, column 25: the default is not of the type: expected multipleOf 5",
        ),
        (
            "a: int[] @unique = [1, 1]",
            "line 2, column 22: the default is not of the type: expected uniqueItems",
        ),
        ("a: B? = {c: {}}", 'line 2, column 11: the default is not of the type: /c: "d" is missing'),
        (
            "a: map[kind] = {x: 1}",
            'line 2, column 18: the default is not of the type: /x: expected "k", found 1',
        ),
    ],
)
def test_default_of_another_type_is_an_error_with_its_line(text: str, said: str) -> None:
    text = f"schema A:\n  {text}\nschema B:\n  c: C\nschema C:\n  d: int\n"
    with pytest.raises(LanguageError) as caught:
        Contract.language(text, types={"kind": {"const": "k"}})
    assert str(caught.value).startswith(said)


def test_defaults_of_their_types_are_accepted() -> None:
    text = (
        'schema A:\n  a: int = 3.0\n  b: B = {n: "x"}\n  c: A[] = [{b: {n: "y"}}]\nschema B:\n  n: string\n'
    )
    assert Contract.language(text)["A"].accepts({})


def test_error_in_an_option_names_no_line() -> None:
    with pytest.raises(ContractError, match="/invariants/0"):
        Contract.language("schema A:\n  a: int", invariants=["a +"])
    with pytest.raises(ContractError):
        Contract.language("schema A:\n  a: kind", types={"kind": object()})


def test_equal_dataclass_has_the_same_fingerprint() -> None:
    text = "schema Place:\n  name: string\n  within: Place? = null"
    by_text = Contract.language(text, extra="forbid")["Place"]
    assert by_text.fingerprint == Contract.of(Place, extra="forbid").fingerprint


def test_schema_that_no_prompt_uses_is_checked_too() -> None:
    text = 'schema Used:\n  a: int\nschema Unused:\n  a: string @pattern("[")\nprompt p expecting Used: "x"\n'
    with pytest.raises(LanguageError) as refused:
        parse_whole(text)
    assert refused.value.where == "line 4, column 13"


def test_closed_schema_refuses_other_keys_unless_the_contract_drops_them() -> None:
    text = "schema Inner closed:\n    n: int\nschema A closed:\n    inner: Inner\n"
    value = {"inner": {"n": 1, "more": 2}, "more": 3}
    issues = Contract.language(text)["A"].issues(value)
    assert {(issue.path, issue.reason) for issue in issues} == {
        ("", Reason.SCHEMA_EXTRA_FIELD),
        ("/inner", Reason.SCHEMA_EXTRA_FIELD),
    }
    assert Contract.language(text, extra="ignore")["A"].take(value) == ({"inner": {"n": 1}}, True)
