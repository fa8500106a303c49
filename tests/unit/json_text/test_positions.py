"""Where something is in the text of an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.steps import is_linear
from trustgraph_prompt.json_text import positions
from trustgraph_prompt.json_text.pointer import pointer
from trustgraph_prompt.json_text.positions import LineColumn, Span, State

NESTED = '{"a": {"b": [1, {"c/d": "x"}]}, "~": [true], "a b": null}'


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("", NESTED),
        ("/a", '{"b": [1, {"c/d": "x"}]}'),
        ("/a/b/0", "1"),
        ("/a/b/1/c~1d", '"x"'),
        ("/~0/0", "true"),
        ("/a b", "null"),
    ],
)
def test_pointer_leads_to_its_member(path: str, found: str) -> None:
    span = positions.member(NESTED, path)
    assert NESTED[span.start : span.end] == found


@pytest.mark.parametrize(
    ("text", "path", "found"),
    [
        ('{"a": {"b": 1}}', "/a/z", '{"b": 1}'),
        ('{"a": 1}', "/z", '{"a": 1}'),
        ("[1, 2]", "/2", "[1, 2]"),
        ("[1, 2]", "/x", "[1, 2]"),
        ('{"a": 1}', "/a/b/c", "1"),
        ('{"a": {"b": 1, oops}}', "/a/z", '{"b": 1, '),
        ('{"a": {"b": [1, 2', "/a/b", "[1, 2"),
        ('{"x": {"b": 1}, "a": 2}', "/a/b", "2"),
        ("  [1]", "", "[1]"),
    ],
)
def test_pointer_to_a_missing_member_leads_to_the_innermost_on_the_way(
    text: str, path: str, found: str
) -> None:
    span = positions.member(text, path)
    assert text[span.start : span.end] == found


def test_pointer_to_duplicate_keys_leads_to_the_last() -> None:
    text = '{"a": {"b": 1}, "a": {"b": 22}, "\\u0061": [3]}'
    assert positions.member(text, "/a") == Span(text.index("[3]"), text.index("[3]") + 3)


BROKEN = [
    '{"a": 1,▸}',
    "{▸'a': 1}",
    '{"a" ▸1}',
    '{"a": ▸NaN}',
    '{"a": ▸1e400}',
    '{"a": 1▸.}',
    '{"a": 0▸1}',
    '{"a": "x▸\n"}',
    '{"a": "x▸\\q"}',
    '{"a": "part of "▸DNA""}',
    '["a" ▸"b"]',
    "[1▸}",
    '{"a": true▸r}',
    '{"a": 1} ▸x',
    '{"a": 1▸',
    '{"a": "x▸',
    "▸",
    "▸oops",
    "[▸" + "9" * 5000 + "]",
    "[" * 200 + "▸[",
]


@pytest.mark.parametrize("marked", BROKEN)
def test_broken_json_breaks_where_the_grammar_does(marked: str) -> None:
    text = marked.replace("▸", "")
    assert positions.breaks(text, 200) == marked.index("▸")


@pytest.mark.parametrize("text", ["{}", " [1, 2.5e3, -0] ", '"x"', "null", NESTED])
def test_valid_json_breaks_nowhere(text: str) -> None:
    assert positions.breaks(text, 200) is None


def test_more_levels_may_be_allowed() -> None:
    text = "[" * 300 + "]" * 300
    assert positions.breaks(text, 200) == 200
    assert positions.breaks(text, depth=300) is None


def test_values_are_found_in_prose_and_behind_thinking() -> None:
    text = 'perhaps {"draft": 1}</think>See [1]: {"a": [{}]}, {"b": oops} and {"c": [1, {"d": "x'
    assert [(text[v.start : v.end], v.state, v.path) for v in positions.values(text)] == [
        ("[1]", State.WHOLE, ""),
        ('{"a": [{}]}', State.WHOLE, ""),
        ('{"b": ', State.BROKEN, "/b"),
        ('{"c": [1, {"d": "x', State.CUT, "/c/1/d"),
    ]


def test_duplicate_keys_are_named_as_the_reader_sees_them() -> None:
    text = 'So: {"a": 1, "b": {"a": 2}, "\\u0061": 3} [{"c": 1, "c": 2}] {"d": 1, "d": oops}'
    assert [(twice.key, text[twice.start :][:4]) for twice in positions.duplicates(text)] == [
        ("a", '"\\u0'),
        ("c", '"c":'),
    ]


def test_lines_end_with_a_newline_and_nothing_else() -> None:
    text = "a\u2028b\rc\r\nd\n\ne"
    lines = positions.Lines(text)
    assert [lines.at(text.index(letter)) for letter in "abcde"] == [
        LineColumn(1, 1),
        LineColumn(1, 3),
        LineColumn(1, 5),
        LineColumn(2, 1),
        LineColumn(4, 1),
    ]
    assert lines.at(len(text)) == LineColumn(4, 2)


@given(st.text())
def test_line_numbers_agree_with_counting_newlines(text: str) -> None:
    lines = positions.Lines(text)
    for offset in range(len(text) + 1):
        before = text[:offset]
        assert lines.at(offset) == (before.count("\n") + 1, offset - before.rfind("\n"))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
)


@given(JSON, st.sampled_from([None, 2]), st.booleans())
def test_every_member_of_every_value_is_found(value: Any, indent: int | None, escaped: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=escaped)
    assert positions.breaks(text, 200) is None
    for path, expected in _members(value):
        span = positions.member(text, path)
        assert json.loads(text[span.start : span.end]) == expected


@given(JSON, st.data())
def test_cut_value_ends_with_its_text(value: Any, data: st.DataObject) -> None:
    text = json.dumps([value])
    cut = text[: data.draw(st.integers(1, len(text) - 1))]
    assert positions.breaks(cut, 200) == len(cut)
    [found] = positions.values(cut)
    assert (found.start, found.end, found.state) == (0, len(cut), State.CUT)


@given(st.text(alphabet='{}[]",:\\ 01e.-truefalsn\n\x00ü</think>', max_size=200), st.text())
def test_positions_in_any_text_lie_within_it(text: str, path: str) -> None:
    positions.breaks(text, 200)
    list(positions.duplicates(text))
    start, end = positions.member(text, path)
    assert 0 <= start <= end <= len(text)
    ends = [end for value in positions.values(text) for end in (value.start, value.end)]
    assert ends == sorted(ends)


@pytest.mark.parametrize(
    "token", ["[", "{", '{"a":', '"', '{"', "[1", "[-", "1", "\\", "[ ", '{"a\x00', "</think>"]
)
def test_positions_are_found_in_linear_time(token: str) -> None:
    def look(length: int) -> None:
        text = (token * length)[:length]
        positions.breaks(text, 200)
        positions.member(text, "/a/a")
        for _ in (*positions.values(text), *positions.duplicates(text)):
            pass

    assert is_linear(look, 1_000)


def _members(value: Any, steps: tuple[str | int, ...] = ()) -> list[tuple[str, Any]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    below = [found for step, part in inner for found in _members(part, (*steps, step))]
    return [(pointer(steps), value), *below]
