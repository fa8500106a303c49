"""Brackets of the prose: references, intervals, links, placeholders. No value was meant by them."""

from __future__ import annotations

import re

from trustgraph_prompt.reader.repair.grammar import QUOTES, SPACE
from trustgraph_prompt.reader.repair.notation import notation_at

# What is no array: a reference, an interval, a link. `[words]` are one only where they stand alone in a line.
_REFERENCE = re.compile(
    r"\[\s*+\d{1,3}\s*+\](?:\(|[,;:.]?[ \t]++[^\W\d])|\[[^][(){}\"'\n]*+\)|\[[^][{}\"'\n]*+\]\("
)
_SAYS_MORE = re.compile(
    rf"\[(?:{SPACE}[\[,，]){{0,40}}+{SPACE}(?:[{QUOTES}\[{{(\d.\-+\]]|//|/\*|#\s|\Z|[tfn]\w*+{SPACE}(?:[,\]]|\Z)|(?:True|False|None)\b)"
)
_WORDS_ALONE = re.compile(r"\[[^][{}]*(?:,\s*+[{\[]|\][ \t]*+[,;.]?[ \t]*+(?:\r?\n|\Z|`)|\Z)")
_ALONE_BEFORE = re.compile(r"(?:\A|[\n:=(`])[ \t]*\Z")
_FORMAT = re.compile(r"\{\w*:(?:[<>^#,][^\s{}]{0,8}|(?=[^}]?[\d.])[ +]?\d*\.?\d*[bcdeEfFgGnosxX%])\}")


def is_meant(text: str, start: int) -> bool:
    """Whether the bracket at `start` may begin a value."""
    if text[start : start + 1] == "{":
        return not _FORMAT.match(text, start)
    if text[start : start + 1] != "[" or _REFERENCE.match(text, start):
        return False
    if notation_at(text, start) or _SAYS_MORE.match(text, start):
        return True
    before = text[max(0, start - 40) : start]
    return _ALONE_BEFORE.search(before) is not None and _WORDS_ALONE.match(text, start) is not None
