"""Reads clean lines, one accepted object a line and nothing else, at the speed of the decoder."""

from __future__ import annotations

import re
from functools import cached_property
from itertools import repeat
from typing import Any

import orjson

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.json_text.latex import may_be_eaten
from trustgraph_prompt.reader.decode import decode_lines, has_long_number, is_too_deep
from trustgraph_prompt.reader.other_shapes import LEVELS

_SPACE = " \t\r\n"

_STRING = r'"(?:[^"\\<`~\x00-\x1f]|\\["\\/bfnrt])*+'
_NAME = rf'{_STRING}"[ \t]*:[ \t]*'
_LINE_ENDS = re.compile(r"[ \t\r]*+(?:\n|\Z)")
# What a truncated answer mostly ends with after clean lines: an object that ends within one of its strings.
_CUT_OBJECT = re.compile(
    rf'[^\S\n]*+\n\s*+\{{[ \t]*(?:{_NAME}{_STRING}"[ \t]*,[ \t]*)*+(?:{_NAME})?{_STRING}'
)


class PlainJsonl:
    """The objects of an answer, as long as that is clean lines; many answers are nothing else.

    The first text is read without a meter, since it is often the whole answer. Where values are searched in
    the terms, which takes steps of its own, no other text is read.
    """

    def __init__(self, contract: Contract) -> None:
        self.objects: list[Any] = []
        self._contract = contract
        self._first = ""
        self._texts = 0

    def take(self, text: str) -> list[Any] | None:
        """The objects of the next text; None if that is not clean, and must be scanned."""
        if self.objects:
            begins_a_line = text.find("\n", 0, text.find("{")) >= 0
            if not begins_a_line or self._contract.searches:
                return None
            contract = self.metered
        else:
            self._first, contract = text, self._contract
        found = _objects_of(text, contract, most=contract.limits.objects - len(self.objects))
        if found is not None:
            self.objects += found
            self._texts += 1
        return found

    @cached_property
    def metered(self) -> Contract:
        """The contract with one budget of steps, of which the first text has spent its part."""
        metered = self._contract.metered()
        _objects_of(self._first, metered, most=metered.limits.objects)
        return metered

    def is_cut(self, rest: str) -> bool | None:
        """Whether the answer, which ends with `rest`, is cut off within an object; None: it must be scanned.

        Which white space may end a line is judged as a scanner does, except after a lone text.
        """
        if not self.objects or (self._texts > 1 and not _LINE_ENDS.match(rest)):
            return None
        if len(self.objects) < self._contract.limits.objects and _CUT_OBJECT.fullmatch(rest):
            return True
        return None if rest.strip() else False


def _objects_of(text: str, contract: Contract, *, most: int) -> list[Any] | None:
    """The objects of a text that is one accepted object a line and nothing else; None if there are others."""
    content = text.strip(_SPACE)
    if not (content.startswith("{") and content.endswith("}")):
        return None
    if has_long_number(content) or may_be_eaten(content):
        return None
    lines = content.split("\n")  # `splitlines` would split within strings
    if len(lines) > most:
        return None
    try:
        values = decode_lines(content, lines)
    except orjson.JSONDecodeError:
        return None
    if set(map(type, values)) != {dict}:
        return None
    if "[" in content:
        first = (next(iter(value.values()), None) for value in values)
        if any(_may_wrap(part) for part in first if isinstance(part, (list, dict))):
            return None
    depth, longest = contract.limits.depth, max(map(len, lines))
    deepest = max(line.count("{") + line.count("[") for line in lines) if longest > depth else 0
    if deepest > depth and any(map(is_too_deep, values, filter(str.strip, lines), repeat(depth))):
        return None
    characters = sum(map(len, map(str.strip, lines)))  # space takes no steps, as where it is scanned
    return contract.take_all(values, characters, longest)


def _may_wrap(first: Any) -> bool:
    """Whether the first member of an object is a list, or an object that begins with one."""
    for _ in range(LEVELS):
        if not isinstance(first, dict):
            break
        first = next(iter(first.values()), None)
    return isinstance(first, list)
