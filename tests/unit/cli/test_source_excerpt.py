"""Shows one line of untrusted text on a terminal, with carets under a position in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from trustgraph_prompt.cli.source_excerpt import underlined, visible


@pytest.mark.parametrize(
    ("text", "place", "shown", "mark"),
    [
        ('{"a": 5}', "5", '{"a": 5}', "      ^"),
        ("one\ntwo three\nfour", "three", "two three", "    ^^^^^"),
        ("\t\tx", "x", "  x", "  ^"),
        ("日本語 x", "x", "日本語 x", "       ^"),
        ("日本語", "本", "日本語", "  ^^"),
        ("e\u0301e\u0301x", "x", "e\u0301e\u0301x", "  ^"),
        ("xe\u0301", "\u0301", "xe\u0301", " ^"),
        ("a\r\nb", "a", "a", "^"),
        ("\x1b[31mx", "x", "␛[31mx", "     ^"),
        ("\x00\x7f\u202e\ufeffx", "x", "␀␡\ufffd\ufffdx", "    ^"),
    ],
)
def test_mark_stands_under_the_visible_place(text: str, place: str, shown: str, mark: str) -> None:
    start = text.index(place)
    assert underlined(text, start, start + len(place)) == (shown, mark)


@pytest.mark.parametrize("text", ["one\ntwo", "one\r\ntwo"])
def test_mark_of_the_end_of_a_line_is_behind_its_last_character(text: str) -> None:
    end = text.index("\n")
    assert underlined(text, end, end + 1) == ("one", "   ^")
    assert underlined(text, len(text), len(text)) == ("two", "   ^")


def test_mark_of_an_empty_text_is_at_its_beginning() -> None:
    assert underlined("", 0, 0) == ("", "^")


def test_place_of_several_lines_is_marked_in_the_first() -> None:
    assert underlined('{\n"a": 1\n}', 0, 10) == ("{", "^")


def test_long_line_is_shown_around_the_place() -> None:
    text = "a" * 500 + "X" + "b" * 500
    shown, mark = underlined(text, 500, 501, width=40)
    assert shown == "…" + "a" * 20 + "X" + "b" * 19 + "…"
    assert shown[mark.index("^")] == "X"


def test_mark_at_the_end_of_a_long_line_shows_the_text_before_it() -> None:
    shown, mark = underlined("a" * 500, 500, 500, width=40)
    assert (shown, mark) == ("…" + "a" * 40, " " * 41 + "^")


@given(st.text(), st.data())
def test_any_place_of_any_text_can_be_shown(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    shown, mark = underlined(text, start, end, width=20)
    assert cell_len(shown) <= 23
    assert mark.strip("^").isspace() or not mark.strip("^")
    assert "^" in mark
    assert "\n" not in shown


def test_printable_text_is_shown_unchanged() -> None:
    assert visible("für «DNA»\u00a0日本") == "für «DNA»\u00a0日本"
