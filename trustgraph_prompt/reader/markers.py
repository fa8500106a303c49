"""Patterns for what the scanner looks for: code fences, marks of thinking, and where values may begin."""

from __future__ import annotations

import re
from functools import cache

from trustgraph_prompt.json_text.thinking import TAGS, TOKENS, Notation, any_of

FENCE = re.compile(r"`{3,}|~{3,}")


class Markers:
    """The patterns for the notations of thinking that are known, and `own`, one more."""

    def __init__(self, own: Notation | None) -> None:
        tokens = (*TOKENS, *((own,) if own else ()))
        tag_closes = any_of(closes for _, closes in TAGS)
        opening = [opens for opens, _ in (*TAGS, *tokens)]
        closing = [closes for _, closes in (*TAGS, *tokens)]
        marks = [*opening, *closing]
        self.mark = any_of(marks)
        self.begun = any_of(marks, begun=True)
        self.after_bracket = any_of(mark[1:] for mark in marks if mark[0] == "[")
        self.first = re.escape("".join({mark[0] for mark in marks} - {"["}))
        self.tokens = frozenset(opens.lower() for opens, _ in tokens)
        self.closes = {opens.lower(): _compiled(re.escape(closes)) for opens, closes in tokens}
        self.closes |= {opens: _compiled(tag_closes) for opens, _ in TAGS}
        self.longest = max(map(len, marks))
        # Each alternative begins with a fixed character, so that the search can skip to it.
        landmark = rf"```+|~~~+|{self.mark}"
        self.objects = _compiled(rf"\{{|{landmark}")
        first = f"{any_of(own)}|" if own else ""
        array = r'\[(?=\s*+(?:[]\[{"\d\-]|\Z))'  # no known mark goes on like this, but one's own may
        self.values = _compiled(rf"\{{|{first}{array}|{landmark}|\[(?=\s*+[tfn])")
        # Text without landmarks; then runs of the same landmark, which are passed at once.
        plain = rf"[^`~{{[{self.first}]*+"
        self.plain = _compiled(plain)
        self.more_fences = _compiled(rf"(?:{plain}(?:`{{3,}}+|~{{3,}}+))++")
        self.more_asides = _compiled(
            rf"(?:[^`~{{[\n{self.first}]*+(?:{any_of(opens for opens, _ in TAGS)}))*+"
        )
        self.more_ends = _compiled(rf"(?:{plain}(?:{any_of(closing)}))++")
        self._partial = _compiled(rf"(?:`+|~+|{self.begun})\Z")

    def partial_landmark(self, window: str, position: int) -> int:
        """Where after `position` a landmark may begin whose rest comes with the next chunk."""
        tail = max(position, len(window) - self.longest)
        partial = self._partial.search(window, tail) if tail < len(window) else None
        return partial.start() if partial else len(window)


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


markers_of = cache(Markers)
"""The markers with a notation of one's own, or None."""
