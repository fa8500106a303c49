"""What stands between the values of an answer: fences, the tags of thinking, and where values may begin."""

from __future__ import annotations

import re

from trustgraph_prompt.json_text import grammar

# Each alternative begins with a character of its own, which is searched for first.
_LANDMARK = rf"```+|~~~+|</?{grammar.THINKING}"
OBJECTS = re.compile(rf"\{{|{_LANDMARK}", re.IGNORECASE)
VALUES = re.compile(rf'\{{|\[(?=\s*+(?:[]\[{{"\d\-tfn]|\Z))|{_LANDMARK}', re.IGNORECASE)
END_OF_THINKING = re.compile(f"</{grammar.THINKING}", re.IGNORECASE)

# Text in which nothing begins; more of the same before anything else does.
PLAIN = re.compile(r"[^`~<{[]*+")
MORE_FENCES = re.compile(r"(?:[^`~<{[]*+(?:`{3,}+|~{3,}+))++")
FENCE = re.compile(r"`{3,}|~{3,}")
MORE_ASIDES = re.compile(rf"(?:[^`~<{{[\n]*+<{grammar.THINKING})*+", re.IGNORECASE)
MORE_ENDS = re.compile(rf"(?:[^`~<{{[]*+</{grammar.THINKING})++", re.IGNORECASE)

_BEGUN = re.compile(r"(?:`+|~+|</?\w*)\Z")


def begins(window: str, position: int) -> int:
    """Where behind `position` a landmark may have begun, of which the rest comes later."""
    tail = max(position, len(window) - grammar.LONGEST_TAG)
    begun = _BEGUN.search(window, tail) if tail < len(window) else None
    return begun.start() if begun else len(window)
