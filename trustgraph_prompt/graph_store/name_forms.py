"""Takes a name apart into what is compared: words, numbers, titles, legal forms, signs."""

# ruff: noqa: SIM905 (a list of words is easier to read in one text)
from __future__ import annotations

import re
import string
import unicodedata
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from trustgraph_prompt.grounding.numbers import NUMBER
from trustgraph_prompt.grounding.words import STOP_WORDS, fold, words

LONGEST: Final = 200
"""Characters of a name. Longer ones are compared as a whole, in lower case."""

MEN: Final = frozenset("mr sir lord king prince duke count herr".split())
WOMEN: Final = frozenset("mrs ms miss lady dame queen princess duchess countess madame frau".split())
DROPPABLE: Final = frozenset(("mr", "sir", "doctor", "professor"))
"""Titles that may be left out before a full name. "Mrs. John Watson" is not John Watson."""

LEGAL_FORMS: Final = frozenset(
    "incorporated limited llc llp plc gmbh ag kg kgaa ohg sa sarl sas srl spa bv nv ab asa oy oyj aps pty "
    "kk".split()
)
GENERATIONS: Final = frozenset(("junior", "senior"))

_SHORT = {
    "mister": "mr", "dr": "doctor", "prof": "professor", "inc": "incorporated", "ltd": "limited",
    "corp": "corporation", "co": "company", "jr": "junior", "sr": "senior",
}  # fmt: skip
_ROMAN = {
    each: str(number)
    for number, each in enumerate(
        "i ii iii iv v vi vii viii ix x xi xii xiii xiv xv xvi xvii xviii".split(), 1
    )
    if each != "x"  # Malcolm X
}
_SPELLED = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa"})
_SIGNS = "%#@*§‰"
_BESIDE_NUMBER = re.compile(r"(?<=\d)[^\w\s.,'’](?=\d)|(?<!\S)-(?=\d)")
_POWER = re.compile("(?<=\\d)(?=[⁰¹²³⁴-⁹])")
_ASIDE = re.compile(r"\(([^()]{2,10})\)\s*\Z")
_CAPITALS = frozenset(string.ascii_uppercase)
_TITLES = MEN | WOMEN | DROPPABLE
_AT_END = GENERATIONS | LEGAL_FORMS


class NameForm(NamedTuple):
    """A name, taken apart. `words` are folded and without titles, legal forms, articles and generations.

    `written` is `words` before folding, `spelled` is `words` with umlauts spelled out. `numbers` and `signs`
    tell names apart that are spelt alike. `endings` are legal forms and generations.
    """

    words: tuple[str, ...]
    written: tuple[str, ...]
    spelled: tuple[str, ...]
    numbers: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()
    article: str = ""

    @property
    def content(self) -> tuple[str, ...]:
        """The words without stop words. A single capital is an initial."""
        both = zip(self.words, self.written, strict=True)
        return tuple(word for word, written in both if word not in STOP_WORDS or written in _CAPITALS)

    @property
    def is_proper(self) -> bool:
        """Whether no word but stop words begins with a small letter."""
        both = zip(self.words, self.written, strict=True)
        return all(word in STOP_WORDS or not written[0].islower() for word, written in both)

    @property
    def initials(self) -> frozenset[str]:
        return frozenset(word for word in self.words if len(word) == 1 and word.islower())

    @property
    def units(self) -> tuple[str, ...]:
        """What is written after numbers: 10 mW is not 10 MW."""
        both = pairwise(zip(self.words, self.written, strict=True))
        return tuple(after[1] for before, after in both if before[0][0] == NUMBER)

    @property
    def acronym(self) -> str:
        return "".join(word[0] for word in self.content)


def name_form(name: str) -> NameForm | None:
    """Take a name apart; None if it has neither letters nor digits."""
    if len(name) > LONGEST:
        whole = (" ".join(name.casefold().split()),)
        return NameForm(whole, whole, whole) if whole[0] else None
    return _name_form(name)


@lru_cache(16_384)
def _name_form(name: str) -> NameForm | None:
    text = unicodedata.normalize("NFKC", _POWER.sub("^", name)).replace("&", " and ").replace("_", " ")
    text = _surname_last(_without_acronym(text))
    found = words(text)
    if not found.folded:
        return None
    written = [text[start:end] for start, end in found.spans]
    folded = [
        _word(*each, at, len(written)) for at, each in enumerate(zip(found.folded, written, strict=True))
    ]
    first, last = 0, len(folded)
    article = written[0] if folded[0] == "the" or written[0] in ("a", "an") else ""
    if article and last > 1:
        first = 1
    while first < last - 1 and folded[first] in _TITLES and written[first][0].isupper():
        first += 1
    while last - first > 1 and folded[last - 1] in _AT_END:
        last -= 1
    kept = slice(first, last)
    return NameForm(
        words=tuple(folded[kept]),
        written=tuple(written[kept]),
        spelled=tuple(map(_spelled, folded[kept], written[kept])),
        numbers=tuple(each for each in folded if each[0] == NUMBER),
        signs=_signs(text),
        titles=tuple(each for each in folded[:first] if each in _TITLES),
        endings=tuple(folded[last:]),
        article=article if len(folded) > 1 else "",
    )


def _without_acronym(text: str) -> str:
    """World Health Organization (WHO): without the acronym of the name."""
    found = _ASIDE.search(text)
    rest = _name_form(text[: found.start()]) if found else None
    return text[: found.start()] if found and rest and found[1] == rest.acronym.upper() else text


def _surname_last(text: str) -> str:
    """Lovelace, Ada: as Ada Lovelace."""
    surname, _, given = text.partition(",")
    both = words(surname).folded, words(given).folded
    is_name = all(1 <= len(each) <= 3 and not any(map(_is_in_no_name, each)) for each in both)
    return f"{given.strip()} {surname.strip()}" if is_name and "," not in given else text


def _is_in_no_name(word: str) -> bool:
    return word[0] == NUMBER or word in STOP_WORDS or _SHORT.get(word, word) in _AT_END


def _word(folded: str, written: str, at: int, count: int) -> str:
    """The form in which a word is compared: zeros kept, Roman numerals as numbers, abbreviations in full."""
    if folded[0] == NUMBER:
        return folded + re.sub(r"[^\d.]", "", written)
    if written.endswith(("'s", "’s")):
        return folded + "'s"
    if at and folded in _ROMAN and (written.isupper() or (len(folded) > 1 and written.islower())):
        return f"{NUMBER}{_ROMAN[folded]}{NUMBER}{_ROMAN[folded]}"
    if folded == "st" and at == 0 and count > 1:
        return "saint"
    return _SHORT.get(folded, folded) if count > 1 else folded


def _spelled(folded: str, written: str) -> str:
    return folded if written.isascii() else fold(written.lower().translate(_SPELLED))


def _signs(text: str) -> tuple[str, ...]:
    """What tells names apart beside words: C and C++, -5 and 5, 1/2 and 1-2."""
    alone = (each for each in text if each in _SIGNS or unicodedata.category(each) in ("Sm", "Sc", "So"))
    return (*alone, *_BESIDE_NUMBER.findall(re.sub("[‐-―]", "-", text)))
