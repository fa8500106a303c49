"""Our own dialect: Jinja, with values written as JSON."""

from __future__ import annotations

import re
from typing import Any

from jinja2 import ChainableUndefined, Undefined, nodes

from trustgraph_prompt.prompts import filters
from trustgraph_prompt.prompts.sandbox import Sandbox
from trustgraph_prompt.prompts.whole_line_tags import WholeLineLexer

_OPENS = re.compile(r"\{(?=[{%#]|\Z)")


def literally(text: str) -> str:
    """A template that says `text`, whatever is written behind it."""
    return _OPENS.sub('{{ "{" }}', text)


class Jinja(Sandbox):
    """Strings as they are, null and undefined as nothing, everything else as JSON.

    A tag alone on its line leaves no line behind.
    """

    def __init__(self) -> None:
        super().__init__(filters.JINJA, undefined=ChainableUndefined)
        self._lexer = WholeLineLexer(self)

    @property
    def lexer(self) -> WholeLineLexer:
        return self._lexer

    def tree(self, source: str) -> nodes.Template:
        return self.parse(source)

    def text(self, value: Any) -> str:
        if isinstance(value, str):
            return value
        return "" if value is None or isinstance(value, Undefined) else filters.json_text(value)

    def loop(self, index: int, length: int, parent: Any) -> dict[str, Any]:
        return {
            "index": index + 1,
            "index0": index,
            "revindex": length - index,
            "revindex0": length - index - 1,
            "first": index == 0,
            "last": index == length - 1,
            "length": length,
        }
