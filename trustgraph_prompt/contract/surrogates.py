"""Halves of surrogate pairs: JSON may name them, text in UTF-8 has none, so values are judged without."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from trustgraph_prompt.contract.judging_meter import TooMuchError

T = TypeVar("T")

_HALF = re.compile("[\ud800-\udfff]")


def judged(judge: Callable[[Any], T], value: Any) -> T:
    """What `judge` says of a value; of one with U+FFFD for each half of a pair where there are any.

    Raises `TooMuchError` where that cannot be told.
    """
    try:
        return judge(value)
    except UnicodeEncodeError:
        return judge(_whole(value))


def readable(text: str) -> str:
    """The text with U+FFFD for each half of a pair."""
    return _HALF.sub("\ufffd", text)


def _whole(value: Any) -> Any:
    try:
        return _replaced(value)
    except RecursionError:
        raise TooMuchError("nested too deep to be held against this schema") from None


def _replaced(value: Any) -> Any:
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, list):
        return [_replaced(item) for item in value]
    if not isinstance(value, dict):
        return value
    made = {readable(name): _replaced(item) for name, item in value.items()}
    if len(made) < len(value):
        raise TooMuchError("two keys differ in nothing but halves of surrogate pairs")
    return made
