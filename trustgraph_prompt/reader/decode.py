"""JSON text to values, exactly: what a fast decoder hides is looked for before it is asked."""

from __future__ import annotations

import json
import math
import re
from itertools import chain
from typing import Any, NoReturn

import orjson

from trustgraph_prompt.errors import without_frames

_DIGITS_ONLY = bytes(48 if chr(code) in "0123456789" else 32 for code in range(256))
_LONG_NUMBER = b"0" * 19  # the shortest integer beyond 64 bits
_STRIDE = 6  # of 19 digits in a row, at least three are so far apart

_PIECE = 4_000  # characters in which the end of a value is looked for first
_TIMES = 8  # as many are looked at next
_LONGEST_TOKEN = 10  # characters: `-Infinity`, one escape

_NEWLINE = "\n"
_COMMA_BETWEEN = re.compile(r"\}[ \t\r]*+,")  # perhaps between two objects


class NotJson(ValueError):
    """The text is not JSON, or holds a number that no Python value stands for; the message says why."""


def decode(text: str) -> Any:
    """The value of a JSON text (RFC 8259); that it is not too deep is the caller's to see to.

    Integers keep all their digits, strings all that is in them, half a surrogate pair too; the last of
    duplicate keys wins. Raises `NotJson`; also for NaN, Infinity and numbers too large for a float.
    """
    if not has_long_number(text):
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            pass  # the exact decoder gives the value or says why not
    return _strictly(text)


def decode_at(text: str, start: int) -> tuple[Any, int] | None:
    """The value that begins at `start` of a text, and where it ends; None where not all of one is there."""
    size = _PIECE
    while True:
        piece = text[start : start + size]
        try:
            value, end = _DECODER.raw_decode(piece)
            return value, start + end
        except json.JSONDecodeError as error:  # which counts the lines of its text up to where it breaks
            if len(piece) < size or not _breaks_at_end(piece, error):
                return None
        except (ValueError, RecursionError):
            return None
        size *= _TIMES


def decode_lines(text: str, lines: list[str]) -> list[Any]:
    """The values of the lines of a text, of which each is one value; in one call where that is safe.

    That is safe where no comma stands between two objects: there are as many values as lines only if each
    newline ended one. Raises `orjson.JSONDecodeError`.
    """
    if not _COMMA_BETWEEN.search(text):
        values: list[Any] = orjson.loads(f"[{text.replace(_NEWLINE, ',')}]")
        if len(values) == len(lines):
            return values
    return [orjson.loads(line) for line in lines if line and not line.isspace()]


def value_of(text: str) -> Any:
    """The value of what obeys the grammar; the `NotJson` where no Python value stands for it."""
    try:
        return decode(text)
    except NotJson as error:
        return without_frames(error)


def has_long_number(text: str) -> bool:
    """Whether a fast decoder might turn an integer of `text` into a float. May say yes too often."""
    data = text.encode(errors="replace")
    if b"000" not in data[::_STRIDE].translate(_DIGITS_ONLY):
        return False
    return _LONG_NUMBER in data.translate(_DIGITS_ONLY)


def is_too_deep(value: Any, text: str, levels: int) -> bool:
    """Whether `value`, which `text` says, is nested deeper; the text shows fast that most are not."""
    if len(text) <= levels or text.count("{") + text.count("[") <= levels:
        return False
    level = [value]
    for _ in range(levels):
        inner = chain.from_iterable(v.values() if isinstance(v, dict) else v for v in level)
        level = [v for v in inner if isinstance(v, (dict, list))]
        if not level:
            return False
    return True


def why_not(text: str, levels: int) -> NotJson:
    """What is wrong with a text that is known to be no JSON, or nested deeper than `levels`."""
    try:
        _strictly(text)
    except NotJson as error:
        return without_frames(error)
    return NotJson(f"nested deeper than {levels} levels")


def _breaks_at_end(text: str, error: json.JSONDecodeError) -> bool:
    """Whether more of a text might be JSON."""
    return error.pos > len(text) - _LONGEST_TOKEN or error.msg.startswith("Unterminated string")


def _strictly(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise NotJson(error.msg.removesuffix(" at").removesuffix(" starting")) from None
    except NotJson:
        raise
    except RecursionError:
        raise NotJson("nested too deep") from None
    except ValueError:
        raise NotJson("an integer with too many digits") from None


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise NotJson(f"the number {digits[:40]} is too large")
    return number


def _no_constant(name: str) -> NoReturn:
    raise NotJson(f"{name} is no JSON number")


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_no_constant)
