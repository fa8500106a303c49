"""Decodes JSON exactly and fast.

orjson silently turns integers beyond 64 bits into floats, so texts are searched for long numbers first.
"""

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
_STRIDE = 6  # of 19 digits in a row, at least three are among every sixth character

_PIECE = 4_000  # characters in which the end of a value is searched for first
_GROWTH = 8  # the factor by which the next piece is longer
_LONGEST_TOKEN = 10  # characters of `-Infinity` or an escape

_NEWLINE = "\n"
_COMMA_BETWEEN = re.compile(r"\}[ \t\r]*+,")  # perhaps between two objects


class NotJson(ValueError):
    """The text is not JSON, or contains a number that Python cannot represent; the message says why."""


def decode(text: str) -> Any:
    """Decode a JSON text (RFC 8259). The caller limits the depth.

    Integers keep all their digits, and strings keep unpaired surrogates; the last of duplicate keys wins.
    Raises `NotJson`, also for NaN, Infinity and numbers too large for a float.
    """
    if not has_long_number(text):
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            pass  # the exact decoder accepts more, or says what is wrong
    return _decode_exactly(text)


def decode_at(text: str, start: int) -> tuple[Any, int] | None:
    """The value that begins at `start`, and where it ends; None where no complete value begins there."""
    size = _PIECE
    while True:
        piece = text[start : start + size]
        try:
            value, end = _DECODER.raw_decode(piece)
            return value, start + end
        except json.JSONDecodeError as error:  # whose constructor counts the lines of the text, hence pieces
            if len(piece) < size or not _may_continue(piece, error):
                return None
        except (ValueError, RecursionError):
            return None
        size *= _GROWTH


def decode_here(text: str, start: int) -> tuple[Any, int] | None:
    """As `decode_at`, faster where a value is complete, and slower where it is not."""
    try:
        return _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None


def decode_lines(text: str, lines: list[str]) -> list[Any]:
    """Decode a text with one value a line, in one call where that is safe.

    It is safe if there is no comma between two objects: then the number of values equals that of the lines
    only if each newline ended a value. Raises `orjson.JSONDecodeError`.
    """
    if len(lines) == 1:
        return [orjson.loads(text)]
    if not _COMMA_BETWEEN.search(text):
        values: list[Any] = orjson.loads(f"[{text.replace(_NEWLINE, ',')}]")
        if len(values) == len(lines):
            return values
    return [orjson.loads(line) for line in lines if line and not line.isspace()]


def decode_or_error(text: str) -> Any:
    """The value of a text; or, as a value, the `NotJson` that `decode` raises."""
    try:
        return decode(text)
    except NotJson as error:
        return without_frames(error)


def has_long_number(text: str) -> bool:
    """Whether orjson might turn an integer of `text` into a float; may be true although it would not."""
    data = text.encode(errors="replace")
    if b"000" not in data[::_STRIDE].translate(_DIGITS_ONLY):
        return False
    return _LONG_NUMBER in data.translate(_DIGITS_ONLY)


def is_too_deep(value: Any, text: str, levels: int) -> bool:
    """Whether `value`, decoded from `text`, is nested deeper than `levels`; most texts rule it out fast."""
    if len(text) <= levels or text.count("{") + text.count("[") <= levels:
        return False
    level = [value]
    for _ in range(levels):
        inner = chain.from_iterable(v.values() if isinstance(v, dict) else v for v in level)
        level = [v for v in inner if isinstance(v, (dict, list))]
        if not level:
            return False
    return True


def decode_error(text: str, levels: int) -> NotJson:
    """What is wrong with a text that is known to be invalid, or nested deeper than `levels`."""
    try:
        _decode_exactly(text)
    except NotJson as error:
        return without_frames(error)
    return NotJson(f"nested deeper than {levels} levels")


def _may_continue(text: str, error: json.JSONDecodeError) -> bool:
    """Whether the text might be valid if it continued."""
    return error.pos > len(text) - _LONGEST_TOKEN or error.msg.startswith("Unterminated string")


def _decode_exactly(text: str) -> Any:
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
