"""For every text: sound JSON is left alone, cut JSON is a part of the whole, nothing raises or hangs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trustgraph_prompt.reader.repair import RepairedValue, readings


def repair(text: str, start: int = 0) -> RepairedValue | None:
    """The likeliest reading."""
    return next(readings(text, start), None)


MARKS = [
    *"\"'`“”{}[]():,;=+\\\n #/-.%a1",
    "//",
    "/*",
    "*/",
    "...",
    "```",
    "true",
    "nul",
    '"""',
    '\\"',
    "\\u12",
    "&quot;",
]

strings = st.text() | st.lists(st.sampled_from(MARKS), max_size=6).map("".join)
scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | strings
)


def containers(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(values, max_size=4) | st.dictionaries(strings, values, max_size=4)


documents = containers(st.recursive(scalars, containers, max_leaves=12))
layouts = st.fixed_dictionaries(
    {
        "ensure_ascii": st.booleans(),
        "indent": st.sampled_from([None, 0, 2, "\t"]),
        "separators": st.sampled_from([None, (",", ":"), (" , ", " : ")]),
    }
)


@given(documents, layouts, st.sampled_from(["", " ", "\n", "\n```", "\nand more"]))
def test_sound_json_keeps_its_value(value: Any, layout: dict[str, Any], rest: str) -> None:
    text = json.dumps(value, **layout)
    repaired = repair(text + rest)
    assert repaired is not None
    assert json.dumps(repaired.value) == json.dumps(json.loads(text))
    assert (repaired.end, repaired.edits, repaired.truncated) == (len(text), (), False)


@pytest.mark.parametrize(
    "text", ['{"a": 1, "a": [2], "b": 3, "a": 4}', f'{{"a": {"9" * 300}, "b": 1e5}}', '["\\ud800"]']
)
def test_sound_json_is_read_as_the_standard_decoder_does(text: str) -> None:
    repaired = repair(text)
    assert repaired is not None
    assert list(repaired.value) == list(json.loads(text))
    assert repaired.value == json.loads(text)


words = st.text(st.sampled_from("ab é,.-'\"\\\n😀"), max_size=8)
parts = st.recursive(
    st.none() | st.booleans() | st.integers() | words,
    lambda values: st.lists(values, max_size=3) | st.dictionaries(words, values, max_size=3),
    max_leaves=8,
)


def is_part(value: Any, whole: Any) -> bool:
    """Whether `value` is `whole`, but for what a cut took from its last string, element or member."""
    if isinstance(whole, str):
        return isinstance(value, str) and whole.startswith(value)
    if isinstance(whole, list) and isinstance(value, list) and len(value) <= len(whole):
        return value[:-1] == whole[: len(value)][:-1] and all(
            map(is_part, value[-1:], whole[len(value) - 1 :])
        )
    if isinstance(whole, dict) and isinstance(value, dict):
        return value.keys() <= whole.keys() and all(is_part(value[key], whole[key]) for key in value)
    return type(value) is type(whole) and bool(value == whole)


@given(
    st.lists(parts, min_size=1, max_size=3) | st.dictionaries(words, parts, min_size=1, max_size=3),
    layouts,
    st.data(),
)
def test_cut_json_is_read_as_a_part_of_the_whole(
    whole: Any, layout: dict[str, Any], data: st.DataObject
) -> None:
    text = json.dumps(whole, **layout)
    repaired = repair(text[: data.draw(st.integers(1, len(text) - 1))])
    assert repaired is not None
    assert repaired.truncated
    assert repaired.edits == ()
    assert is_part(repaired.value, whole)


@given(
    documents,
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 3), st.sampled_from(["", *MARKS])), max_size=4),
)
def test_changed_json_has_readings_within_the_text(value: Any, changes: list[tuple[int, int, str]]) -> None:
    text = json.dumps(value)
    for place, removed, mark in changes:
        place = 1 + place % len(text)
        text = text[:place] + mark + text[place + removed :]
    for reading in readings(text, limit=6):
        assert 0 < reading.end <= len(text)
        json.dumps(reading.value, allow_nan=False)


@given(st.sampled_from("{["), st.lists(st.sampled_from(MARKS), max_size=40))
def test_any_marks_after_a_bracket_raise_nothing_but_unrepairable(bracket: str, marks: list[str]) -> None:
    text = bracket + "".join(marks)
    for reading in readings(text, limit=6):
        assert 0 < reading.end <= len(text)
        json.dumps(reading.value, allow_nan=False)
