"""Where broken text can be read in several ways, the schema decides; only what it accepts counts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.reader import Outcome, StreamReader, read

STRING, NUMBER, INTEGER, BOOLEAN = ({"type": one} for one in ("string", "number", "integer", "boolean"))


def an_object(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": required | optional,
        "required": list(required),
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("01", INTEGER, 1),
        ("01", STRING, "01"),
        ("007.50", NUMBER, 7.5),
        ("1.1.1", STRING, "1.1.1"),
        ("1,234", INTEGER, 1234),
        ("1,234", STRING, "1,234"),
        ("50%", NUMBER, 50),
        ("50%", STRING, "50%"),
        ("0x1F", INTEGER, 31),
        ("0x1F", STRING, "0x1F"),
        ("True", BOOLEAN, True),
        ("True", STRING, "True"),
        ("None", {"type": "null"}, None),
        ("None", STRING, "None"),
        ("NaN", {"type": "null"}, None),
        ("NaN", STRING, "NaN"),
        ("-Infinity", {"type": ["number", "null"]}, None),
        ("Infinity", STRING, "Infinity"),
        ("undefined", STRING, "undefined"),
        ("+5", INTEGER, 5),
        (".5", NUMBER, 0.5),
        ("yes", STRING, "yes"),
    ],
)
def test_broken_word_is_read_as_the_type_that_the_schema_has(
    text: str, schema: dict[str, Any], value: Any
) -> None:
    contract = Contract.from_schema(an_object({"a": schema}), repair=True)
    outcome = read(f'{{"a": {text}}}', contract)
    assert json.dumps(outcome.value) == json.dumps({"a": value})


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1.1.1", "None", "yes"])
def test_broken_word_that_cannot_be_a_number_is_refused(text: str) -> None:
    contract = Contract.from_schema(an_object({"a": NUMBER}), repair=True)
    assert not read(f'{{"a": {text}}}', contract).ok


TEXT_AND_NOTE = an_object({"text": STRING}, note=STRING)
ONLY_TEXT = an_object({"text": STRING})


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ('{"text": "say, note: "x"}', TEXT_AND_NOTE, {"text": "say", "note": "x"}),
        ('{"text": "say, note: "x"}', ONLY_TEXT, {"text": 'say, note: "x'}),
        ("{text: say note: x}", TEXT_AND_NOTE, {"text": "say", "note": "x"}),
        ("{text: say note: x}", ONLY_TEXT, {"text": "say note: x"}),
        ('{"text": say, note: x}', TEXT_AND_NOTE, {"text": "say", "note": "x"}),
        ('{"text": "a", "note": }', TEXT_AND_NOTE, {"text": "a"}),
        (
            '{"text": "a", "note": }',
            an_object({"text": STRING, "note": {"type": "null"}}),
            {"text": "a", "note": None},
        ),
    ],
)
def test_keys_of_the_schema_decide_where_a_member_begins(
    text: str, schema: dict[str, Any], value: Any
) -> None:
    assert read(text, Contract.from_schema(schema, repair=True)).value == value


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ('{"a": 1, "b": 22', an_object({"a": INTEGER}, b=INTEGER), {"a": 1}),
        ('{"a": 1, "b": 22', an_object({"a": INTEGER, "b": INTEGER}), {"a": 1, "b": 22}),
        ('{"a": "x", "b": "cut', an_object({"a": STRING}, b={"enum": ["cute"]}), {"a": "x"}),
        ('{"a": "x", "c": "cut', an_object({"a": STRING}), {"a": "x"}),
        (
            '{"l": [{"a": 1, "b": 2}, {"a": 3',
            an_object({"l": {"type": "array", "items": an_object({"a": INTEGER, "b": INTEGER})}}),
            {"l": [{"a": 1, "b": 2}]},
        ),
        ('{"a": "x', an_object({"a": STRING, "b": STRING}), None),
    ],
)
def test_members_of_a_cut_value_are_kept_as_the_schema_allows(
    text: str, schema: dict[str, Any], value: Any
) -> None:
    outcome = read(text, Contract.from_schema(schema, repair=True))
    assert (outcome.value, outcome.truncated) == (value, True)


UNION = {
    "oneOf": [
        an_object({"type": {"const": "code"}, "value": STRING}),
        an_object({"type": {"const": "count"}, "value": INTEGER}),
    ]
}


def test_broken_member_of_a_union_is_read_as_its_discriminator_says() -> None:
    contract = Contract.from_schema(UNION, format="jsonl", repair=True)
    text = '{"type": code, "value": 007}\n{"type": "count", "value": 007}\n{"type": "other", "value": 007}'
    outcome = read(text, contract)
    assert outcome.value == [{"type": "code", "value": "007"}, {"type": "count", "value": 7}]
    assert len(outcome.rejected) == 1


# One line of a clean answer is broken at random.

SCHEMA = an_object({"id": INTEGER, "entity": STRING, "tags": {"type": "array", "items": STRING}}, rank=NUMBER)
LINES = Contract.from_schema(SCHEMA, format="jsonl", repair=True)

words = st.text(st.sampled_from("ab é,.-'\":{}[]\\\n"), max_size=8)
objects = st.fixed_dictionaries(
    {"entity": words, "tags": st.lists(words, max_size=2)}, optional={"rank": st.floats(0, 9)}
)
breaks = st.lists(
    st.tuples(st.integers(0, 500), st.integers(0, 1), st.sampled_from(["", *"\"'{}[],:\\ax1 \n"])),
    min_size=1,
    max_size=3,
)


def streamed(text: str, size: int) -> Outcome:
    reader = StreamReader(LINES)
    for position in range(0, len(text), size):
        reader.feed(text[position : position + size])
    return reader.close()


@given(st.lists(objects, min_size=2, max_size=5), st.integers(0, 4), breaks, st.integers(1, 9))
def test_broken_line_does_not_affect_the_others(
    values: list[dict[str, Any]], which: int, changes: list[tuple[int, int, str]], size: int
) -> None:
    values = [{"id": index, **value} for index, value in enumerate(values)]
    which %= len(values)
    lines = [json.dumps(value) for value in values]
    for place, removed, put in changes:
        line = lines[which]
        place %= len(line)
        lines[which] = line[:place] + put + line[place + removed :]
    text = "\n".join(lines)
    outcome = read(text, LINES)
    assert streamed(text, size) == outcome
    assert all(LINES.accepts(value) for value in outcome.value)
    others = [value for index, value in enumerate(values) if index != which]
    rest = iter(outcome.value)
    assert all(value in rest for value in others), "each, in order"
    assert len(outcome.value) <= len(values) + sum("\n" in put or put in "{}" for _, _, put in changes)
