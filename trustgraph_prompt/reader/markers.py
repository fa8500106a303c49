"""Patterns for what the scanner looks for: code fences, marks of thinking, and where values may begin."""

from __future__ import annotations

import re
from functools import cache, cached_property

from trustgraph_prompt.json_text.thinking import TAGS, TOKENS, Notation, any_of

_MANY = 50  # characters; where brackets are closer than that, a mark is not looked for at each without need

FENCE = re.compile(r"`{3,}|~{3,}")


class Markers:
    """The patterns for the notations of thinking that are known, and `own`, one more.

    With `rare` False, only marks that begin with "<" are found, which is faster.
    """

    def __init__(self, own: Notation | None, *, rare: bool = True) -> None:
        tokens = (*TOKENS, *((own,) if own else ()))
        tag_closes = any_of(closes for _, closes in TAGS)
        known = [mark for notation in (*TAGS, *tokens) for mark in notation]
        marks = [mark for mark in known if rare or mark[0] == "<"]
        closing = {closes for _, closes in (*TAGS, *tokens)}.intersection(marks)
        self._own = own
        others = [mark for mark in known if mark[0] != "<"]
        self._rare = [mark[1:].lower() for mark in others]
        self._rare_firsts = {*"".join(mark[0].lower() + mark[0].upper() for mark in others)}
        self.mark = any_of(marks)
        self.begun = any_of(known, begun=True)
        after_bracket = any_of(mark[1:] for mark in marks if mark[0] == "[")
        self.bracket = r"[{[]" + (f"(?!{after_bracket})" if after_bracket else "")
        self.first = re.escape("".join({mark[0] for mark in marks} - {"["}))
        self.tokens = frozenset(opens.lower() for opens, _ in tokens)
        self.closes = {opens.lower(): _compiled(re.escape(closes)) for opens, closes in tokens}
        self.closes |= {opens: _compiled(tag_closes) for opens, _ in TAGS}
        self.longest = max(map(len, known))
        # Each alternative begins with a fixed character, so that the search can skip to it.
        landmark = rf"```+|~~~+|{self.mark}"
        self.objects = _compiled(rf"\{{|{landmark}")
        self.values = _compiled(rf'\{{|{landmark}|\[(?=\s*+(?:[]\[{{"\d\-tfn]|\Z))')
        # Text without landmarks; then runs of the same landmark, which are passed at once.
        plain = rf"[^`~{{[{self.first}]*+"
        self.plain = _compiled(plain)
        self.more_fences = _compiled(rf"(?:{plain}(?:`{{3,}}+|~{{3,}}+))++")
        self.more_asides = _compiled(
            rf"(?:[^`~{{[\n{self.first}]*+(?:{any_of(opens for opens, _ in TAGS)}))*+"
        )
        self.more_ends = _compiled(rf"(?:{plain}(?:{any_of(closing)}))++")
        self._partial = _compiled(rf"(?:`+|~+|{self.begun})\Z")

    @cached_property
    def _without_rare(self) -> Markers:
        return Markers(self._own, rare=False)

    def for_text(self, text: str) -> Markers:
        """The patterns that find all marks in a text, and not more of them than that takes."""
        for first in self._rare_firsts:
            if first in text:
                break
        else:
            return self._without_rare
        if text.count("[") < len(text) // _MANY:
            return self
        lowered = text.lower()
        return self if any(rest in lowered for rest in self._rare) else self._without_rare

    def partial_landmark(self, window: str, position: int) -> int:
        """Where after `position` a landmark may begin whose rest comes with the next chunk."""
        tail = max(position, len(window) - self.longest)
        partial = self._partial.search(window, tail) if tail < len(window) else None
        return partial.start() if partial else len(window)


def _compiled(pattern: str) -> re.Pattern[str]:
    # of ASCII only: `lower` does not fold all that matches otherwise, such as the long s
    return re.compile(pattern, re.IGNORECASE | re.ASCII)


markers_of = cache(Markers)
"""The markers with a notation of one's own, or None."""
