"""Reads values without quotes: numbers and literals in all spellings, else text, and where that ends."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from enum import Enum, auto
from typing import Any, NamedTuple

from trustgraph_prompt.json_text.grammar import end_of
from trustgraph_prompt.reader.repair.ambiguities import Ambiguities, RepairBudget
from trustgraph_prompt.reader.repair.grammar import (
    COMMA,
    QUOTED_KEY,
    Names,
    Within,
    begins_member,
    is_stop,
    may_begin_member,
    next_mark,
)

_NUMBER = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?+[0-9]++)?+"
_PLAIN = re.compile(rf"(?:{_NUMBER}|true|false|null)(?=[ \t\r\n]*+[,}}\]])")
_PLAIN_OF_MANY = re.compile(
    rf"(?:{_NUMBER}|true|false|null)(?=[ \t]++(?:-?\d[\d.]*+|true|false|null)[\s,\]])"
)
_PLAIN_NUMBER = re.compile(_NUMBER)
_PLAIN_LITERALS = {"true": True, "false": False, "null": None}
_LITERALS: dict[str, bool | None] = {"True": True, "TRUE": True, "False": False, "FALSE": False}
_LITERALS |= dict.fromkeys(("None", "NULL", "Null", "nil", "undefined", "NaN", "nan"))
_LITERALS |= dict.fromkeys(f"{sign}{name}" for sign in ("", "-", "+") for name in ("Infinity", "inf"))
_HALF_LITERAL = re.compile(
    r"t(?:ru?)?|f(?:a(?:ls?)?)?|n(?:ul?)?|T(?:ru?)?|F(?:a(?:ls?)?)?|N(?:on?|aN?)?|-?I(?:n[finty]*)?|un(?:d[efin]*)?"
)
_HALF_NUMBER = re.compile(r"[+-]?(?:[\d.][\d.eE+_-]*+)?")

# Numbers in spellings that JSON lacks.
_HEXADECIMAL = re.compile(r"[+-]?0[xX][0-9a-fA-F]{1,64}")
_UNUSUAL = re.compile(r"([+-]?(?:\d++(?:_\d++)*+\.?\d*+|\.\d++)(?:[eE][+-]?\d++)?+)(?:[eE][+-]?)?+")
# Text rather than numbers: codes with leading zeros, digits in groups, percentages.
_AS_TEXT = re.compile(r"([+-]?(?:0\d++|\d{1,3}(?:,\d{3})++|\d++(?=\.?\d*+ ?%))(?:\.\d++)?+) ?%?")

_AROUND = " \t\r\n;\u00a0\u3000\ufeff\u200b\u200c\u200d\u2060"
_ASSIGNED = re.compile(r"\s++[^\W\d][\w-]*+\s*+=(?!=)")
_GROUPED = re.compile(r",\d")
_RUN = re.compile(r"(?:[^,，;\[\]{}()\n\"“”:/#]++|\([^()\n]*+\)|\[[^\[\]{}\n\"]*+\]|\{[^\[\]{}\n\":]*+\})*+")
_WORD_BEFORE = re.compile(r"\s([^\W\d][\w$@.-]{0,80}+)\Z")


class Half(Enum):
    """What an incomplete value at the end of the text may be."""

    NUMBER = auto()
    LITERAL = auto()


class BareValue(NamedTuple):
    """A value without quotes, where the text after it begins, and what is wrong with it.

    `half` is set if the text ends with it, and a longer value may begin this way.
    """

    value: Any
    end: int
    flaw: str = ""
    half: Half | None = None


class BareValues:
    """Reads the values without quotes of one text."""

    def __init__(self, text: str, names: Names, ambiguities: Ambiguities, budget: RepairBudget) -> None:
        self._text = text
        self._names = names
        self._ambiguities = ambiguities
        self._budget = budget

    def read(self, start: int, place: Within, brackets: Sequence[str]) -> BareValue:
        """The value that begins at `start`; `brackets` are the closing ones that are missing there."""
        text = self._text
        plain = _PLAIN.match(text, start) or (place is Within.ELEMENT and _PLAIN_OF_MANY.match(text, start))
        if plain and not (place is Within.MEMBER and _GROUPED.match(text, plain.end())):
            end = after = plain.end()
        else:
            end, after = self._extent(start, place, brackets)
        raw = text[start:end].strip(_AROUND)
        if end < after:
            return BareValue(raw, after, "a string without its beginning")
        value, flaw = self.meaning(raw, start)
        if after < len(text):
            return BareValue(value, after, flaw)
        half = Half.LITERAL if _HALF_LITERAL.fullmatch(raw) else None
        return BareValue(value, after, flaw, Half.NUMBER if _HALF_NUMBER.fullmatch(raw) else half)

    def meaning(self, raw: str, start: int) -> tuple[Any, str]:
        """The value of `raw`, and what is wrong with it."""
        if raw in _PLAIN_LITERALS:
            return _PLAIN_LITERALS[raw], ""
        try:
            if _PLAIN_NUMBER.fullmatch(raw):
                return _number(raw), ""
            if raw in _LITERALS:
                literal = _LITERALS[raw]
                value = self._ambiguities.choose("literal", start, literal, raw)
                return value, "text without quotes" if value == raw else "another spelling of a literal"
            ways = _ways_to_read_number(raw)
        except ValueError:
            return raw, "a number too large"
        if ways:
            return self._ambiguities.choose("number", start, *ways), "a number that is not JSON"
        return raw, "text without quotes"

    def _extent(self, start: int, place: Within, brackets: Sequence[str]) -> tuple[int, int]:
        """Where text without quotes ends, and where the next begins: after a closing quote, if it has one."""
        text = self._text
        quotation = False
        position = start
        while True:
            self._budget.spend(position)
            position = end_of(_RUN, text, position)
            mark = text[position : position + 1]
            if mark == "" or mark in "}]{" or (mark == ")" and brackets[-1] == ")"):
                return position, position
            if mark in '"“”':
                if QUOTED_KEY.match(text, position):
                    return position, position
                if not quotation and self._follows(position + 1, place, closing=True):
                    return position, position + 1
                quotation = not quotation
            elif mark in COMMA:
                if (place is Within.ELEMENT and mark != ";") or (
                    place is Within.MEMBER and self._follows(position, place)
                ):
                    return position, position
            elif mark == "\n":
                if (
                    place is Within.ELEMENT
                    or self._is_complete(start, position)
                    or self._follows(position, place)
                ):
                    return position, position
            elif mark == ":" and place is Within.MEMBER:
                word = _WORD_BEFORE.search(text, max(start, position - 90), position)
                if word and (word[1] in self._names or self._is_complete(start, word.start())):
                    return word.start(), word.start()
            elif mark in "/#" and self._is_comment(start, position):
                return position, position
            position += 1

    def _follows(self, position: int, place: Within, *, closing: bool = False) -> bool:
        """Whether the text ends before a line end, comma or quote at `position`, judged by what follows."""
        text = self._text
        position, mark = next_mark(text, position)
        comma = mark != "" and mark in COMMA
        if comma and place is Within.MEMBER and _ASSIGNED.match(text, position + 1):
            return True
        while mark and mark in COMMA:
            position, mark = next_mark(text, position + 1)
        if mark == "" or mark in "}]{" or is_stop(text, position):
            return True
        if place is Within.ELEMENT:
            return comma
        if comma or not closing:
            member = may_begin_member if comma else begins_member
            return member(text, position, self._names)
        return False

    def _is_comment(self, start: int, position: int) -> bool:
        """Whether a comment begins, not a path or URL: after a space, or after a complete value."""
        text = self._text
        if not is_stop(text, position):
            return False
        return (
            text[position - 1].isspace()
            or text.startswith("/*", position)
            or self._is_complete(start, position)
        )

    def _is_complete(self, start: int, end: int) -> bool:
        """Whether a plain number or literal ends at `end`."""
        raw = self._text[start : min(end, start + 40)].strip()
        return end - start <= 40 and (raw in _PLAIN_LITERALS or _PLAIN_NUMBER.fullmatch(raw) is not None)


def _ways_to_read_number(raw: str) -> tuple[Any, ...]:
    """A number in a spelling that JSON lacks, and its text, the likelier first; none for any other text."""
    if _HEXADECIMAL.fullmatch(raw):
        return int(raw, 16), raw
    if number := _AS_TEXT.fullmatch(raw):
        return raw, _number(number[1].replace(",", ""))
    if number := _UNUSUAL.fullmatch(raw):
        return _number(number[1]), raw
    return ()


def _number(digits: str) -> int | float:
    """The number; raises `ValueError` if it is infinite, or has too many digits for `int`."""
    if digits.lstrip("+-").replace("_", "").isdecimal():
        return int(digits)
    number = float(digits)
    if math.isinf(number):
        raise ValueError
    return number
