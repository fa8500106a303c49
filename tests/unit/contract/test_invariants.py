"""Invariants: rules about several members, which a contract has beside its schema."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.steps import is_linear
from trustgraph_prompt.contract import Contract, Invariant
from trustgraph_prompt.errors import ContractError, Issue, Reason

SHOWN = "items_total == none or items_total >= items_shown"


def holds(rule: str, value: Any) -> bool:
    contract = Contract.from_schema(None, invariants=[rule])
    assert contract.accepts(value) == (not contract.issues(value))
    return contract.accepts(value)


@pytest.mark.parametrize(
    ("value", "accepted"),
    [
        ({"items_total": 18, "items_shown": 5}, True),
        ({"items_total": 5, "items_shown": 5}, True),
        ({"items_total": 4, "items_shown": 5}, False),
        ({"items_total": None, "items_shown": 5}, True),
        ({"items_shown": 5}, True),
    ],
)
def test_invariant_compares_several_members(value: Any, accepted: bool) -> None:
    assert holds(SHOWN, value) == accepted


@pytest.mark.parametrize(
    "written",
    [
        {"rule": "a > 0", "message": "a must be positive"},
        ("a > 0", "a must be positive"),
        Invariant("a > 0", "a must be positive"),
    ],
)
def test_broken_invariant_gives_its_message(written: Any) -> None:
    contract = Contract.from_schema(None, invariants=[written])
    assert contract.issues({"a": 0}) == (Issue(Reason.INVARIANT_VIOLATION, "a must be positive"),)
    assert contract.invariants == (Invariant("a > 0", "a must be positive"),)


def test_invariant_without_a_message_is_its_own_message() -> None:
    [issue] = Contract.from_schema(None, invariants=["a > 0"]).issues({"a": 0})
    assert issue.message == "a > 0 does not hold"


def test_each_broken_invariant_is_an_issue() -> None:
    contract = Contract.from_schema(None, invariants=["a > 0", "b > 0", "c > 0"])
    assert [issue.message[0] for issue in contract.issues({"a": 0, "b": 1, "c": "x"})] == ["a", "c"]


def test_invariants_are_judged_only_if_the_schema_is_met() -> None:
    contract = Contract.from_schema({"required": ["a"]}, invariants=["a > 0"])
    assert [issue.reason for issue in contract.issues({})] == [Reason.SCHEMA_MISSING_FIELD]


def test_invariants_see_converted_values() -> None:
    schema = {"properties": {"a": {"type": "integer"}}}
    assert Contract.from_schema(schema, coerce=True, invariants=["a > 5"]).accepts({"a": "12"})


def test_invariants_hold_for_each_element_of_a_list() -> None:
    contract = Contract.from_schema(None, many=True, invariants=["n > 0"])
    assert [issue.path for issue in contract.issues([{"n": 1}, {"n": 0}])] == ["/1"]


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ("a + b == total", {"a": 1, "b": 2.5, "total": 3.5}),
        ("(a - b) * 2 / 4 % 3 == 1", {"a": 5, "b": 3}),
        ("-a < 0", {"a": 1}),
        ("0 <= a < 10", {"a": 3}),
        ("q in ['exact', 'approx']", {"q": "exact"}),
        ("'b' in text and 'z' not in text", {"text": "abc"}),
        ("'k' in o", {"o": {"k": None}}),
        ("sources|length <= shown", {"sources": [1, 2], "shown": 2}),
        ("name|trim|lower == 'etna'", {"name": " Etna "}),
        ("name|upper == 'ETNA'", {"name": "etna"}),
        ("sources[0].title == sources[-1]['title']", {"sources": [{"title": "a"}]}),
        ("a.b.c is none", {}),
        ("a is none and a is defined", {"a": None}),
        ("a is undefined and a is not defined", {}),
        ("not a or b", {"a": True, "b": 1}),
        ("b if a else c", {"a": False, "c": 1}),
        ("this['object-entity'] == true", {"object-entity": True}),
        ("this|length == 2", [1, 2]),
        ("a != 1", {"a": True}),
        ("a == null", {"a": None}),
        ("a == 12345678901234567890", {"a": 12345678901234567890}),
    ],
)
def test_rules_with_operators_tests_and_filters_hold(rule: str, value: Any) -> None:
    assert holds(rule, value)


@pytest.mark.parametrize(
    ("rule", "value", "said"),
    [
        ("a > 1", {"a": "x"}, "expected a number, found a string"),
        ("a > 1", {}, "expected a number, found null"),
        ("a > 1", {"a": True}, "expected a number, found a boolean"),
        ("a > 1", 5, "expected a number, found null"),
        ("a / b > 1", {"a": 1, "b": 0}, "division by zero"),
        ("a * 3", {"a": "x"}, "expected a number, found a string"),
        ("a + b", {"a": [], "b": []}, "expected a number, found an array"),
        ("a * a * a > 0", {"a": 10**4_000}, "becomes too large"),
        ("a * a > 0", {"a": 1e300}, "becomes too large"),
        ("a / 3 > 0", {"a": 10**4_000}, "too large"),
        ("a|length > 1", {"a": 5}, "a number has no length"),
        ("a|lower == 'x'", {"a": None}, "expected a string, found null"),
        ("1 in a", {"a": "1"}, "cannot look for a number in a string"),
    ],
)
def test_rule_that_cannot_be_evaluated_is_broken_and_says_why(rule: str, value: Any, said: str) -> None:
    contract = Contract.from_schema(None, invariants=[{"rule": rule, "message": "m"}])
    [issue] = contract.issues(value)
    assert issue.reason is Reason.INVARIANT_VIOLATION
    assert issue.message.startswith("m (cannot be evaluated: ")
    assert said in issue.message


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("a ** 99", "pow is not available"),
        ("a // 2", "floordiv is not available"),
        ("a ~ b", "concat is not available"),
        ("a()", "a call is not available"),
        ("range(10)", "a call is not available"),
        ("a.items()", "a call is not available"),
        ("a|map('x')", "`map` is not available"),
        ("a|length(1)", "`length` is not available"),
        ("a is divisibleby 2", "`divisibleby` is not available"),
        ("a[1:2]", "slice is not available"),
        ("{'a': 1}", "dict is not available"),
        ("a >", "invalid rule"),
        ("", "invalid rule"),
        ("a }} {{ b", "invalid rule"),
        ("[x for x in a]", "invalid rule"),
        ("(" * 1_000, "invalid rule"),
        ("a" * 3_000, "too long"),
        ("+".join("a" * 150), "too large"),
        ("not " * 400 + "a", "too large"),
    ],
)
def test_rule_with_unavailable_syntax_is_refused_on_load(rule: str, said: str) -> None:
    with pytest.raises(ContractError) as raised:
        Contract.from_schema(None, invariants=["a", rule])
    assert raised.value.path == "/invariants/1"
    assert said in str(raised.value)
    assert len(str(raised.value)) < 500


@pytest.mark.parametrize(
    "written", [5, None, [], {"message": "m"}, {"rule": 5}, {"rule": "a", "if": "b"}, ["a", 1]]
)
def test_malformed_invariant_is_refused(written: Any) -> None:
    with pytest.raises(ContractError, match="invalid invariant"):
        Contract.from_schema(None, invariants=[written])


def test_too_many_invariants_are_refused() -> None:
    with pytest.raises(ContractError, match="too many invariants"):
        Contract.from_schema(None, invariants=["a"] * 1_000)


def test_rules_reach_data_only() -> None:
    assert holds(
        "self.__class__ is undefined and a.__class__ is undefined and this.get is undefined", {"a": 1}
    )


def test_largest_rule_takes_linear_time() -> None:
    rule = " or ".join(["'zz' in a"] * 40)
    contract = Contract.from_schema(None, invariants=[rule])
    assert is_linear(lambda size: contract.issues({"a": "z" + "xz" * size}), 5_000)
    contract = Contract.from_schema(None, invariants=[" and ".join(["a == b"] * 40)])
    assert is_linear(lambda size: contract.issues({"a": [[1]] * size, "b": [[1]] * size}), 500)


@given(st.text(alphabet="ab01.()[]'\"+-*/%<>=!|~,{} \n" + "notnonein", max_size=30))
def test_any_text_is_a_rule_or_a_contract_error(rule: str) -> None:
    try:
        contract = Contract.from_schema(None, invariants=[rule])
    except ContractError:
        return
    assert contract.accepts({"a": 1}) in (True, False)
