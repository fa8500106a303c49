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
from trustgraph_prompt.reader.decode import decode, decode_at, has_long_number, is_too_deep
from trustgraph_prompt.reader.scan_results import Values

LONGEST_WRAPPER = 100  # characters of the name of a wrapper, quotes included

_AT_ONCE = 4_000  # characters of objects that are decoded together
_FIRST_AT_ONCE = 16  # as many objects as long as the last one; then twice as many, while none is broken
_SEVERAL = 3  # objects; decoding fewer together is not faster

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
        self._no_several_before = 0
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

    def objects(
        self, window: str, passed: int, start: int, most: int, *, fenced: bool, before_next: re.Pattern[str]
    ) -> tuple[Values, list[str]]:
        """At most `most` objects from `start` on, and the gaps after them, each a match of `before_next`."""
        run, gaps = Values([], [], [], fenced), list[str]()
        if not grammar.OBJECT_BEGINS.match(window, start):
            return run, gaps
        while len(run.values) < most and (whole := self._one(window, passed, start)):
            raw, value = whole
            run.values.append(value)
            run.raws.append(raw)
            run.starts.append(passed + start)
            gap = before_next.match(window, start + len(raw))
            if gap is None:
                break
            gaps.append(gap[0])
            start = self._add_several(run, window, passed, gap.end(), most, gap[0])
            gaps += [gap[0]] * (len(run.values) - len(gaps))
        return run, gaps

    def _add_several(self, run: Values, window: str, passed: int, start: int, most: int, gap: str) -> int:
        """Add objects with `gap` between them, decoded together, and return where the next begins."""
        divider, size = f"}}{gap}{{", _FIRST_AT_ONCE * len(run.raws[-1])
        while passed + start >= self._no_several_before:
            size = min(size, _AT_ONCE)
            last = window.rfind(divider, start, start + size)
            inner = window[start + 1 : last].split(divider) if last > start else []
            raws = [f"{{{members}}}" for members in inner]
            fits = _SEVERAL <= len(raws) <= most - len(run.values)
            values = self._decode_several(raws) if fits else []
            if not values:
                self._no_several_before = passed + min(start + size, len(window))
                break
            size *= 2
            lengths = [len(raw) + len(gap) for raw in raws[: len(values)]]
            run.starts += accumulate(lengths[:-1], initial=passed + start)
            run.values += values
            run.raws += raws[: len(values)]
            start += sum(lengths)
            if len(values) < len(raws):
                break
        return start

    def _decode_several(self, raws: list[str]) -> list[Any]:
        """The objects in texts that begin and end with a brace; if a flat one is broken, those before it.

        Returns none of them if a text is not exactly one object, or if one is a wrapper or nested too deeply.
        """
        if self._decode is not orjson.loads:
            return []
        text = ",".join(raws)
        opened, arrays = text.count("{"), text.count("[")
        is_flat = opened == len(raws)  # so if there are as many objects, each begins where its text does
        try:
            values = orjson.loads(f"[{text}]") if is_flat else [*map(orjson.loads, raws)]
        except orjson.JSONDecodeError as error:
            before = text.count("{", 0, error.pos) - 1
            return self._decode_several(raws[:before]) if is_flat and _SEVERAL <= before < len(raws) else []
        if len(values) != len(raws) or set(map(type, values)) != {dict}:
            return []
        if arrays and any(self.wraps_at(raw, 0) for raw in raws):
            return []
        may_be_deep = opened + arrays - len(raws) >= self._depth
        return [] if may_be_deep and any(map(self._is_too_deep, values, raws)) else values

    def _one(self, window: str, passed: int, start: int) -> Whole | None:
        """The object that begins at `start`; no text is tried twice.

        An object mostly ends with its line, or with a brace on a line with the same indentation; else where
        braces balance.
        """
        raw = ""
        if passed + start >= self._no_line_before:
            end = _likely_end(window, start)
            raw = window[start:end].rstrip(" \t\r,")
            if raw[-1:] == "}" and not ("[" in raw and self.wraps_at(window, start)):
                value = self._object(raw)
                if value is not None:
                    return raw, value
            self._no_line_before = passed + (end or len(window))
        return self._balanced(window, passed, start, tried=raw)

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
        if (is_wrapper := self._wraps.get(keys)) is not None:
            return is_wrapper
        if max(map(len, keys)) > LONGEST_WRAPPER:
            return False
        return self._wraps.setdefault(keys, self._names_wrapper(keys))

    def _object(self, raw: str) -> Any:
        """The object that a text says; None if it is not JSON, or nested too deeply."""
        try:
            value = self._decode(raw)
        except ValueError:
            return None
        return None if self._is_too_deep(value, raw) else value

    def _is_too_deep(self, value: Any, raw: str) -> bool:
        return len(raw) > self._depth and is_too_deep(value, raw, self._depth)


def _likely_end(window: str, start: int) -> int:
    """Where an object may end; 0 if no such place is found.

    At the end of its line or, if its brace ends the line, after the next brace with the same indentation.
    """
    if not window.startswith("\n", start + 1):
        return max(window.find("\n", start), 0)
    line = window[window.rfind("\n", 0, start) + 1 : start]
    indent = line[: len(line) - len(line.lstrip(" \t"))]
    last = f"\n{indent}}}"
    found = window.find(last, start)
    return found + len(last) if found >= 0 else 0
