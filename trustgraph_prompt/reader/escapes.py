"""Escapes of JSON strings that a cut has halved."""

from __future__ import annotations

import re

_PART = r"\\(?:u[0-9a-fA-F]{0,3})?"
_FIRST_OF_PAIR = r"\\u[dD][89abAB][0-9a-fA-F]{2}"
_HALF = re.compile(rf"(?<!\\)(?:\\\\)*+({_FIRST_OF_PAIR}(?:{_PART})?|{_PART})\Z")


def before_half_escape(text: str) -> str:
    """A text without the escape, or pair of surrogates, that its end cuts in two.

    A model whose words are held to JSON would begin a new escape within the old one.
    """
    half = _HALF.search(text)
    return text[: half.start(1)] if half else text
