"""Tags that stand alone on a line take the whole line with them; no other line loses its end.

jinja2's own `trim_blocks` eats the end of every line that a tag ends, so that a line like
`- {{ a }}{% if b %} {{ b }}{% endif %}` runs into the next.
"""

from __future__ import annotations

from collections.abc import Iterator

from jinja2.lexer import Lexer

_ENDS = {
    "block_begin": "block_end",
    "comment_begin": "comment_end",
    "raw_begin": "raw_begin",
    "raw_end": "raw_end",
}

Token = tuple[int, str, str]


class WholeLineLexer(Lexer):
    """jinja2's lexer, with lines that hold one tag and nothing else left out."""

    def tokeniter(
        self, source: str, name: str | None, filename: str | None = None, state: str | None = None
    ) -> Iterator[Token]:
        tokens = list(super().tokeniter(source, name, filename, state))
        texts = [text for _, _, text in tokens]
        begin = 0
        while begin < len(tokens):
            end = _end(tokens, begin)
            if end is not None and _starts_line(tokens, begin) and _ends_line(tokens, end):
                if begin > 0:
                    texts[begin - 1] = texts[begin - 1].rstrip(" \t")
                if end + 1 < len(tokens):
                    texts[end + 1] = texts[end + 1].partition("\n")[2]
            begin = begin + 1 if end is None else end + 1
        for (line, kind, _), text in zip(tokens, texts, strict=True):
            if text or kind != "data":
                yield line, kind, text


def _end(tokens: list[Token], begin: int) -> int | None:
    """Where the tag ends that begins here, if one does."""
    closing = _ENDS.get(tokens[begin][1])
    if closing is None:
        return None
    return next((at for at in range(begin, len(tokens)) if tokens[at][1] == closing), None)


def _starts_line(tokens: list[Token], begin: int) -> bool:
    if begin == 0:
        return True
    _, kind, text = tokens[begin - 1]
    _, line_end, indent = text.rpartition("\n")
    return kind == "data" and not indent.strip(" \t") and bool(line_end or begin == 1)


def _ends_line(tokens: list[Token], end: int) -> bool:
    if end + 1 == len(tokens):
        return True
    _, kind, text = tokens[end + 1]
    rest, line_end, _ = text.partition("\n")
    return kind == "data" and not rest.strip(" \t") and bool(line_end or end + 2 == len(tokens))
