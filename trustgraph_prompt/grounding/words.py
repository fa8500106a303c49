"""Splits a text into words in the form in which they are compared: folded, numbers by value; stop words."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final, NamedTuple

from trustgraph_prompt.grounding.numbers import EXPONENT, NUMBER, sign_before, value_of

# Scripts without spaces between words (Thai, Lao, Myanmar, Khmer, kana, Han), without their digits: each
# character is a word.
_UNSPACED = (
    "\u0e00-\u0e4f\u0e5a-\u0ecf\u0eda-\u0eff\u1000-\u103f\u104a-\u108f\u109a-\u109f\u1780-\u17df\u17ea-\u17ff"
    "\u2e80-\u2fdf\u3005\u3007\u3040-\u30fa\u30fc-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f"
    "\U00020000-\U000323af"
)
# Combining characters within words: for Python they are not letters, but Indic scripts need them.
_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u065f"
    "\u0670\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed\u0900-\u0963\u0971-\u0dff\u3099\u309a"
)
_INVISIBLE = "\u00ad\u180b-\u180d\u200b-\u200f\u2060\ufe00-\ufe0f\ufeff"
_SCRIPT_DIGITS = "\u00b2\u00b3\u00b9\u2070\u2074-\u2079\u2080-\u2089"
_FRACTIONS = "\u00bc-\u00be\u2150-\u215e\u2189"
_SEPARATORS = ",.'’\u066c\u00a0\u202f\u2009 "

_LETTER = rf"[^\W\d_{_UNSPACED}{_SCRIPT_DIGITS}{_FRACTIONS}]"
_LETTERS_OF_WORD = rf"(?:[A-Za-z]++|{_LETTER})"  # the first alternative is faster
LINE_END = r"[-\u2010][ \t]*+\r?\n[ \t]*+(?=[^\W\d_A-ZÀ-Þ])"
"""A hyphen that divides a word at the end of a line. A capital letter after it begins another word."""

# A zero-width non-joiner separates endings in the Arabic script, and belongs to the word elsewhere.
_WITHIN = rf"[{_MARKS}{_INVISIBLE}](?<![\u0620-\u06ff]\u200c)|{LINE_END}"
_NO_ZERO = "(?![0\u0660\u06f0\u0966\uff10])"  # nothing is grouped after a leading zero

_WORDS = re.compile(
    rf"{_LETTERS_OF_WORD}++(?:(?:{_WITHIN}){_LETTERS_OF_WORD}*+)*+(?:['’]s(?!\w))?"
    rf"|[{_UNSPACED}][\u3099\u309a\uff9e\uff9f]?"
    rf"|(?=[\d{_SCRIPT_DIGITS}{_FRACTIONS}])"
    rf"(?:[{_SCRIPT_DIGITS}]++|(?:\d{{1,4}}[\u00a0\u202f\u2009 ]?)?[{_FRACTIONS}]"
    rf"|{_NO_ZERO}\d{{1,3}}([{_SEPARATORS}])\d{{3}}(?!\d|{EXPONENT})(?:\1\d{{3}}(?!\d))*+"
    rf"(?:[.,\u066b]\d++(?![.,]\d))?"
    rf"|{_NO_ZERO}\d{{1,2}}(?:,\d\d(?!\d)){{1,6}}+,\d{{3}}(?!\d)(?:\.\d++)?"
    rf"|(?<!\d[.,])\d++(?:[.,\u066b]\d++(?![.,]\d))?(?:{EXPONENT})?|\d++)"
)
_NUMBER = re.compile(rf"[\d{_SCRIPT_DIGITS}{_FRACTIONS}]")
_DROPPED = re.compile(rf"[{_INVISIBLE}\u0640]|[-\u2010]?\s++")
_NUKTA = "\u093c"  # often left out in Devanagari
# One letter in several encodings, some with letters that only look like it; signs that are written or not.
_LETTERS = str.maketrans(
    {"æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ı": "i", "ǝ": "ə", "ё": "е"}
    | dict(zip("ةىکیہھەګٱ", "هيكيهههگا", strict=True))
    | {"װ": "וו", "ױ": "וי", "ײ": "יי", "แ": "เเ", "ແ": "ເເ", "ৎ": "ত্"}
    | {"ൺ": "ണ്", "ൻ": "ന്", "ർ": "ര്", "ൽ": "ല്", "ൾ": "ള്", "ൿ": "ക്"}
    | dict.fromkeys("ʹʺʻʼʾʿ·")
)
_FINALS = dict(zip("ᄀᄁᄂᄃᄅᄆᄇᄉᄊᄋᄌᄎᄏᄐᄑᄒ", "ᆨᆩᆫᆮᆯᆷᆸᆺᆻᆼᆽᆾᆿᇀᇁᇂ", strict=True))
_FINAL = re.compile("(?<=[\u1161-\u1175])[\u1100-\u1112](?![\u1161-\u1175])")  # a Korean consonant
_LONGEST_KEPT = 64  # letters of a word that is cached

UNSPACED = re.compile(f"[{_UNSPACED}]")
"""A character of a script without spaces."""


class Words(NamedTuple):
    """The words of a text in order: their folded forms, and their start and end.

    `readings` has, by position, the other number that a number may stand for.
    """

    folded: list[str]
    spans: list[tuple[int, int]]
    readings: dict[int, str]

    def reread(self) -> Words:
        """The same words with the other reading of each number that has one."""
        read = (self.readings.get(place, word) for place, word in enumerate(self.folded))
        return self._replace(folded=list(read), readings={})


def words(text: str) -> Words:
    """Split a text into words, without punctuation and symbols."""
    folded, spans, _ = split = Words([], [], {})
    for found in _WORDS.finditer(text):
        written = found[0]
        if written.isalpha() and written.isascii():
            word = written.lower()
        elif _NUMBER.match(written):
            _add_number(split, text, *found.span())
            continue
        else:
            word = fold(written) if len(written) <= _LONGEST_KEPT else _fold(written)
        if word:
            folded.append(word)
            spans.append(found.span())
    return split


def _add_number(split: Words, text: str, start: int, end: int) -> None:
    folded, spans, readings = split
    sign = sign_before(text, start)
    while spans and spans[-1][0] >= sign.begin:  # the word "minus"
        folded.pop(), spans.pop()
    value, other = value_of(f".{text[start:end]}" if sign.has_point else text[start:end])
    if other or sign.other_end:
        readings[len(folded)] = f"{NUMBER}{other or value}{sign.end if other else sign.other_end}"
    folded.append(f"{NUMBER}{value}{NUMBER if value == '0' else sign.end}")
    spans.append((sign.begin, end))


def _fold(word: str) -> str:
    """Remove from a word what differs between spellings.

    That is case, compatibility forms, hyphens at line ends, the possessive s, and accents in the scripts
    where words rarely differ by accents alone (Latin, Greek, Arabic, Hebrew).
    """
    if word.isascii():
        folded = word.lower()
    else:
        folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", word).casefold())
        if folded[0] < "\u0400" or "\u0590" <= folded[0] < "\u0780":
            folded = "".join(each for each in folded if unicodedata.category(each) != "Mn")
        folded = _FINAL.sub(lambda found: _FINALS.get(found[0], found[0]), folded.replace(_NUKTA, ""))
        folded = unicodedata.normalize("NFC", folded).translate(_LETTERS)
    folded = _DROPPED.sub("", folded)
    return folded[:-2] if folded.endswith(("'s", "’s")) else folded


fold = lru_cache(16_384)(_fold)


STOP_WORDS_BY_LANGUAGE: Final = {
    "en": "a an and are as at be been but by for from had has have he her his in into is it its not of on or "
    "our she so than that the their them then there these they this those to was we were what when where "
    "which who whom whose will with you your",
    "de": "am auf aus bei das dem den der des die ein eine einem einen einer eines fur im in ist mit "
    "nach oder sich sind und vom von waren wie zu zum zur",
    "fr": "au aux avec ce ces cette d dans de des du elle en est et il ils l la le les leur ou par pas pour "
    "que qui sa se ses sont sur un une",
    "es": "al como con de del e el en es la las lo los o para por que se su sus un una y",
    "it": "al alla che con da dal de dei del della delle di e gli i il in la le lo nel o per si sono un una",
    "pt": "a ao as com da das de do dos e em na nas no nos o os ou para por que se sua um uma",
    "nl": "aan dat de die een en het in is met naar of om op te van voor zijn",
}

STOP_WORDS: Final = frozenset(word for words in STOP_WORDS_BY_LANGUAGE.values() for word in words.split())
"""Articles, prepositions, pronouns and forms of "to be" in a few languages, without accents.

Words that have a meaning in English are left out: the German "war", the French "son".
"""
