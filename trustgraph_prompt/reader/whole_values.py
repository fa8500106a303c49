"""Reads complete values: guesses where each ends, and lets the decoder confirm it.

All values are read this way, except broken ones and the one that the text so far ends within.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import orjson

from trustgraph_prompt.json_text import grammar
from trustgraph_prompt.reader.decode import decode, decode_at, decode_lines, has_long_number, is_too_deep
from trustgraph_prompt.reader.scan_results import Values

LONGEST_WRAPPER = 100  # characters of the name of a wrapper, quotes included

_AT_ONCE = 2_000  # characters of lines that are decoded together
# At least four lines that look like one object each; decoding fewer together is not faster.
_LINES = re.compile(r"(?:\{.*+(?<=\})\n){4,}+|(?:\{.*+(?<=\},)\n){4,}+")

FIRST_OF = {"{": re.compile(r'["}]'), "[": re.compile(r'[]\[{"\d\-tfn]')}


_KEYS = re.compile(grammar.STRING)

NamesWrapper = Callable[[tuple[str, ...]], bool]
Whole = tuple[str, Any]  # the text of a complete value, and the value


class CompleteValues:
    """Reads complete values that are nested at most `depth` levels and are not wrappers.

    Positions are within a window of the text, which begins after `passed` characters. `names_wrapper(keys)`
    says whether an object whose first member is the first key, with an object that begins with the second,
    and so on, merely wraps the array of objects under the last key.
    """

    def __init__(self, depth: int, names_wrapper: NamesWrapper) -> None:
        self._depth = depth
        self._names_wrapper = names_wrapper
        self._wraps: dict[tuple[str, ...], bool] = {}
        self._decode: Callable[[str], Any] = orjson.loads
        self._no_lines_before = 0
        self._lines_again = 0  # where lines are next tried together
        self._no_line_before = 0
        self._no_guess_before = 0

    def expect(self, window: str) -> None:
        """Choose the decoder for a window."""
        self._decode = decode if has_long_number(window) else orjson.loads

    def alone(self, text: str) -> Whole | None:
        """The flat object that is all of a text but leading space, as it is with most chunks of a stream."""
        raw = text.lstrip(" \t\r\n")
        if raw.count("{") != 1 or raw[0] != "{" or raw[-1] != "}" or "[" in raw or has_long_number(raw):
            return None
        value = self._object(raw)
        return None if value is None else (raw, value)

    def lines(self, window: str, passed: int, start: int, most: int, *, fenced: bool) -> Values | None:
        """Several objects from `start` on, if each is on a line of its own, decoded together.

        No line is tried twice.
        """
        if passed + start < max(self._no_lines_before, self._no_line_before):
            return None
        found = _LINES.match(window, start, start + _AT_ONCE)
        if found is None or self._decode is not orjson.loads:
            self._no_lines_before = passed + min(start + _AT_ONCE, len(window))
            return None
        self._no_lines_before = self._lines_again = passed + found.end()
        between = ",\n" if window[found.end() - 2] == "," else "\n"
        text = window[start : found.end() - len(between)]
        raws = text.split(between)
        if len(raws) > most or ("[" in text and any(self.wraps_at(raw, 0) for raw in raws)):
            return None
        try:
            values = decode_lines(text.replace(between, "\n"), raws)
        except orjson.JSONDecodeError:
            return None
        may_be_deep = text.count("{") + text.count("[") - len(raws) >= self._depth
        if may_be_deep and any(map(self._is_too_deep, values, raws)):
            return None
        lengths = [len(raw) + len(between) for raw in raws]
        return Values(values, raws, list(accumulate(lengths[:-1], initial=passed + start)), fenced)

    def objects(
        self, window: str, passed: int, start: int, most: int, *, fenced: bool, before_next: re.Pattern[str]
    ) -> Values:
        """At most `most` objects from `start` on; `before_next` matches what may be between two.

        An object mostly ends with its line, else where braces balance. No line is tried twice.
        """
        run = Values([], [], [], fenced)
        if not grammar.OBJECT_BEGINS.match(window, start):
            return run
        lines_again = self._lines_again - passed
        until = lines_again if start < lines_again else len(window)
        while most > 0 and start < until and window.startswith("{", start):
            raw, value = "", None
            if passed + start >= self._no_line_before and not window.startswith("\n", start + 1):
                newline = window.find("\n", start)
                raw = window[start:newline].rstrip(" \t\r,") if newline >= 0 else ""
                if raw[-1:] == "}" and not ("[" in raw and self.wraps_at(window, start)):
                    value = self._object(raw)
                if value is None:
                    self._no_line_before = passed + (newline if newline >= 0 else len(window))
            if value is None:
                whole = self._balanced(window, passed, start, tried=raw)
                if whole is None:
                    break
                raw, value = whole
            run.values.append(value)
            run.raws.append(raw)
            run.starts.append(passed + start)
            most -= 1
            gap = before_next.match(window, start + len(raw))
            if gap is None:
                break
            start = gap.end()
        return run

    def _balanced(self, window: str, passed: int, start: int, *, tried: str) -> Whole | None:
        """The object that begins at `start`, if it ends where braces balance; no text is tried twice.

        `tried` is a text that failed. The guess is wrong only for strings with unbalanced braces.
        """
        if passed + start < self._no_guess_before:
            return None
        end = window.find("}", start) + 1
        opened = window.count("{", start, end) - 1
        while opened and end:
            inner, end = end, window.find("}", end) + 1
            opened += window.count("{", inner, end) - 1
        raw = window[start:end]
        if "[" in raw and self.wraps_at(window, start):
            return None
        value = self._object(raw) if end and raw != tried else None
        if value is None:
            self._no_guess_before = passed + (end or len(window))
            return None
        return raw, value

    def value(self, window: str, start: int) -> Whole | None:
        """The object or array that begins at `start`, whose end the decoder finds."""
        first = grammar.skip_space(window, start + 1)
        if not FIRST_OF[window[start]].match(window, first):
            return None
        if (found := decode_at(window, start)) is None:
            return None
        value, end = found
        raw = window[start:end]
        return None if is_too_deep(value, raw, self._depth) else (raw, value)

    def wraps_at(self, window: str, start: int) -> tuple[int, int] | None:
        """Where the elements begin, and how many objects are around them, if a wrapper begins at `start`."""
        wrapper = grammar.WRAPPER.match(window, start)
        if wrapper is None:
            return None
        keys: tuple[str, ...] = (wrapper[1], *_KEYS.findall(wrapper[2]))
        is_cut = len(keys) > 1 and "}" in keys[0]  # its inner keys may come with the next chunk
        return (wrapper.end() - 1, len(keys)) if not is_cut and self.wraps(*keys) else None

    def wraps(self, *keys: str) -> bool:
        """Whether an object with these keys, as in `names_wrapper`, is a wrapper."""
        if max(map(len, keys)) > LONGEST_WRAPPER:
            return False
        if keys not in self._wraps:
            self._wraps[keys] = self._names_wrapper(keys)
        return self._wraps[keys]

    def _object(self, raw: str) -> Any:
        """The object that a text says; None if it is not JSON, or nested too deeply."""
        try:
            value = self._decode(raw)
        except ValueError:
            return None
        return None if self._is_too_deep(value, raw) else value

    def _is_too_deep(self, value: Any, raw: str) -> bool:
        return len(raw) > self._depth and is_too_deep(value, raw, self._depth)
