"""The rules by which two names are the same, or may be: the first that applies decides."""

# ruff: noqa: SIM905 (a list of words is easier to read in one text)
from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from rapidfuzz import fuzz

from trustgraph_prompt.graph_store.name_forms import DROPPABLE, GENERATIONS, LONGEST, MEN, WOMEN, NameForm
from trustgraph_prompt.grounding.inflection import base_forms

ALIKE: Final = 80
"""How alike, in percent, the words are that differ if a name is left open."""

_ACRONYM, _SHORT = range(2, 9), 2  # letters
_OTHER_IN_PLURAL = frozenset(
    "arm ash authority axes bases brain brief cloth color colour compass content custom damage draft effect "
    "force glass good ground heaven height honour iron jean leaves letter look manner mean minute moral new "
    "pain pant people physic premise quarter rail regard respect saving scale short spectacle spirit sport "
    "statistic term time trunk water wit wood work".split()
)


class Same(StrEnum):
    """Why two names are the same."""

    WRITTEN = "the same but for case, spaces, punctuation or order at a comma"
    ACCENTS = "the same but for accents"
    BESIDE = "the same but for a title, a legal form or an article"
    PLURAL = "singular and plural"
    DIVIDED = "words joined or divided"
    PERSON = "decided by a person"


class Undecided(StrEnum):
    """Why two names may be the same: a person must decide."""

    WRITTEN = "capitals or accents may make another word"
    BESIDE = "a title, a legal form, an article, junior or senior may make another thing"
    SHORT = "one may be short for the other"
    ALIKE = "spelt nearly alike"
    CHAIN = "the same, but one is also the same as a third that differs from the other"


class NameVerdict(NamedTuple):
    """What the rules say of two names: the reason, and how alike they are, from 0 to 1."""

    reason: Same | Undecided
    score: float = 1.0

    @property
    def is_same(self) -> bool:
        return isinstance(self.reason, Same)


def compare(one: NameForm, other: NameForm, *, is_one_type: bool) -> NameVerdict | None:
    """Compare two names; None if nothing says that they are of one thing.

    `is_one_type` says that the types of both are known, and the same.
    """
    if one.numbers != other.numbers or one.signs != other.signs:
        return None
    beside = {*one.titles, *other.titles, *one.endings, *other.endings}
    if (beside & MEN and beside & WOMEN) or beside >= GENERATIONS:
        return None
    if one.words == other.words or one.words == other.spelled or one.spelled == other.words:
        return NameVerdict(_same_words(one, other, is_one_type))
    if max(map(len, (*one.words, *other.words))) > LONGEST:
        return None
    score = round(fuzz.ratio(" ".join(one.words), " ".join(other.words)) / 100, 3)
    same = Same.PLURAL if _is_plural(one, other) else Same.DIVIDED if _is_divided(one, other) else None
    if same:
        return NameVerdict(_beside_words(one, other, is_one_type) or same, score)
    if _is_short(one, other) or _is_short(other, one):
        return NameVerdict(Undecided.SHORT, score)
    return NameVerdict(Undecided.ALIKE, score) if _is_alike(one, other) else None


def _same_words(one: NameForm, other: NameForm, is_one_type: bool) -> Same | Undecided:
    are_names = one.is_proper and other.is_proper
    texts = ["".join(each.written) for each in (one, other)]
    has_accents = texts[0].lower() != texts[1].lower() and not "".join(texts).isascii()
    is_single = len(one.words) == 1
    if has_accents and (not any(text.isascii() for text in texts) or (is_single and not are_names)):
        return Undecided.WRITTEN
    starts = [(each.is_proper, each.written[0].isupper()) for each in (one, other)]
    if one.units != other.units or (is_single and starts[0] != starts[1]):
        return Undecided.WRITTEN
    return _beside_words(one, other, is_one_type) or (Same.ACCENTS if has_accents else Same.WRITTEN)


def _beside_words(one: NameForm, other: NameForm, is_one_type: bool) -> Same | Undecided | None:
    """What titles, legal forms and articles say of names whose other words are the same; None if nothing."""
    is_full = min(len(one.words), len(other.words)) > 1
    titles, endings = {*one.titles} ^ {*other.titles}, {*one.endings} ^ {*other.endings}
    if titles and not (is_full and DROPPABLE.issuperset(titles)):
        return Undecided.BESIDE
    if endings and ((one.endings and other.endings) or endings & GENERATIONS or not is_one_type):
        return Undecided.BESIDE
    has_the = one.article != other.article and "The" in (one.article, other.article)
    if has_the and (not is_full or one.is_proper != other.is_proper):
        return Undecided.BESIDE  # The Sun, a newspaper; The Mountain Goats, a band
    return Same.BESIDE if titles or endings or one.article != other.article else None


def _is_alike(one: NameForm, other: NameForm) -> bool:
    """Whether the words that only one has are spelt alike, in any order."""
    if not (one.initials <= other.initials or other.initials <= one.initials):
        return False
    rest = (
        "".join(word for word in a.content if word not in b.words) for a, b in ((one, other), (other, one))
    )
    return fuzz.ratio(*rest) >= ALIKE


def _is_plural(one: NameForm, other: NameForm) -> bool:
    """Whether the last words are singular and plural of a common noun, and the others the same."""
    words = one.words[-1], other.words[-1]
    is_common = one.written[-1].islower() and other.written[-1].islower()
    is_other = any(each.endswith("ics") or each in _OTHER_IN_PLURAL for each in words)
    if one.words[:-1] != other.words[:-1] or not is_common or is_other:
        return False
    return words[0] in base_forms(words[1]) or words[1] in base_forms(words[0])


def _is_divided(one: NameForm, other: NameForm) -> bool:
    """Whether several long words have the same letters. E. D. Smith is not Ed Smith."""
    words = (*one.words, *other.words)
    are_long = min(map(len, words)) > _SHORT and min(len(one.words), len(other.words)) > 1
    return are_long and "".join(one.words) == "".join(other.words)


def _is_short(short: NameForm, long: NameForm) -> bool:
    """Whether one is an end of the other, its acronym, or has initials for given names."""
    if len(short.words) == 1 < len(long.words):
        word = short.words[0]
        is_part = word in (long.words[0], long.words[-1]) and short.is_proper and long.is_proper
        return is_part or (len(word) in _ACRONYM and short.written[0][0].isupper() and word == long.acronym)
    given = [*zip(short.words[:-1], long.words[:-1], strict=False)]
    if not given or short.words[-1] != long.words[-1] or not short.initials:
        return False
    return all(a == b or (1 in (len(a), len(b)) and a[0] == b[0]) for a, b in given)
