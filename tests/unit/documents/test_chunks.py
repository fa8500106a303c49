"""Documents become chunks: nothing lost, nothing longer than it may be, cut where a reader would cut."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from semantic_text_splitter import TextSplitter

from tests.support.error_frames import holds_frames
from trustgraph_prompt.documents import Document, DocumentChunk
from trustgraph_prompt.documents.chunks import (
    NO_OVERLAP,
    TOKENIZER,
    Size,
    chunks,
    parse_overlap,
    parse_size,
)
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.extraction import questions
from trustgraph_prompt.extraction.questions import Splitting

HARD = "ab. \n\r\t#*`>-|!?\u2019\u2014é\u0301漢字。👩\u200d👧🇩🇪"
TEXTS = st.text(alphabet=HARD, max_size=400)
SIZES = st.builds(Size, st.integers(5, 50), st.booleans())


def texts(text: str, size: int = 100, format: str = "text") -> list[str]:
    return [chunk.text for chunk in chunks(Document("d", text, format), Size(size))]


def contexts(text: str, overlap: Size, size: int = 100) -> list[str]:
    return [chunk.context for chunk in chunks(Document("d", text), Size(size), overlap)]


def tokens(text: str) -> int:
    """The number of tokens: the least size into which the text fits."""
    sizes = range(1, len(text.encode()) + 1)
    return next(n for n in sizes if len(TextSplitter.from_tiktoken_model(TOKENIZER, n).chunks(text)) == 1)


class TestWhereTextsAreCut:
    def test_paragraphs_that_fit_stay_together(self) -> None:
        assert texts("one\n\ntwo\n\nthree", 9) == ["one\n\ntwo", "three"]

    def test_paragraph_that_the_next_chunk_can_hold_is_not_cut(self) -> None:
        assert texts(f"{'a' * 60}\n\n{'b' * 60}") == ["a" * 60, "b" * 60]

    def test_long_paragraph_is_cut_after_a_sentence(self) -> None:
        first = f'He said "{"x" * 60}." '
        assert texts(first + "Y" * 70) == [first.strip(), "Y" * 70]

    def test_long_sentence_is_cut_between_words(self) -> None:
        assert texts(f"{'a' * 70} {'b' * 70}") == ["a" * 70, "b" * 70]

    def test_long_word_is_cut_anywhere(self) -> None:
        assert texts("a" * 250) == ["a" * 100, "a" * 100, "a" * 50]

    def test_grapheme_of_several_characters_is_not_cut(self) -> None:
        assert texts("👩\u200d👧" * 3, 7) == ["👩\u200d👧" * 2, "👩\u200d👧"]

    def test_windows_line_ends_make_the_same_cuts(self) -> None:
        text = "one\n\ntwo two\nthree\n\nfour"
        windows = texts(text.replace("\n", "\r\n"), 9)
        assert [chunk.replace("\r\n", "\n") for chunk in windows] == texts(text, 9)

    def test_headings_begin_a_chunk_in_formats_with_headings(self) -> None:
        text = f"# One\n\n{'a' * 40}\n\n## Two\n\n{'b' * 40}\n\n{'c' * 40}"
        assert texts(text) == [text[: text.index("\n\nccc")], "c" * 40]
        for format in ("markdown", "docx"):
            assert texts(text, format=format) == [f"# One\n\n{'a' * 40}", text[text.index("##") :]]

    def test_size_in_tokens_counts_tokens(self) -> None:
        text = "The extraordinary characteristics of internationalisation. " * 20
        found = list(chunks(Document("d", text), Size(25, in_tokens=True)))
        assert all(tokens(chunk.text) <= 25 for chunk in found)
        assert len(found[0].text) > 100

    def test_record_is_a_chunk_and_split_if_it_is_too_long(self) -> None:
        rows = ["a: 1", "b: 2", "c " * 60, "d: 4"]
        text = "\n".join(rows)
        starts = [sum(len(row) + 1 for row in rows[:index]) for index in range(len(rows))]
        spans = tuple((start, start + len(row)) for start, row in zip(starts, rows, strict=True))
        found = list(chunks(Document("t", text, "csv", records=spans), Size(100)))
        assert [chunk.text for chunk in found] == [
            "a: 1",
            "b: 2",
            ("c " * 50).strip(),
            "c " * 9 + "c",
            "d: 4",
        ]
        assert [chunk.start for chunk in found] == [0, 5, 10, 110, 131]

    @pytest.mark.parametrize(
        "text", ["a" * 250_000, "b c. " * 50_000, " " * 250_000 + "d", "👩\u200d👧" * 80_000]
    )
    def test_text_split_in_blocks_loses_nothing_and_fills_its_chunks(self, text: str) -> None:
        found = list(chunks(Document("d", text), Size(1_000)))
        assert all(text[chunk.start :].startswith(chunk.text) for chunk in found)
        assert "".join("".join(chunk.text for chunk in found).split()) == "".join(text.split())
        assert {len(chunk.text) for chunk in found[:-1]} <= {1_000, 999}


@given(TEXTS, SIZES, SIZES, st.sampled_from(["text", "markdown"]))
def test_chunks_lose_nothing_and_stand_at_their_offsets(
    text: str, size: Size, overlap: Size, format: str
) -> None:
    found = list(chunks(Document("d", text, format), size, overlap))
    assert [chunk.number for chunk in found] == list(range(1, len(found) + 1))
    assert "".join("".join(chunk.text for chunk in found).split()) == "".join(text.split())
    for chunk in found:
        assert chunk.text == text[chunk.start : chunk.start + len(chunk.text)]
        assert chunk.text.strip()
        assert text[: chunk.start].rstrip().endswith(chunk.context)
        assert size.in_tokens or len(chunk.text) <= size.length
        assert overlap.in_tokens or len(chunk.context) <= overlap.length
    assert all(one.start + len(one.text) <= other.start for one, other in pairwise(found))


@given(TEXTS, SIZES, st.sampled_from(["text", "markdown"]))
def test_overlap_changes_no_chunk(text: str, size: Size, format: str) -> None:
    document = Document("d", text, format)
    alone = list(chunks(document, size))
    assert {chunk.context for chunk in alone} <= {""}
    assert [chunk._replace(context="") for chunk in chunks(document, size, Size(20))] == alone


class TestContext:
    FIRST = "It began in Rome. Then Ada came to Paris, where she stayed for a year. She wrote there."
    NEXT = "Then she left, and never again did anybody see her."

    def test_context_is_all_preceding_text_if_that_is_short(self) -> None:
        assert contexts(f"{self.FIRST}\n\n{self.NEXT}", Size(100)) == ["", self.FIRST]

    @pytest.mark.parametrize("overlap", [Size(75), Size(20, in_tokens=True)])
    def test_context_begins_with_a_sentence(self, overlap: Size) -> None:
        [_, context] = contexts(f"{self.FIRST}\n\n{self.NEXT}", overlap)
        assert context == self.FIRST.removeprefix("It began in Rome. ")

    def test_context_begins_with_a_word_where_the_sentence_is_long(self) -> None:
        assert contexts(f"{self.FIRST}\n\n{self.NEXT}", Size(44)) == [
            "",
            "she stayed for a year. She wrote there.",
        ]

    def test_context_has_at_most_the_given_tokens(self) -> None:
        text = "The extraordinary characteristics of internationalisation, " * 30
        found = contexts(text, Size(15, in_tokens=True))
        assert all(5 < tokens(context) <= 15 for context in found[1:])

    def test_context_spans_several_records(self) -> None:
        document = Document("t", "a: 1\nb: 2\nc: 3", "csv", records=((0, 4), (5, 9), (10, 14)))
        assert [chunk.context for chunk in chunks(document, Size(100), Size(100))] == [
            "",
            "a: 1",
            "a: 1\nb: 2",
        ]


class TestSizes:
    @pytest.mark.parametrize(
        ("size", "overlap", "expected"),
        [
            ("2000", "10%", (Size(2000), Size(200))),
            ("800t", "10%", (Size(800, in_tokens=True), Size(80, in_tokens=True))),
            ("800t", "200", (Size(800, in_tokens=True), Size(200))),
            ("2000", "80t", (Size(2000), Size(80, in_tokens=True))),
            ("100", "0", (Size(100), NO_OVERLAP)),
        ],
    )
    def test_sizes_are_in_characters_in_tokens_or_a_percentage(
        self, size: str, overlap: str, expected: object
    ) -> None:
        chunk = parse_size(size, "--chunk-size")
        assert (chunk, parse_overlap(overlap, chunk, "--overlap")) == expected
        assert str(chunk) == size

    @pytest.mark.parametrize(
        "text", ["", "t", "-5", "2k", "1e3", "10%", "２000", "99", "24t", "9" * 10, " 200"]
    )
    def test_invalid_chunk_size_is_refused(self, text: str) -> None:
        with pytest.raises(
            ConfigError, match=r"--chunk-size: is (not a size|too small).*expected.*\d"
        ) as error:
            parse_size(text, "--chunk-size")
        assert repr(text)[1:-1] in str(error.value)

    @pytest.mark.parametrize("text", ["", "%", "101%", "1.5%", "-10", "ten", "10%t"])
    def test_invalid_overlap_is_refused(self, text: str) -> None:
        with pytest.raises(ConfigError, match=r"--overlap: is (not a size|too large).*expected.*%"):
            parse_overlap(text, Size(2000), "--overlap")


def test_error_of_an_unreadable_file_is_kept_without_frames(tmp_path: Path) -> None:
    _, [error] = questions.jobs([tmp_path / "none.txt"], [], model="m", terms={}, splitting=Splitting())
    assert "none.txt" in str(error)
    assert not holds_frames(error)


def test_chunk_without_an_overlap_has_no_context() -> None:
    assert list(chunks(Document("d", "One."))) == [DocumentChunk(1, 0, "One.")]
