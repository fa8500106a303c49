"""Patterns for what the scanner looks for: code fences, tags of thinking, and where values may begin."""

from __future__ import annotations

import re

from trustgraph_prompt.json_text import grammar

# Each alternative begins with a fixed character, so that the search can skip to it.
_LANDMARK = rf"```+|~~~+|</?{grammar.THINKING}"
OBJECTS = re.compile(rf"\{{|{_LANDMARK}", re.IGNORECASE)
VALUES = re.compile(rf'\{{|\[(?=\s*+(?:[]\[{{"\d\-tfn]|\Z))|{_LANDMARK}', re.IGNORECASE)
END_OF_THINKING = re.compile(f"</{grammar.THINKING}", re.IGNORECASE)

# Text without landmarks; then runs of the same landmark, which are passed at once.
PLAIN = re.compile(r"[^`~<{[]*+")
MORE_FENCES = re.compile(r"(?:[^`~<{[]*+(?:`{3,}+|~{3,}+))++")
FENCE = re.compile(r"`{3,}|~{3,}")
MORE_ASIDES = re.compile(rf"(?:[^`~<{{[\n]*+<{grammar.THINKING})*+", re.IGNORECASE)
MORE_ENDS = re.compile(rf"(?:[^`~<{{[]*+</{grammar.THINKING})++", re.IGNORECASE)

_PARTIAL = re.compile(r"(?:`+|~+|</?\w*)\Z")


def partial_landmark(window: str, position: int) -> int:
    """Where after `position` a landmark may begin whose rest comes with the next chunk."""
    tail = max(position, len(window) - grammar.LONGEST_TAG)
    partial = _PARTIAL.search(window, tail) if tail < len(window) else None
    return partial.start() if partial else len(window)
