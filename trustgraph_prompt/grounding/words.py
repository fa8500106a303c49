"""The words of a text as they are compared: folded, numbers by value, each with its place in the text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

# Scripts that write no spaces between words (Thai, Lao, Myanmar, Khmer, kana, Han): each character is a word.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3007\u3040-\u30fa\u30fc-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\uff66-\uff9f\U00020000-\U000323af"
)
# Combining characters within words: Python does not count them among letters, and Indic scripts need them.
_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u065f"
    "\u0670\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed\u0900-\u0963\u0971-\u0dff\u3099\u309a"
)
_INVISIBLE = "\u00ad\u200b-\u200f\u2060\ufeff"
_SEPARATORS = ",.'’\u066c\u00a0\u202f\u2009 "

_WORDS = re.compile(
    rf"(?P<number>"
    rf"\d{{1,3}}([{_SEPARATORS}])\d{{3}}(?:\2\d{{3}})*+(?!\d)(?:[.,\u066b]\d++(?![.,]\d))?"
    rf"|\d{{1,2}}(?:,\d\d)++,\d{{3}}(?!\d)(?:\.\d++)?"
    rf"|(?<!\d[.,])\d++(?:[.,\u066b]\d++(?![.,]\d))?|\d++)"
    rf"|(?P<character>[{_UNSPACED}][\u3099\u309a\uff9e\uff9f]?)"
    rf"|(?P<word>[^\W\d_{_UNSPACED}](?:[^\W\d_{_UNSPACED}]|[{_MARKS}{_INVISIBLE}]"
    rf"|[-\u2010][ \t]*+\r?\n[ \t]*+(?=[^\W\d_]))*+(?:['’]s(?!\w))?)"
)
_DROPPED = re.compile(rf"[{_INVISIBLE}\u0640]|[-\u2010]?\s++")
_LETTERS = str.maketrans({"æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ı": "i", "ة": "ه", "ى": "ي"})
_DECIMAL = re.compile(r"[.,\u066b](\d+)\Z")
_ONE_GROUP = re.compile(r"\d{1,3}[.,]\d{3}")

UNSPACED = re.compile(f"[{_UNSPACED}]")
"""A character of such a script."""

NUMBER = "\x02"
"""What numbers begin and end with when they are folded, so that two side by side make no other one."""


class Word(NamedTuple):
    """A word at `start` to `end` of its text, in code points; `folded` is what it is compared by."""

    folded: str
    start: int
    end: int
    is_spaced: bool
    """Whether its script has spaces, so that it ends where the next word begins."""


def words(text: str) -> Iterator[Word]:
    """The words of a text, in its order; punctuation and symbols are none."""
    for found in _WORDS.finditer(text):
        kind, written = found.lastgroup, found[0]
        folded = _folded_number(written) if kind == "number" else fold(written)
        if folded:
            yield Word(folded, *found.span(), kind != "character")


@lru_cache(16_384)
def fold(word: str) -> str:
    """A word without what is written differently in different places.

    That is case, compatibility forms, hyphens at line ends, possessive s, and the accents of the scripts in
    which two words rarely differ by nothing else (Latin, Greek, Arabic, Hebrew).
    """
    if word.isascii():
        folded = word.lower()
    else:
        folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", word).casefold())
        if folded[0] < "\u0400" or "\u0590" <= folded[0] < "\u0780":
            folded = "".join(each for each in folded if unicodedata.category(each) != "Mn")
        folded = unicodedata.normalize("NFC", folded).translate(_LETTERS)
    folded = _DROPPED.sub("", folded)
    return folded[:-2] if folded.endswith(("'s", "’s")) else folded


def _folded_number(written: str) -> str:
    """3,403 and 3403 and 3 403.0 are one number; of 1.234 nobody knows, and it counts as 1234."""
    if not written.isascii():
        written = "".join(str(unicodedata.decimal(each, each)) for each in written)
    if not written.isdigit():
        decimal = None if _ONE_GROUP.fullmatch(written) else _DECIMAL.search(written)
        whole = written[: decimal.start()] if decimal else written
        fraction = decimal[1].rstrip("0") if decimal else ""
        written = "".join(filter(str.isdigit, whole)).lstrip("0") or "0"
        written += f".{fraction}" if fraction else ""
    return f"{NUMBER}{written.lstrip('0') or '0'}{NUMBER}"
