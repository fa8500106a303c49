"""Reduces words to base forms: plurals, and the endings of nouns in some languages."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import product

_IRREGULAR = {
    "children": "child",
    "feet": "foot",
    "geese": "goose",
    "mice": "mouse",
    "people": "person",
    "teeth": "tooth",
    "oxen": "ox",
    "criteria": "criterion",
    "phenomena": "phenomenon",
    "bacteria": "bacterium",
    "data": "datum",
    "media": "medium",
    "strata": "stratum",
    "men": "man",
    "women": "woman",
    "genera": "genus",
    "spectra": "spectrum",
    "corpora": "corpus",
}
# A plural ending, and its possible singular endings.
_PLURALS = (
    ("ices", ("ix", "ex")),
    ("ies", ("y", "ie")),
    ("ves", ("f", "fe", "ve")),
    ("men", ("man",)),
    ("taten", ("tat",)),  # German
    ("ungen", ("ung",)),
    ("ionen", ("ion",)),
    ("heiten", ("heit",)),
    ("keiten", ("keit",)),
    ("schaften", ("schaft",)),
    ("es", ("", "e", "is")),
    ("s", ("",)),
    ("ae", ("a",)),
    ("i", ("us",)),
)
_NO_PLURAL = ("ss", "us", "is")
# Names and words that look like plurals of other words.
_NAMES = (
    "achilles adams andrews archimedes aries arkansas athens atlas barnabas brussels caracas charles "
    "christmas collins cyclades dallas daniels davies douglas edwards elias euripides frances harris "
    "hercules hermes honduras hughes jacobs james johns jonas jones judas kansas lens lucas mars matthews "
    "mercedes moses naples news nicholas pericles peters phillips politics richards roberts rogers series "
    "silas socrates species stevens texas thales thomas tobias vegas versailles wales williams"
)
_SINGULAR = frozenset(_NAMES.split())
_SHORTEST, _SHORTEST_HANGUL = 3, 2  # letters of a stem
_HANGUL_COUNTERS = frozenset("년월일명개")  # year, month, day, person, piece
_LONGEST = 64  # letters of a word that has forms

# Endings of nouns and adjectives in Russian and related languages.
_CYRILLIC = re.compile(
    r"(?:ыми|ими|ами|ями|ого|его|ому|ему|ах|ях|ов|ев|ей|ой|ий|ый|ая|яя|ое|ее|ые|ие|ом|ем|ам|ям|ую|юю|ою|ею|ых|их"
    r"|[аяоеуюыиьй])\Z"
)
# Prefixes in Arabic: and, in, for, like, the.
_ARABIC = re.compile(r"\A[وف]?(?:[بكل]?ال|لل|[بكل])?")
# Prefixes in Hebrew: and, that, when, in, like, to, from, the.
_HEBREW = [*map("".join, product(("", "ו"), ("", "ש", "כש", "מש"), ("", "ב", "כ", "ל", "מ", "ה", "מה")))]
# Particles after nouns in Korean.
_KOREAN = re.compile(
    r"(?:에서는|에서|에게|으로|까지|부터|처럼|보다|이다|은|는|이|가|을|를|의|에|와|과|로|도|만|인|들)\Z"
)


def base_forms(word: str) -> frozenset[str]:
    """The words of which a folded word may be a form, itself included. Forms of a word share one of them."""
    return _base_forms(word) if len(word) <= _LONGEST else frozenset((word,))


@lru_cache(16_384)
def _base_forms(word: str) -> frozenset[str]:
    if word.isascii():
        return frozenset((word, *_singulars(word)))
    first = word[0]
    if "\u0400" <= first < "\u0530":
        stems = [_CYRILLIC.sub("", word)]
    elif "\u0620" <= first < "\u0650":
        stems = [_ARABIC.sub("", word), word[1:] if first in "وف" else word]
    elif "\uac00" <= first <= "\ud7a3":
        stems = [_KOREAN.sub("", word)]
    else:
        stems = _singulars(word)
    shortest = _SHORTEST_HANGUL if first >= "\uac00" else _SHORTEST
    return frozenset((word, *(each for each in stems if len(each) >= shortest or each in _HANGUL_COUNTERS)))


def verb_forms(word: str) -> list[str]:
    """Possible forms of the English verb of which `word` may be a form."""
    roots = [word[: -len(end)] for end in ("ing", "ed", "es", "e", "s", "") if word.endswith(end)]
    if not word.isascii() or len(word) > _LONGEST:
        return []
    return [root + end for root in roots if len(root) >= _SHORTEST for end in ("", "e", "ing", "ed")]


def hebrew_forms(word: str) -> list[str]:
    """A name in Hebrew with each prefix. After some of them its article is dropped; few fit a short name."""
    if len(word) < _SHORTEST:
        return []
    prefixes = [each for each in _HEBREW if len(word) > _SHORTEST or "ש" not in each]
    names = (word, word[1:]) if word[0] == "ה" and len(word) > _SHORTEST else (word,)
    return [prefix + name for prefix in prefixes for name in names]


def _singulars(word: str) -> list[str]:
    if word in _IRREGULAR:
        return [_IRREGULAR[word]]
    if word.endswith(_NO_PLURAL) or word in _SINGULAR:
        return []
    return [
        word[: -len(end)] + instead
        for end, singular in _PLURALS
        if word.endswith(end) and len(word) - len(end) >= _SHORTEST
        for instead in singular
    ]
