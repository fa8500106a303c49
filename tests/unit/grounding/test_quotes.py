"""Which quotes stand in a text, and what they are replaced by."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.hostile_passages import HOSTILE
from tests.support.steps import is_linear
from trustgraph_prompt.grounding import MatchKind, Passage, as_written, find_quote, is_too_long
from trustgraph_prompt.grounding.quotes import MOST_CHARACTERS, MOST_IN_ALL

TEXT = (
    "The Rhine rises in the Alps. It was straightened\n  in 1817 ... so they say! Dr. J. Müller did not.\n\n"
    "The Danube is long, and very old."
)
LONG = " ".join(f"word{number}" for number in range(200))


def written(text: str, quote: str) -> tuple[MatchKind, str] | None:
    """The kind of the match, and what the quote is replaced by."""
    passage = Passage(text)
    match = find_quote(passage, quote)
    return match and (match.kind, as_written(passage, match.spans))


@pytest.mark.parametrize(
    ("quote", "kind", "words"),
    [
        ("The Rhine rises in the Alps.", MatchKind.EXACT, "The Rhine rises in the Alps."),
        ("  rises in the Alps ", MatchKind.EXACT, "rises in the Alps"),
        ("the rhine RISES", MatchKind.FOLDED, "The Rhine rises"),
        ("It was straightened in 1817", MatchKind.FOLDED, "It was straightened in 1817"),
        ("“Dr. J. Muller did not.”", MatchKind.FOLDED, "Dr. J. Müller did not"),
        ("**Danube** is long", MatchKind.FOLDED, "Danube is long"),
        ("in 1817 ... so they say!", MatchKind.EXACT, "in 1817 ... so they say!"),
        ("straightened in 1817 ... so they say", MatchKind.FOLDED, "straightened in 1817 ... so they say"),
        ("The Danube is … old", MatchKind.EXACT, "The Danube is … old"),
        ("The Danube is [...] OLD", MatchKind.FOLDED, "The Danube is … old"),
        ("…the Danube is long...", MatchKind.FOLDED, "The Danube is long"),
        ("the Rhine ... it was (…) Danube", MatchKind.FOLDED, "The Rhine … It was … Danube"),
        ("Danube", MatchKind.EXACT, "Danube"),
    ],
)
def test_copied_quote_is_replaced_by_the_words_of_the_text(quote: str, kind: MatchKind, words: str) -> None:
    assert written(TEXT, quote) == (kind, words)


@pytest.mark.parametrize(
    "quote",
    [
        *("", " ", ".", "…", " ... ", "(…)", "\u200b"),
        "The Rhine flows in the Alps",
        "Rhine The",
        "hine rises",
        "The Danube … the Rhine",  # in another order
        "The Rhine rises … is dry … very old",
        "The Rhine rises … The Rhine rises",
    ],
)
def test_quote_that_the_text_does_not_have_is_none(quote: str) -> None:
    assert find_quote(Passage(TEXT), quote) is None
    assert not is_too_long(Passage(TEXT), quote)


def test_stretches_are_found_in_the_order_of_the_text() -> None:
    text = "Ann met Bob. Bob met Ann."
    assert find_quote(Passage(text), "Bob … Ann").spans == ((8, 11), (21, 24))  # type: ignore[union-attr]


def test_stretch_in_other_case_stands_before_the_next() -> None:
    text = "He lived in Bonn, where he died. Much later he lived on in songs."
    assert written(text, "he lived … he died") == (MatchKind.FOLDED, "He lived … he died")


def test_short_quote_may_have_any_number_of_sentences() -> None:
    text = "She came. She saw. She won. She left."
    assert written(text, text) == (MatchKind.EXACT, text)


@pytest.mark.parametrize(
    ("ends", "counts"), [(["."], True), (["."] * 2, True), (["."] * 3, False), (["!", "?", "。"], False)]
)
def test_long_quote_has_two_sentences_at_most(ends: list[str], counts: bool) -> None:
    text = " ".join(f"{LONG[: MOST_CHARACTERS // len(ends) + 10].rstrip()}abc{end}" for end in ends)
    assert MOST_CHARACTERS < len(text) < MOST_IN_ALL
    passage = Passage(f"Before it. {text} And after it.")
    assert (find_quote(passage, text) is not None) is counts
    assert is_too_long(passage, text) is (not counts) or counts


def test_sentences_are_counted_in_the_text_and_not_in_the_quote() -> None:
    text = " ".join(f"{LONG[:100]}{number} is the end." for number in range(4))
    assert written(text, text.replace(".", "")) is None


def test_paragraphs_are_sentences() -> None:
    text = "\n\n".join(LONG[:110] for _ in range(3))
    assert written(text, text) is None


@pytest.mark.parametrize("end", [". ", " "])
def test_whole_passage_as_a_quote_is_too_long(end: str) -> None:
    passage = Passage(end.join([LONG] * 50))
    assert find_quote(passage, passage.text) is None
    assert is_too_long(passage, passage.text)


def test_quote_that_is_long_only_in_the_text_is_too_long() -> None:
    passage = Passage(f"Alpha {'- ' * 100_000} Beta")
    assert find_quote(passage, "alpha beta") is None
    assert is_too_long(passage, "alpha beta")


@pytest.mark.parametrize("made", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_texts_and_quotes_take_linear_time(made: Callable[[int], tuple[str, str]]) -> None:
    def find(size: int) -> None:
        text, value = made(size)
        passage = Passage(text)
        for quote in (value, text[:MOST_IN_ALL], f"{text[:400]} … {value[:100]} … {text[-400:]}"):
            find_quote(passage, quote)
            is_too_long(passage, quote)

    assert is_linear(find, 4_000)


PARTS = (
    "The the Rhine a -40 1,230 - ½ data- base database ... … é e U.S. us . not. מים 水は ä Ann's | 10 minus"
)
WORDS = st.lists(st.sampled_from([*PARTS.split(), "data-\nbase", "\n\n", "10\u00a0000"]), max_size=12)
SPACES = st.sampled_from([" ", "\n", "  ", "", "\u00a0"])


@given(WORDS, WORDS, SPACES, st.integers(0, 40), st.integers(0, 40))
def test_what_a_quote_is_replaced_by_is_found_again_as_it_is(
    before: list[str], quoted: list[str], space: str, cut: int, skip: int
) -> None:
    text = space.join([*before, *quoted, *before[::-1]])
    passage = Passage(text)
    for quote in (" ".join(quoted), text[cut : cut + skip], f"{text[cut:]} … {text[:skip]}"):
        if match := find_quote(passage, quote):
            words = as_written(passage, match.spans)
            again = find_quote(passage, words)
            assert again is not None
            assert as_written(passage, again.spans) == words
