"""Documents become chunks: nothing lost, nothing longer than it may be, cut where a reader would cut."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.support.errors import holds_frames
from trustgraph_prompt.extraction import documents, run

TEXTS = st.text(alphabet="ab. \n!?\t\r\u2019\u2014", max_size=400)


def chunks(text: str, size: int = 100) -> list[str]:
    return list(documents.chunks(text, size))


def test_paragraphs_that_fit_stay_together() -> None:
    assert chunks("one\n\ntwo\n\nthree", 9) == ["one\n\ntwo", "three"]


def test_a_paragraph_is_not_cut_where_the_next_chunk_can_hold_it() -> None:
    assert chunks(f"{'a' * 60}\n\n{'b' * 60}") == ["a" * 60, "b" * 60]


def test_a_long_paragraph_is_cut_after_a_sentence() -> None:
    first = f'He said "{"x" * 60}." '
    assert chunks(first + "y" * 70) == [first.strip(), "y" * 70]


def test_a_long_sentence_is_cut_between_words() -> None:
    assert chunks(f"{'a' * 70} {'b' * 70}") == ["a" * 70, "b" * 70]


def test_a_long_word_is_cut_anywhere() -> None:
    assert chunks("a" * 250) == ["a" * 100, "a" * 100, "a" * 50]


def test_windows_line_ends_make_the_same_chunks() -> None:
    text = "one\n\ntwo two\nthree\n\nfour"
    assert chunks(text.replace("\n", "\r\n"), 9) == chunks(text, 9)


def test_blank_lines_with_spaces_in_them_part_paragraphs() -> None:
    assert chunks("one\n \t\n\n\ntwo", 5) == ["one", "two"]


@given(TEXTS, st.integers(5, 50))
def test_nothing_is_lost_and_no_chunk_is_too_long_or_blank(text: str, size: int) -> None:
    found = chunks(text, size)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(chunk.strip() and len(chunk) <= size for chunk in found)


def test_a_file_that_cannot_be_read_is_an_error_that_is_kept_without_frames(tmp_path: Path) -> None:
    _, [error] = run.jobs([tmp_path / "none.txt"], [], model="m", terms={})
    assert "none.txt" in str(error)
    assert not holds_frames(error)
