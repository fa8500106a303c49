"""Objects in another shape than the one that was asked for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.contract.limits import Limits
from trustgraph_prompt.errors import Reason
from trustgraph_prompt.reader import Outcome, Stage, StreamReader, read

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "height": {"type": "integer"}},
    "required": ["name", "height"],
}
PEAKS = Contract.from_schema(SCHEMA, format="jsonl")
ETNA = {"name": "Etna", "height": 3403}
FUJI = {"name": "Fuji", "height": 3776}
BOTH = json.dumps([ETNA, FUJI])


def stream(text: str, contract: Contract, size: int = 1) -> tuple[list[object], Outcome]:
    reader = StreamReader(contract)
    given = [value for at in range(0, len(text), size) for value in reader.feed(text[at : at + size])]
    return given, reader.close()


HELD = {
    "a status beside the list": f'{{"status": "ok", "peaks": {BOTH}}}',
    "a status beside a wrapper": f'{{"status": "ok", "result": {{"count": 2, "peaks": {BOTH}}}}}',
    "four levels": f'{{"ok": true, "a": {{"b": {{"c": {{"peaks": {BOTH}}}}}}}}}',
    "two lists": f'{{"status": "ok", "high": [{json.dumps(ETNA)}], "higher": [{json.dumps(FUJI)}]}}',
    "a list of other things": f'{{"notes": ["a", "b"], "peaks": {BOTH}}}',
    "one that is declared like it": f'{{"meta": {{"kind": "peaks"}}, "peaks": {BOTH}, "more": []}}',
    "names as keys": '{"Etna": {"height": 3403}, "Fuji": {"height": 3776}}',
    "names as keys in a wrapper": '{"peaks": {"Etna": {"height": 3403}, "Fuji": {"height": 3776}}}',
    "a call": f'<tool_call>\n{{"name": "save", "arguments": {{"peaks": {BOTH}}}}}\n</tool_call>',
    "calls": "\n".join(
        f'<tool_call>\n{{"name": "save", "arguments": {json.dumps(peak)}}}\n</tool_call>'
        for peak in (ETNA, FUJI)
    ),
}


@pytest.mark.parametrize("text", HELD.values(), ids=HELD.keys())
class TestHeldBack:
    def test_objects_in_another_shape_are_found_when_the_answer_ends(self, text: str) -> None:
        outcome = read(text, PEAKS)
        assert (outcome.value, outcome.rejected, outcome.stage) == ([ETNA, FUJI], (), Stage.EXTRACTED)

    @pytest.mark.parametrize("size", [1, 5, 1_000])
    def test_objects_in_another_shape_are_given_only_at_the_end(self, text: str, size: int) -> None:
        assert stream(text, PEAKS, size) == ([], read(text, PEAKS))

    def test_json_list_in_another_shape_is_found(self, text: str) -> None:
        if text.count("<tool_call>") < 2:
            outcome = read(text, Contract.from_schema(SCHEMA, many=True))
            assert (outcome.value, outcome.stage) == ([ETNA, FUJI], Stage.EXTRACTED)

    def test_json_list_in_another_shape_is_not_found_with_strict_fences(self, text: str) -> None:
        assert not read(text, Contract.from_schema(SCHEMA, many=True, fences="strict")).ok

    def test_draft_in_another_shape_is_dropped(self, text: str) -> None:
        for draft in (f"Hm.\n{text}</think>", f"so <think>{text}</think>"):
            outcome = read(f"{draft}\n{json.dumps(FUJI)}", PEAKS)
            assert (outcome.value, outcome.retracted) == ([FUJI], ())


def test_list_in_wrappers_with_nothing_before_it_is_given_as_it_comes() -> None:
    text = f'{{"result": {{"peaks": {BOTH}, "more": 1}}, "status": "ok"}}'
    given, outcome = stream(text, PEAKS)
    assert given == outcome.value == [ETNA, FUJI]
    assert read(text, PEAKS) == outcome


@pytest.mark.parametrize(
    "before",
    [
        '{"status": "ok", "peaks": [',
        '{"n": {"m": 1}, "a": {"b": {"peaks": [',
        '{"result": {"a": 1, "peaks": [',
    ],
)
def test_complete_objects_of_a_truncated_answer_are_found(before: str) -> None:
    text = f"{before}{json.dumps(ETNA)}, {json.dumps(FUJI)}, {{"
    first, second = text.index('}, {"name') + 1, len(text) - 3
    for cut in range(len(before), len(text)):
        outcome = read(text[:cut], PEAKS)
        assert outcome.value == [ETNA, FUJI][: (cut >= first) + (cut >= second)]
        assert outcome.truncated is True
        assert stream(text[:cut], PEAKS, 3) == ([], outcome)


@pytest.mark.parametrize(
    "text",
    [
        f'{{"name": "Alps", "peaks": {BOTH}}}',
        f'{{"status": "ok", "height": 1, "peaks": {BOTH}}}',
        f'{{"a": {{"b": {{"c": {{"d": {{"peaks": {BOTH}}}}}}}}}}}',
        '{"status": "ok", "peaks": [{"name": "Etna"}]}',
        '{"Etna": {"height": 3403}, "status": "ok"}',
        '{"Etna": {"height": "high"}}',
        '{"name": "save", "arguments": {"height": 3}}',
        '{"name": "save", "arguments": {"name": "Etna", "height": 3}, "id": 1}',
    ],
)
def test_object_in_no_known_shape_is_rejected_as_a_whole(text: str) -> None:
    outcome = read(text, PEAKS)
    assert (outcome.value, [rejected.raw for rejected in outcome.rejected]) == ([], [text])
    assert stream(text, PEAKS) == ([], outcome)


def test_name_that_fits_two_keys_is_filled_into_neither() -> None:
    people = {
        "properties": {"first": {"type": "string"}, "last": {"type": "string"}},
        "required": ["first", "last"],
    }
    either = Contract.from_schema(
        {"anyOf": [{**people, "required": ["first"]}, {**people, "required": ["last"]}]}, format="jsonl"
    )
    assert read('{"Ada": {"born": 1815}}', either).value == []
    assert read('{"Ada": {"last": "Lovelace"}}', Contract.from_schema(people, format="jsonl")).value == [
        {"first": "Ada", "last": "Lovelace"}
    ]


@pytest.mark.parametrize("text", ['{"Etna": {"height": 3403}}', json.dumps({"name": "f", "arguments": ETNA})])
def test_json_value_is_found_under_its_name_or_in_a_call(text: str) -> None:
    assert read(f"Here: {text}", Contract.from_schema(SCHEMA)).value == ETNA
    assert not read(f"Here: {text} {text.replace('3403', '1')}", Contract.from_schema(SCHEMA)).ok


def test_value_in_the_requested_shape_goes_before_another_shape() -> None:
    text = f'Not {{"Etna": {{"height": 1}}}} but {json.dumps(ETNA)}'
    assert read(text, Contract.from_schema(SCHEMA)).value == ETNA


def test_object_that_the_contract_accepts_is_no_wrapper() -> None:
    text = f'{{"status": "ok", "peaks": {BOTH}}}'
    assert read(text, "jsonl").value == [json.loads(text)]
    assert read(text[:-1], "jsonl").value == []


def test_rejected_object_of_a_held_back_list_has_its_place() -> None:
    text = f'{{"status": "ok", "peaks": [{json.dumps(ETNA)}, {{"name": "Fuji"}}]}}'
    outcome = read(text, PEAKS)
    [rejected] = outcome.rejected
    assert (outcome.value, rejected.raw, rejected.start) == (
        [ETNA],
        '{"name": "Fuji"}',
        text.index('{"name": "Fuji"'),
    )
    assert rejected.issues[0].reason is Reason.SCHEMA_MISSING_FIELD


def test_objects_held_back_are_dropped_where_the_wrapper_is_accepted() -> None:
    lax = Contract.from_schema(
        {"type": "object", "anyOf": [{**SCHEMA, "additionalProperties": False}, {"required": ["total"]}]},
        format="jsonl",
    )
    text = f'{{"items": [{{"status": "ok", "peaks": {BOTH}}}], "total": 1}}'
    assert read(text, lax).value == [json.loads(text)]


def test_objects_held_back_count_towards_the_limit() -> None:
    contract = Contract.from_schema(SCHEMA, format="jsonl", limits=Limits(objects=3))
    outcome = read(f'{BOTH}\n{{"status": "ok", "peaks": {BOTH}}}', contract)
    assert (len(outcome.value), outcome.truncated) == (3, True)


def test_objects_held_back_are_kept_where_too_many_others_are_refused() -> None:
    outcome = read(f'{{"status": "ok", "peaks": {BOTH}}}' + '{"name": "Etna"}' * 1_001, PEAKS)
    assert (outcome.value, len(outcome.rejected), outcome.truncated) == ([ETNA, FUJI], 1_000, True)


def test_first_thousand_objects_in_other_shapes_count() -> None:
    outcome = read(json.dumps({"name": "save", "arguments": ETNA}) * 2_001, PEAKS)
    assert (outcome.value, len(outcome.rejected)) == ([ETNA] * 1_000, 1_000)
    assert outcome.truncated


def test_broken_list_gives_its_complete_objects_and_is_rejected() -> None:
    broken = f'{{"status": "ok", "peaks": [{json.dumps(ETNA)}, {{"name": oops}}, {json.dumps(ETNA)}]}}'
    outcome = read(f"{broken}\n{json.dumps(FUJI)}", PEAKS)
    assert (outcome.value, [rejected.raw for rejected in outcome.rejected]) == ([FUJI, ETNA], [broken])


@pytest.mark.parametrize(
    "text",
    [
        '{"status": "ok", "peaks": []}',
        '{"status": "Success", "count": 0, "result": {"peaks": [], "total": 0}}',
        '{"peaks": [], "count": 0}',
        '{"success": true, "error": null, "data": []}',
    ],
)
def test_status_beside_an_empty_list_means_that_there_is_nothing(text: str) -> None:
    for contract in (PEAKS, Contract.from_schema(SCHEMA, many=True)):
        outcome = read(text, contract)
        assert (outcome.value, outcome.reason, outcome.rejected) == ([], Reason.SUCCESS, ())
        assert stream(text, contract) == ([], outcome)


@pytest.mark.parametrize(
    "text",
    [
        '{"status": "error", "peaks": []}',
        '{"status": "ok", "peaks": [], "missing": []}',
        '{"status": "ok"}',
        '{"title": "Etna", "tags": []}',
        '{"status": "ok", "name": []}',
        '{"status": "ok", "message": "I cannot read this", "peaks": []}',
    ],
)
def test_empty_list_beside_anything_else_is_no_answer(text: str) -> None:
    for contract in (PEAKS, Contract.from_schema(SCHEMA, many=True)):
        assert not read(text, contract).ok


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"NAME": "Etna", "Height": "3403"}', ETNA),
        ('{"NAME": "Etna", "name": "Fuji", "HEIGHT": 3776}', FUJI),
    ],
)
def test_keys_in_capitals_are_read_where_values_are_coerced(text: str, value: dict[str, Any]) -> None:
    assert read(text, PEAKS).value == []
    for extra in (None, "ignore"):
        contract = Contract.from_schema(SCHEMA, format="jsonl", coerce=True, extra=extra)
        [found] = read(text, contract).value
        assert {key: found[key] for key in value} == value


def test_keys_in_capitals_pick_the_branch_that_they_fit() -> None:
    kinds = [
        {**SCHEMA, "properties": {**SCHEMA["properties"], "type": {"const": kind}}, "required": ["type", key]}  # type: ignore[dict-item]
        for kind, key in (("peak", "name"), ("pass", "height"))
    ]
    contract = Contract.from_schema({"oneOf": kinds}, format="jsonl", coerce=True)
    assert read('{"TYPE": "pass", "HEIGHT": 2106}', contract).value == [{"type": "pass", "height": 2106}]
