"""The code blocks of an answer that say they are JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from trustgraph_prompt.reader.place import Span

_SAYS_JSON = re.compile(r"[ \t]*json[ \t\r]*\n", re.IGNORECASE)


class Block(NamedTuple):
    """What stands between two fences, and where it begins."""

    content: str
    start: int


def json_blocks(text: str, fences: Iterable[Span]) -> list[Block]:
    """The blocks that are closed, among all `fences` of the text, and that are no mere words in a line.

    A fence that says `json` closes nothing.
    """
    blocks: list[Block] = []
    begun: int | None = None
    for fence in fences:
        if says_json := _SAYS_JSON.match(text, fence.end):
            begun = says_json.end()
        elif begun is not None:
            blocks.append(Block(text[begun : fence.start], begun))
            begun = None
    return blocks
