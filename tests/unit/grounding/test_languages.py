"""Which scripts and languages the words of a text are in."""

from __future__ import annotations

from collections import Counter

import pytest

from trustgraph_prompt.grounding.languages import languages_of, scripts_of
from trustgraph_prompt.grounding.words import words


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The saw was hung on the wall with a nail.", "en"),
        ("Il est né dans une ville de la côte.", "fr"),
        ("Nació en una ciudad de la costa y murió en el mar.", "es"),
        ("Hij woonde in een stad aan het water van de rivier.", "nl"),
        ("Он жил в городе у реки, и это был его дом.", "ru"),
        ("Він жив у місті біля річки, і це був його дім.", "uk"),
        ("كان يعيش في مدينة على النهر.", "ar"),
        ("او در شهری زندگی می کرد که با رود بود.", "fa"),
    ],
)
def test_text_is_in_the_language_of_most_of_its_stop_words(text: str, language: str) -> None:
    assert languages_of(Counter(words(text).folded)) == {language}


def test_word_that_several_languages_have_leaves_all_of_them() -> None:
    assert {"en", "de", "it", "nl"} <= languages_of({"in": 1})


def test_text_without_stop_words_is_in_no_known_language() -> None:
    assert languages_of(Counter(words("Delft, Leiden: 1999").folded)) == frozenset()


@pytest.mark.parametrize(
    ("text", "scripts"),
    [
        ("Delft 1999", {"LATIN"}),
        ("Дельфт (Delft)", {"CYRILLIC", "LATIN"}),
        ("東京タワー", {"CJK", "KANA"}),
        ("のこぎり", {"KANA"}),
        ("المنشار", {"ARABIC"}),
        ("서울", {"HANGUL"}),
        ("1999", set()),
    ],
)
def test_words_have_the_scripts_of_their_letters(text: str, scripts: set[str]) -> None:
    assert scripts_of(words(text).folded) == scripts
