"""Quoted texts: one quote on each side with JSON's escapes; three as they are, without their indentation."""

from __future__ import annotations

import re
from os.path import commonprefix

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "/": "/", "\\": "\\", '"': '"', "'": "'"}
TRIPLE = ('"""', "'''")
"""The quotes of a text of several lines."""

QUOTED = r'"""(?s:.)*?"""' r"|'''(?s:.)*?'''" r'|"(?:[^"\\\n]++|\\.)*+"' r"|'(?:[^'\\\n]++|\\.)*+'"
"""A quoted text in a source, as a regular expression."""

_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")


def unquoted(token: str) -> str:
    """What is between the quotes. Raises `ValueError` with what is wrong there, in an author's words."""
    if token.startswith(TRIPLE):
        return block(token[3:-3])
    text = _ESCAPE.sub(_unescaped, token[1:-1])
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise ValueError("unpaired surrogate: \\ud800 to \\udfff must come in pairs") from None


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    if len(code) > 1:
        return chr(int(code[1:], 16))
    if code not in _ESCAPES:
        raise ValueError(f"unknown escape \\{code}; a backslash is written \\\\")
    return _ESCAPES[code]


def block(inside: str) -> str:
    """A text between triple quotes: no line break after the opening ones, no common indentation, no white
    space in empty lines and before the closing ones."""
    lines = inside.removeprefix("\n").split("\n")
    lines = [line if line.strip(" \t") else "" for line in lines]
    written = [line for line in lines if line]
    margin = len(commonprefix([line[: len(line) - len(line.lstrip(" \t"))] for line in written]))  # noqa: RUF071
    return "\n".join(line[margin:] for line in lines)
