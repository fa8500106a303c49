"""Where sentences end, and those around a part of a text."""

from __future__ import annotations

import re
from typing import Final

Span = tuple[int, int]

SENTENCE_END: Final = re.compile(  # the first set is found fast
    r"[.!?。！？｡؟۔।॥\n](?:(?<=[。！？｡؟۔।॥])|(?<=\w{3}[.!?])[.!?]*+[\"')\]”’»]*+(?=\s)|(?<=\n)[^\S\n]*+\n)"
)
"""The end of a sentence, or a blank line. Three letters before a full stop: so not after an initial."""

MOST_AROUND: Final = 500
"""Characters before and after a part of a text within which its sentences begin and end."""

_ENDED = re.compile(r"[.!?。！？｡؟۔।॥][\"')\]”’»]*+\s*+\Z")
_LONGEST_END = 10


def sentences_around(text: str, start: int, end: int) -> Span:
    """Where the sentences begin and end in which text[start:end] stands."""
    begins = max(0, start - MOST_AROUND)
    for each in SENTENCE_END.finditer(text, begins, start):
        begins = each.end()
    if _ENDED.search(text, max(start, end - _LONGEST_END), end):
        return begins, end
    found = SENTENCE_END.search(text, end, end + MOST_AROUND)
    return begins, found.end() if found else min(len(text), end + MOST_AROUND)
