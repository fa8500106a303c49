"""Finds quotes: the words of a text that an answer copies as the evidence of what it says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice, pairwise
from typing import Final

from trustgraph_prompt.grounding.passage import MAX_SPANS, RANK, Match, MatchKind, Passage
from trustgraph_prompt.grounding.sentences import SENTENCE_END, Span

MOST_CHARACTERS: Final = 300
MOST_SENTENCES: Final = 2
"""A quote may have more than `MOST_CHARACTERS` only if it has no more sentences than this."""

MOST_IN_ALL: Final = 1_000
"""Characters of a quote, as it is written and as it stands in the text. A longer one is not searched."""

_MOST_STRETCHES: Final = 10
_DOTS: Final = " … "
_LEFT_OUT = re.compile(r"[\[(]?(?:…|\.\.\.)[\])]?")


def find_quote(passage: Passage, quote: str) -> Match | None:
    """Find a quote, `exact` or `folded`; None if the text does not have it, or if it is too long.

    The spans are those of its stretches, which `…` or `...` divides. They stand in this order: dots say that
    words are left out, not that they are moved.
    """
    match = _copied(passage, quote)
    if match is None or not _is_short([passage.text[start:end] for start, end in match.spans]):
        return None
    # what replaces it is looked up again, in a cached answer and for its spans: it must stay the same
    words = as_written(passage, match.spans)
    again = match if words == quote else _copied(passage, words)
    return match if again and as_written(passage, again.spans) == words else None


def sentences(text: str) -> list[str]:
    """The sentences of a text that can be quoted, without their line breaks."""
    ends = [0, *(found.end() for found in SENTENCE_END.finditer(text)), len(text)]
    found = (" ".join(text[start:end].split()) for start, end in pairwise(ends))
    return [sentence for sentence in found if _has_word(sentence) and len(sentence) <= MOST_IN_ALL]


def is_too_long(passage: Passage, quote: str) -> bool:
    """Whether a quote that was not found is only too long."""
    return len(quote) > MOST_IN_ALL or _copied(passage, quote) is not None


def as_written(passage: Passage, spans: Sequence[Span]) -> str:
    """A quote in the words of the text, without its line breaks."""
    return _DOTS.join(" ".join(passage.text[start:end].split()) for start, end in spans)


def _copied(passage: Passage, quote: str) -> Match | None:
    """Where a quote of any number of sentences stands: as a whole, or else all of its stretches."""
    if len(quote) > MOST_IN_ALL or not _has_word(quote):
        return None
    whole = min(islice(passage.copies(quote), MAX_SPANS), key=lambda each: RANK[each.kind], default=None)
    if whole is not None:
        return whole
    stretches = list(filter(_has_word, _LEFT_OUT.split(quote)))
    if not 1 < len(stretches) <= _MOST_STRETCHES:
        return None
    found: list[Match] = []
    for stretch in stretches:
        after = found[-1].spans[0][1] if found else 0
        if (match := next(passage.copies(stretch, after), None)) is None:
            return None
        found.append(match)
    worst: MatchKind = max((match.kind for match in found), key=RANK.__getitem__)
    return Match(worst, 1.0, tuple(match.spans[0] for match in found))


def _has_word(text: str) -> bool:
    return any(map(str.isalnum, text))


def _is_short(stretches: Sequence[str]) -> bool:
    characters = len(_DOTS.join(stretches))
    if characters <= MOST_CHARACTERS:
        return True
    sentences = sum(1 + len(SENTENCE_END.findall(stretch.rstrip("。！？؟। \n"))) for stretch in stretches)
    return characters <= MOST_IN_ALL and sentences <= MOST_SENTENCES
