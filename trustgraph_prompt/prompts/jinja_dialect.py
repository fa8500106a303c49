"""This project's dialect: Jinja, with values written as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from jinja2 import ChainableUndefined, Undefined, nodes
from jinja2.lexer import Lexer

from trustgraph_prompt.prompts import filters
from trustgraph_prompt.prompts.sandbox import Sandbox

_OPENS = re.compile(r"\{(?=[{%#]|\Z)")


_TAG_ENDS = {
    "block_begin": "block_end",
    "comment_begin": "comment_end",
    "raw_begin": "raw_begin",
    "raw_end": "raw_end",
}

_Token = tuple[int, str, str]


def literally(text: str) -> str:
    """A template that renders as `text`, also where more of a template follows it."""
    return _OPENS.sub('{{ "{" }}', text)


class WholeLineLexer(Lexer):
    """jinja2's lexer, without the line of a tag that stands alone on it.

    jinja2's own `trim_blocks` also drops the line end after any other tag that ends a line, which joins
    `- {{ a }}{% if b %} {{ b }}{% endif %}` to the next line.
    """

    def tokeniter(
        self, source: str, name: str | None, filename: str | None = None, state: str | None = None
    ) -> Iterator[_Token]:
        tokens = list(super().tokeniter(source, name, filename, state))
        texts = [text for _, _, text in tokens]
        begin = 0
        while begin < len(tokens):
            end = _tag_end(tokens, begin)
            if end is not None and _starts_line(tokens, begin) and _ends_line(tokens, end):
                if begin > 0:
                    texts[begin - 1] = texts[begin - 1].rstrip(" \t")
                if end + 1 < len(tokens):
                    texts[end + 1] = texts[end + 1].partition("\n")[2]
            begin = begin + 1 if end is None else end + 1
        for (line, kind, _), text in zip(tokens, texts, strict=True):
            if text or kind != "data":
                yield line, kind, text


class Jinja(Sandbox):
    """Renders strings unchanged, null and undefined as nothing, everything else as JSON."""

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


def _tag_end(tokens: list[_Token], begin: int) -> int | None:
    """The index of the token that ends the tag which begins here; None where none begins or ends."""
    closing = _TAG_ENDS.get(tokens[begin][1])
    if closing is None:
        return None
    return next((at for at in range(begin, len(tokens)) if tokens[at][1] == closing), None)


def _starts_line(tokens: list[_Token], begin: int) -> bool:
    if begin == 0:
        return True
    _, kind, text = tokens[begin - 1]
    _, line_end, indent = text.rpartition("\n")
    return kind == "data" and not indent.strip(" \t") and bool(line_end or begin == 1)


def _ends_line(tokens: list[_Token], end: int) -> bool:
    if end + 1 == len(tokens):
        return True
    _, kind, text = tokens[end + 1]
    rest, line_end, _ = text.partition("\n")
    return kind == "data" and not rest.strip(" \t") and bool(line_end or end + 2 == len(tokens))
