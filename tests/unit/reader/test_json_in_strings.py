"""Lists and objects that a model wrote as JSON in a string."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.steps import is_linear
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import Reason
from trustgraph_prompt.reader import Outcome, Stage, StreamReader, read

NUMBERS = {"type": "array", "items": {"type": "integer"}}
PLAN = {
    "type": "object",
    "properties": {
        "steps": {"type": "array", "items": {"type": "string"}},
        "source": {"type": ["object", "null"], "properties": {"pages": NUMBERS}},
        "numbers": {"anyOf": [NUMBERS, {"type": "null"}]},
        "note": {"type": "string", "maxLength": 20},
        "loose": {},
        "either": {"type": ["string", "array"]},
    },
    "required": ["steps"],
}
ALLOWED: list[dict[str, Any]] = [{"coerce": True}, {"repair": True}, {"coerce": True, "extra": "ignore"}]
LIST = json.dumps('["a", "b"]')


def opened(member: str, settings: dict[str, Any], **more: Any) -> Outcome:
    return read(f'{{"steps": ["x"], {member}}}', Contract.from_schema(PLAN, **settings, **more))


@pytest.mark.parametrize("settings", ALLOWED)
@pytest.mark.parametrize(
    ("member", "value"),
    [
        (f'"steps": {LIST}', ["a", "b"]),
        (r'"steps": " [\"a\",\n \"b\"] "', ["a", "b"]),
        (r'"source": "{\"pages\": [1, 2]}"', {"pages": [1, 2]}),
        (r'"source": "{\"pages\": \"[1, 2]\"}"', {"pages": [1, 2]}),
        (r'"source": {"pages": "[12345678901234567890123]"}', {"pages": [12345678901234567890123]}),
        (r'"numbers": "[1, 2]"', [1, 2]),
    ],
)
def test_list_in_a_string_is_read_where_a_list_is_wanted(
    member: str, value: Any, settings: dict[str, Any]
) -> None:
    outcome = opened(member, settings)
    name = json.loads(f"{{{member}}}").popitem()[0]
    assert outcome.unwrap()[name] == value
    assert outcome.stage is Stage.REPAIRED
    [repaired] = outcome.repaired
    assert [edit.what for edit in repaired.edits] == ["JSON in a string"]
    assert outcome == opened(member, settings)


@pytest.mark.parametrize("settings", ALLOWED)
@pytest.mark.parametrize("member", ['"note": "[1]"', '"loose": "[1]"', '"either": "[1]"', '"loose": ["{}"]'])
def test_string_that_may_be_a_string_stays_one(member: str, settings: dict[str, Any]) -> None:
    outcome = opened(member, settings)
    assert json.loads(f"{{{member}}}").items() <= outcome.unwrap().items()
    assert not outcome.repaired


@pytest.mark.parametrize("settings", [{}, {"extra": "ignore"}])
def test_list_in_a_string_is_refused_without_coerce_or_repair(settings: dict[str, Any]) -> None:
    assert opened(f'"steps": {LIST}', settings).reason is Reason.SCHEMA_TYPE_ERROR


@pytest.mark.parametrize("settings", ALLOWED)
@pytest.mark.parametrize(
    ("member", "path"),
    [
        ('"steps": "[1"', "/steps"),
        ('"steps": "{}"', "/steps"),
        ('"steps": "[NaN]"', "/steps"),
        ('"steps": "[1]"', "/steps/0"),
        ('"note": "[1, 2, 3, 4, 5, 6, 7]"', "/note"),
        (f'"steps": "{"[" * 5_000}{"]" * 5_000}"', "/steps"),
    ],
)
def test_value_in_a_string_is_judged_like_any_value(member: str, path: str, settings: dict[str, Any]) -> None:
    [rejected] = opened(member, settings).rejected
    assert rejected.issues[0].path == path


def test_value_in_a_string_is_converted_like_any_value() -> None:
    contract = Contract.from_schema(PLAN, coerce=True)
    assert read(r'{"steps": [], "numbers": "[\"1\", 2.0]"}', contract).value["numbers"] == [1, 2]


def test_string_with_a_value_nested_too_deep_is_not_opened() -> None:
    contract = Contract.from_schema({"properties": {"a": {"type": "array"}}}, coerce=True)
    text = json.dumps({"a": "[" * 300 + "]" * 300})
    assert read(text, contract).reason is Reason.SCHEMA_TYPE_ERROR


@pytest.mark.parametrize("text", ['"[{}]"', '{"items": "[{}]"}', '["{}"]'])
def test_whole_list_or_its_elements_may_be_in_strings(text: str) -> None:
    outcome = read(text.replace("{}", r"{\"steps\": []}"), Contract.from_schema(PLAN, many=True, coerce=True))
    assert outcome.value == [{"steps": []}]
    assert len(outcome.repaired) == 1


def test_plain_value_goes_before_one_in_a_string() -> None:
    contract = Contract.from_schema(PLAN, coerce=True)
    assert read(f'{{"steps": {LIST}}} or {{"steps": ["c"]}}', contract).value == {"steps": ["c"]}


def test_broken_json_may_hold_json_in_a_string() -> None:
    for format in ("json", "jsonl"):
        contract = Contract.from_schema(PLAN, format=format, repair=True)
        outcome = read("{'steps': '[\"a\"]'}\n", contract)
        assert list(outcome.objects) == [{"steps": ["a"]}]
        assert outcome.repaired[0].edits[-1].what == "other quotes than JSON's"
        assert "JSON in a string" in [edit.what for edit in outcome.repaired[0].edits]


@pytest.mark.parametrize("step", [1, 7, 1_000])
def test_each_object_of_a_jsonl_answer_says_what_was_opened(step: int) -> None:
    lines = ['{"steps": ["a"]}', f'{{"steps": {LIST}}}', '{"steps": "[1]"}', f'{{"steps": {LIST}}}']
    contract = Contract.from_schema(PLAN, format="jsonl", coerce=True)
    outcome = read(text := "\n".join(lines), contract)
    assert outcome.value == [{"steps": ["a"]}, {"steps": ["a", "b"]}, {"steps": ["a", "b"]}]
    assert [repaired.index for repaired in outcome.repaired] == [1, 3]
    assert [text[repaired.edits[0].offset :].splitlines()[0] for repaired in outcome.repaired] == [
        f"{LIST}}}"
    ] * 2
    assert [rejected.issues[0].path for rejected in outcome.rejected] == ["/steps/0"]
    reader = StreamReader(contract)
    for at in range(0, len(text), step):
        reader.feed(text[at : at + step])
    assert reader.close() == outcome


def test_version_decides_whether_a_string_is_opened() -> None:
    versions: dict[str, dict[str, Any]] = {
        "1.0": {"properties": {"a": {"type": "string"}}},
        "2.0": {"properties": {"a": NUMBERS}},
    }
    contract = Contract.from_schema(None, versions=versions, coerce=True)
    values = [
        read(f'{{"schema_version": "{version}", "a": "[1]"}}', contract).value["a"] for version in versions
    ]
    assert values == ["[1]", [1]]


def test_nested_strings_are_opened_in_linear_time() -> None:
    contract = Contract.from_schema({"items": {"$ref": "#"}, "type": "array"}, coerce=True)

    def nested(size: int) -> None:
        text = '"[' + ", ".join([r"\"[]\""] * size) + ']"'
        assert read(text, contract).ok

    assert is_linear(nested, 100)
