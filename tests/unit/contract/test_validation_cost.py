"""What judging one answer takes is counted; beyond a limit the verdict says so."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from tests.support.asking import Script
from trustgraph_prompt.ask import ask
from trustgraph_prompt.contract import Contract, Limits
from trustgraph_prompt.contract.limits import StepMeter, TooCostly
from trustgraph_prompt.errors import Reason
from trustgraph_prompt.llm import ScriptedAnswer
from trustgraph_prompt.prompts import PromptDefinition, Question
from trustgraph_prompt.reader import StreamReader, read

MANY_WAYS = {"properties": {"n": {"items": {"anyOf": [{"const": [way]} for way in range(100)]}}}}
FEW = Limits(steps=2_000_000)


def demanding(limits: Limits = FEW) -> Contract:
    """Each element of `n` is held against a hundred lists."""
    return Contract.from_schema(MANY_WAYS, format="jsonl", name="claims", limits=limits)


def lines(objects: int, lists: int = 10, one: int = 0) -> str:
    return "\n".join(json.dumps({"n": [[one]] * lists}) for _ in range(objects))


def test_answer_is_read_until_its_effort_is_spent() -> None:
    outcome = read(lines(100), demanding())
    assert outcome.ok
    assert 10 < len(outcome.value) < 100
    assert outcome.truncated
    [issue] = outcome.issues
    assert issue.reason is Reason.EFFORT_SPENT
    assert "by the contract 'claims' takes" in issue.message
    assert "and 2,000,000 are allowed: the rest was not read" in issue.message
    assert outcome.contract == demanding()


def test_refused_objects_spend_effort_too() -> None:
    outcome = read(lines(100, one=-1), demanding())
    assert outcome.reason is Reason.EFFORT_SPENT
    assert outcome.value == []
    assert 5 < len(outcome.rejected) < 100


def test_number_of_objects_judged_does_not_grow_with_the_answer() -> None:
    def judged(objects: int) -> int:
        return len(read(lines(objects, one=-1), demanding()).rejected)

    assert judged(800) == judged(100)


@pytest.mark.parametrize("size", [1, 700, 10_000])
def test_objects_judged_do_not_depend_on_the_chunks(size: int) -> None:
    text = lines(100) + "\nThat is all."
    reader = StreamReader(demanding())
    given: list[object] = []
    for start in range(0, len(text), size):
        given += reader.feed(text[start : start + size])
    outcome, whole = reader.close(), read(text, demanding())
    assert whole.issues[0].reason is Reason.EFFORT_SPENT
    assert (outcome.value, outcome.issues, outcome.truncated) == (whole.value, whole.issues, whole.truncated)
    assert given == whole.value


def test_each_answer_has_its_own_effort() -> None:
    contract = demanding()
    assert read(lines(100), contract).issues
    assert not read(lines(20), contract).issues


def test_value_that_takes_too_much_is_refused_and_later_ones_are_judged() -> None:
    text = "\n".join([lines(1, 5_000, one=-1), lines(1)])
    outcome = read(text, demanding(Limits()))
    assert len(outcome.value) == 1
    assert "too large" in outcome.rejected[0].issues[0].message


def test_rules_over_long_lists_spend_effort() -> None:
    rules = ["a in b"] * 100
    contract = Contract.from_schema(None, format="jsonl", invariants=rules, limits=FEW)
    one = json.dumps({"a": 1, "b": [0] * 200 + [1]})
    outcome = read("\n".join([one] * 5), contract)
    assert len(outcome.value) == 1
    assert "by its contract takes" in outcome.issues[0].message


_TEXTS = ["a|upper == 'x'", "(a|trim) < b", "'x' in a"]
_CONTAINERS = ["a != b", "a not in [b]", "this.a in [b, b]"]


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        *((rule, "y" * 20_000) for rule in _TEXTS),
        *((rule, ["y"] * 1_000) for rule in _CONTAINERS),
        *((rule, {"y": [[1, 2, 3]] * 200}) for rule in _CONTAINERS),
    ],
)
def test_rules_spend_effort_on_all_that_they_look_through(rule: str, value: object) -> None:
    contract = Contract.from_schema(None, invariants=[rule] * 100, limits=Limits(steps=1_000_000))
    outcome = read(json.dumps({"a": value, "b": value}), contract)
    assert outcome.reason is Reason.EFFORT_SPENT


def test_json_value_whose_rules_take_too_much_has_the_reason_effort_spent() -> None:
    contract = Contract.from_schema(None, invariants=["a in b"] * 100, name="totals", limits=FEW)
    outcome = read(json.dumps({"a": -1, "b": [0] * 600}), contract)
    assert (outcome.reason, outcome.value) == (Reason.EFFORT_SPENT, None)
    assert "by the contract 'totals' takes" in outcome.explain()


def test_explanations_leave_effort_for_verdicts() -> None:
    schema = {"properties": {"n": {"items": {"type": "integer"}}}}
    wrong = json.dumps({"n": ["x"] * 50})
    contract = Contract.from_schema(schema, format="jsonl", limits=FEW)
    outcome = read("\n".join([wrong] * 100 + ['{"n": [1]}']), contract)
    assert outcome.value == [{"n": [1]}]
    assert outcome.rejected[0].issues[0].path == "/n/0"
    assert outcome.rejected[99].issues[0].message.startswith("does not meet the schema")


@pytest.mark.parametrize("settings", [{"extra": "ignore"}, {"extra": "forbid"}, {"coerce": True}])
def test_conforming_values_spends_effort(settings: dict[str, Any]) -> None:
    schema = {"properties": {"n": {"items": {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}}}}
    contract = Contract.from_schema(schema, format="jsonl", limits=FEW, **settings)
    text = "\n".join([json.dumps({"n": [{"a": number} for number in range(10)]})] * 100)
    outcome = read(text, contract)
    assert 0 < len(outcome.value) < 100
    assert outcome.issues[0].reason is Reason.EFFORT_SPENT


def test_contract_conforms_values_in_several_threads() -> None:
    branches = [{"properties": {"kind": {"const": kind}, str(kind): True}} for kind in range(50)]
    contract = Contract.from_schema({"oneOf": branches}, extra="ignore", coerce=True)
    values = [{"kind": number % 50, str(number % 50): 1, "other": 2} for number in range(500)]

    def conformed(_: int) -> list[Any]:
        return [contract.conform(value) for value in values]

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(conformed, range(4)))
    assert found == [[{"kind": number % 50, str(number % 50): 1} for number in range(500)]] * 4


def test_values_too_large_for_one_native_call_are_judged_in_several() -> None:
    contract = demanding(Limits())
    values = [{"n": [[0]] * 200}] * 100
    sizes = [len(json.dumps(value)) for value in values]
    assert contract.take_all(values, sum(sizes), max(sizes)) == values
    values[-1] = {"n": [[-1]]}
    assert contract.take_all(values, sum(sizes), max(sizes)) is None


def test_step_meter_says_what_was_taken_and_what_is_allowed() -> None:
    meter = StepMeter("claims", 100)
    meter.spend(90)
    with pytest.raises(TooCostly) as caught:
        meter.spend(300)
    assert str(caught.value) == (
        "judging the answer by the contract 'claims' takes 390 steps or more, and 100 are allowed"
    )
    with pytest.raises(TooCostly, match="390"):
        meter.spend(1)


async def test_answer_beyond_its_effort_is_not_asked_for_again() -> None:
    prompt = PromptDefinition.from_entry("claims", {"dialect": "jinja", "prompt": "?", "attempts": 3})
    script = Script(ScriptedAnswer(lines(100, one=-1)))
    outcome = await ask(replace(prompt, contract=demanding()), Question("", "?"), script)
    assert outcome.reason is Reason.EFFORT_SPENT
    assert len(outcome.calls) == 1


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def events(kinds: int) -> dict[str, Any]:
    """A union as Pydantic writes it: its branches share a definition, and have optional members."""
    entity = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "uri": _or_null({"type": "string"})},
        "required": ["name"],
    }
    shared = {"$ref": "#/$defs/Entity"}
    definitions = {
        f"Event{kind}": {
            "type": "object",
            "properties": {
                "type": {"const": f"event-{kind}"},
                "subject": shared,
                "object": _or_null(shared),
                "others": _or_null({"type": "array", "items": shared}),
                "note": _or_null({"type": "string"}),
            },
            "required": ["type", "subject"],
        }
        for kind in range(kinds)
    }
    branches = [{"$ref": f"#/$defs/{name}"} for name in definitions]
    return {"$defs": {"Entity": entity, **definitions}, "oneOf": branches}


def event(kind: int, characters: int, **subject: object) -> dict[str, Any]:
    entity = {"name": "Etna", "uri": None}
    bare = {"type": f"event-{kind}", "subject": subject, "object": entity, "others": [entity] * 3}
    return {**bare, "note": "x" * (characters - len(json.dumps(bare)))}


@pytest.mark.parametrize(("kinds", "characters"), [(10, 2_000), (20, 800), (100, 800), (100, 2_000)])
def test_issue_of_a_large_union_names_the_path_in_the_matching_branch(kinds: int, characters: int) -> None:
    contract = Contract.from_schema(events(kinds))
    [missing] = contract.issues(event(kinds - 1, characters))
    assert (missing.reason, str(missing)) == (Reason.SCHEMA_MISSING_FIELD, '/subject: "name" is missing')
    [wrong] = contract.issues(event(0, characters, name=5))
    assert str(wrong) == "/subject/name: expected string, found integer 5"


def test_each_of_many_refused_objects_of_a_union_is_explained() -> None:
    contract = Contract.from_schema(events(5), format="jsonl")
    outcome = read("\n".join(json.dumps(event(number % 5, 600)) for number in range(168)), contract)
    assert {str(issue) for one in outcome.rejected for issue in one.issues} == {'/subject: "name" is missing'}
    assert len(outcome.rejected) == 168


def test_issue_of_a_large_union_lists_its_branches() -> None:
    contract = Contract.from_schema(events(100))
    [missing] = contract.issues({"subject": {"name": "x" * 2_000}})
    assert str(missing).startswith('"type" is missing, expected "event-0" or "event-1"')
    [unknown] = contract.issues({"type": "event", "subject": {"name": "x" * 2_000}})
    assert str(unknown).startswith('/type: expected "event-0" or "event-1"')


def test_issue_beside_a_large_union_is_reported_too() -> None:
    contract = Contract.from_schema({**events(3), "required": ["id"]})
    issues = contract.issues(event(0, 300))
    assert sorted(map(str, issues)) == ['"id" is missing', '/subject: "name" is missing']


@pytest.mark.parametrize("settings", [{}, {"coerce": True}, {"extra": "ignore"}, {"extra": "forbid"}])
def test_branches_ruled_out_by_their_discriminator_take_one_step(settings: dict[str, Any]) -> None:
    limits = Limits(steps=30_000_000)
    contract = Contract.from_schema(events(100), format="jsonl", limits=limits, **settings)
    outcome = read(
        "\n".join(json.dumps(event(number % 100, 600, name="x")) for number in range(200)), contract
    )
    assert (len(outcome.value), outcome.issues) == (200, ())


@pytest.mark.parametrize(
    ("named", "required"),
    [
        (lambda kind: {"enum": [f"event-{kind}", f"Event-{kind}"]}, ["type"]),
        (lambda kind: {"const": kind or "event-0"}, ["type"]),
        (lambda kind: {"const": f"event-{kind}"}, []),
    ],
)
def test_branches_without_a_decisive_discriminator_count_in_full(
    named: Callable[[int], dict[str, Any]], required: list[str]
) -> None:
    branches = [
        {"type": "object", "properties": {"type": named(kind)}, "required": required} for kind in range(100)
    ]
    contract = Contract.from_schema({"oneOf": branches}, format="jsonl", limits=Limits(steps=1_000_000))
    line = json.dumps({"type": "event-0", "note": "x" * 600})
    outcome = read("\n".join([line] * 50), contract)
    assert outcome.issues[0].reason is Reason.EFFORT_SPENT


def test_large_union_within_a_value_is_not_explained() -> None:
    schema = events(100)
    definitions = schema.pop("$defs")
    contract = Contract.from_schema({"$defs": definitions, "properties": {"event": schema}})
    assert contract.accepts({"event": event(1, 2_000, name="x")})
    [issue] = contract.issues({"event": event(1, 2_000)})
    assert issue.message == "does not meet the schema, and is too large to say where"
