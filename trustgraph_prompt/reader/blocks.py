"""The code blocks of an answer that say they are JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from trustgraph_prompt.reader.place import Span

_FENCE = r"(?:(?<!`)`{3,}+|(?<!~)~{3,}+)"
_JSON = r"[ \t]*json[ \t\r]*\n"
_OPENS = re.compile(f"{_FENCE}{_JSON}", re.IGNORECASE)
_CLOSES = re.compile(f"{_FENCE}(?P<opens>{_JSON})?", re.IGNORECASE)


class Block(NamedTuple):
    """What stands between two fences, and where it begins."""

    content: str
    start: int


def json_blocks(text: str, fences: Iterable[Span]) -> list[Block]:
    """The blocks that are closed, among all stretches of text with `fences`, and are no mere words in a line.

    A fence that says `json` closes nothing.
    """
    blocks: list[Block] = []
    begun: int | None = None
    for stretch in fences:
        position = stretch.start
        while fence := (_OPENS if begun is None else _CLOSES).search(text, position, stretch.end):
            position = fence.end()
            if begun is None or fence["opens"]:
                begun = position
            else:
                blocks.append(Block(text[begun : fence.start()], begun))
                begun = None
    return blocks
