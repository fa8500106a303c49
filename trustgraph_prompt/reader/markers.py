"""Patterns for what the scanner looks for: code fences, marks of thinking, and where values may begin."""

from __future__ import annotations

import re
from functools import cache

from trustgraph_prompt.json_text.thinking import TAGS, TOKENS, Notation, any_of

FENCE = re.compile(r"`{3,}|~{3,}")


class Markers:
    """The patterns for the notations of thinking that are known, and `own`, one more.

    With `bracketed` False, marks that begin with a bracket are not found.
    """

    def __init__(self, own: Notation | None, *, bracketed: bool = True) -> None:
        tokens = (*TOKENS, *((own,) if own else ()))
        tag_closes = any_of(closes for _, closes in TAGS)
        known = [mark for notation in (*TAGS, *tokens) for mark in notation]
        marks = [mark for mark in known if bracketed or mark[0] != "["]
        closing = {closes for _, closes in (*TAGS, *tokens)}.intersection(marks)
        self._own = own
        self._bracketed = [mark[1:].lower() for mark in known if mark[0] == "["]
        self.mark = any_of(marks)
        self.begun = any_of(known, begun=True)
        after_bracket = any_of(mark[1:] for mark in marks if mark[0] == "[")
        self.bracket = r"[{[]" + (f"(?!{after_bracket})" if after_bracket else "")
        self.first = re.escape("".join({mark[0] for mark in known} - {"["}))
        self.tokens = frozenset(opens.lower() for opens, _ in tokens)
        self.closes = {opens.lower(): _compiled(re.escape(closes)) for opens, closes in tokens}
        self.closes |= {opens: _compiled(tag_closes) for opens, _ in TAGS}
        self.longest = max(map(len, known))
        # Each alternative begins with a fixed character, so that the search can skip to it.
        landmark = rf"```+|~~~+|{self.mark}"
        self.objects = _compiled(rf"\{{|{landmark}")
        first = "".join(f"{re.escape(mark)}|" for mark in own or () if mark in marks)
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

    def for_text(self, text: str) -> Markers:
        """The patterns that find all marks in a text; to look for one at each bracket takes time."""
        lowered = text.lower()
        has_bracketed = any(rest in lowered for rest in self._bracketed)
        return self if has_bracketed else _without_bracketed(self._own)

    def partial_landmark(self, window: str, position: int) -> int:
        """Where after `position` a landmark may begin whose rest comes with the next chunk."""
        tail = max(position, len(window) - self.longest)
        partial = self._partial.search(window, tail) if tail < len(window) else None
        return partial.start() if partial else len(window)


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


@cache
def _without_bracketed(own: Notation | None) -> Markers:
    return Markers(own, bracketed=False)


markers_of = cache(Markers)
"""The markers with a notation of one's own, or None."""
