"""Tells scripts apart by their letters, and languages by their stop words."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from trustgraph_prompt.grounding.declension import WORDS_OF_FAMILIES
from trustgraph_prompt.grounding.words import STOP_WORDS_BY_LANGUAGE, fold

# Languages that share an alphabet which is not Latin, and that models confuse.
_IN_OTHER_LETTERS: Final = {
    "ru": "и в во на не с со что как по это из у за от до он она они был была было были для его ее их или",
    "uk": "і й та в у на не з із зі що як по це за від до він вона вони був була було були для його або",
    "bg": "и в във на не с със че как по това от за до той тя те беше бяха е са се да който която или",
    "ar": "في من على إلى أن هذا هذه التي الذي كان كانت مع عن هو هي أو ما لم",
    "fa": "در از به که این است را با برای بود شد یک آن می خود تا یا و",
    "ur": "کا کی کے میں سے ہے ہیں نے کو اور پر تھا تھی ایک یہ وہ جو",
}
_WORDS: Final[Mapping[str, frozenset[str]]] = {
    **{language: frozenset(words.split()) for language, words in STOP_WORDS_BY_LANGUAGE.items()},
    **{language: frozenset(map(fold, words.split())) for language, words in _IN_OTHER_LETTERS.items()},
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
