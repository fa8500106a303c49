"""Reads numbers as texts write them: their value, their sign, and a second reading if they have one."""

# ruff: noqa: SIM905 (a list of words is easier to read in one text)

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal
from typing import Final, NamedTuple

NUMBER: Final = "\x02"
"""Begins each folded number, and ends one without a sign, so that adjacent numbers do not look like one."""

NEGATIVE: Final = "\x03"
"""Ends a folded number with a minus."""

EXPONENT: Final = r"[eE][-+\u2212]?\d{1,2}(?!\w)"
"""Pattern of the exponent of a number such as 1.5e6, with few digits, as all are written out."""

NEGATIVE_WORDS: Final = frozenset(
    "below negative loss losses lost deficit deficits decrease decreased decline declined drop dropped fall "
    "fell fallen down shrank bc bce south west "
    "unter verlust verluste verlusten defizit ruckgang gesunken sank gefallen fiel "
    "moins dessous perte pertes baisse recul menos bajo perdida perdidas caida descenso "
    "meno sotto perdita perdite calo abaixo perda perdas queda onder verlies daling "
    "ниже убыток убытка".split()
)
"""Folded words that say in a few languages that a number near them is below zero."""

_POWER: Final = "\x04"  # ends the negative exponent of a power
_CURRENCY = "$€£¥"
_MINUS = "-\u2212\u2013\uff0d"
_RAISED_MINUS = "\u207b\u208b"
_BEFORE = frozenset(f"{_MINUS}{_RAISED_MINUS}{_CURRENCY}.")
_SIGN = re.compile(
    rf"(?:(?P<power>[{_RAISED_MINUS}]|(?:(?<=\^)|(?<=\^[({{]))[{_MINUS}])"
    rf"|(?P<minus>(?<![^\s(\[{{<>=≈~≤≥:;,|^±×*/\"'“„‘«{_CURRENCY}])[{_MINUS}][{_CURRENCY}]?"
    r"|(?<![\d)] )(?<!\bor )(?<!oder )(?<!plus[-/ ])(?<!или )\b(?i:minus|минус|мінус)\s)"
    rf"|(?P<hyphen>(?<=\w)[{_MINUS}]))?(?P<point>(?<![\w.])\.)?\Z"
)
_LONGEST_SIGN = 8  # characters of "minus" and a point
_SIGNED = re.compile(rf"[{_MINUS}{_RAISED_MINUS}{_CURRENCY}.]{{1,3}}(?=\d)")
_MARK = re.compile(r"\D")
_GROUPED = re.compile(r"[1-9]\d{0,2}[.,]\d{3}")
_LONGEST_FRACTION = 5  # characters of ⅛ in decimals; a third has no end


class Sign(NamedTuple):
    """Where a number begins with what stands before its digits, and how its folded form ends."""

    begin: int
    end: str = NUMBER
    other_end: str | None = None
    """What it may end with as well: a hyphen can be the minus of an exponent, or a dash between numbers."""
    has_point: bool = False


def sign_before(text: str, start: int) -> Sign:
    """The sign of the number whose digits begin at `start`."""
    before = text[start - 1 : start]
    if before not in _BEFORE and not (before.isspace() and text[start - 2 : start - 1] in "sSсС"):
        return Sign(start)
    found = _SIGN.search(text, max(0, start - _LONGEST_SIGN), start)
    if found is None or found.end() == found.start():
        return Sign(start)
    has_point = found["point"] is not None
    if found["power"]:
        return Sign(found.start(), _POWER, None, has_point)
    if found["minus"]:
        is_after_number = text[max(0, found.start() - 2) : found.start()].rstrip(" ")[-1:].isdigit()
        return Sign(found.start(), NEGATIVE, NUMBER if is_after_number else None, has_point)
    return Sign(start - has_point, NUMBER, _POWER if found["hyphen"] else None, has_point)


def begins_number(text: str, start: int) -> bool:
    """Whether no sign or point of a number is cut off before `start`; true where no number begins."""
    signed = _SIGNED.match(text, start)
    if not signed and not text[start].isdigit():
        return True
    begin = sign_before(text, signed.end() if signed else start).begin
    return begin == start or (begin > start and text[start] in _CURRENCY)


def value_of(written: str) -> tuple[str, str | None]:
    """The value of a number, and its second reading if it has one.

    3,403, 3403, 3 403.0 and 3.403e3 are the same number; 1.234 may stand for 1234, and for 1.234.
    """
    if not written.isascii():
        written = "".join(str(unicodedata.digit(each, "-" if each == "\u2212" else each)) for each in written)
    if _GROUPED.fullmatch(written):
        return _decimal(written[:-4] + written[-3:]), _decimal(written.replace(",", "."))
    if written[-1].isnumeric() and not written[-1].isdigit():
        return _with_fraction(written[:-1], written[-1]), None
    number, _, power = written.lower().partition("e")
    marks = _MARK.findall(number)
    whole, fraction = number, ""
    if marks and marks[-1] not in marks[:-1] and marks[-1] in ".,\u066b":
        whole, _, fraction = number.rpartition(marks[-1])
    return _decimal(f"{''.join(filter(str.isdigit, whole))}.{fraction}", power), None


def _with_fraction(whole: str, fraction: str) -> str:
    """1½ is 1.5; decimals of 1⅓ have no end, and so it is only equal to itself."""
    decimals = f"{unicodedata.numeric(fraction):g}"
    return f"{whole.strip() or 0}{decimals[1:] if len(decimals) <= _LONGEST_FRACTION else fraction}"


def _decimal(number: str, power: str = "") -> str:
    if power:
        number = format(Decimal(f"{number}e{power}"), "f")
    whole, _, fraction = number.partition(".")
    whole, fraction = whole.lstrip("0") or "0", fraction.rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole
