"""Tells scripts apart by their letters, and languages in Latin letters by their stop words."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from trustgraph_prompt.grounding.declension import WORDS_OF_FAMILIES
from trustgraph_prompt.grounding.words import STOP_WORDS_BY_LANGUAGE

_WORDS: Final[Mapping[str, frozenset[str]]] = {
    **{language: frozenset(words.split()) for language, words in STOP_WORDS_BY_LANGUAGE.items()},
    **{f"family {number}": words for number, words in enumerate(WORDS_OF_FAMILIES)},
}
_ONE_SCRIPT: Final = {"HIRAGANA": "KANA", "KATAKANA": "KANA", "KATAKANA-HIRAGANA": "KANA"}


def languages_of(counts: Mapping[str, int]) -> frozenset[str]:
    """The languages, or families of languages, of which a text has the most stop words; none if it has none.

    `counts` are the folded words with how often each occurs. There may be several: "in" is German, too.
    """
    said = {name: sum(counts[word] for word in words & counts.keys()) for name, words in _WORDS.items()}
    most = max(said.values())
    return frozenset(name for name, count in said.items() if count == most > 0)


def scripts_of(words: Iterable[str]) -> frozenset[str]:
    """The scripts of words by their first letters: LATIN, CYRILLIC, CJK, KANA, ARABIC…"""
    return frozenset(_script(word[0]) for word in words if word[0].isalpha())


@lru_cache(4_096)
def _script(letter: str) -> str:
    name = unicodedata.name(letter, "").partition(" ")[0]
    return _ONE_SCRIPT.get(name, name)
