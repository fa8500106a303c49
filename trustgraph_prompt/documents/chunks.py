"""Splits a document into chunks, along headings, paragraphs and sentences."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, NamedTuple

from semantic_text_splitter import MarkdownSplitter, TextSplitter

from trustgraph_prompt.documents.document import Document, DocumentChunk
from trustgraph_prompt.documents.markdown import WITH_HEADINGS
from trustgraph_prompt.errors import ConfigError

TOKENIZER: Final = "gpt-4o"
"""The model whose tokens are counted, offline (`o200k_base`); those of other models are similar."""

_BLOCK = 100_000
"""Characters that are split at a time: the splitter's time grows with the square of a very long word."""

_MOST_PER_TOKEN = 16
"""Characters before a chunk in which a token of context is looked for."""

_COUNTED = 2_000
"""Characters whose tokens are counted at a time, for the same reason."""

_SIZE = re.compile(r"([0-9]{1,9})(t?)")
_PART = re.compile(r"(100|[0-9]{1,2})%")


class Size(NamedTuple):
    """A number of characters (code points), or of tokens."""

    length: int
    in_tokens: bool = False

    def __str__(self) -> str:
        return f"{self.length}t" if self.in_tokens else str(self.length)


CHUNK_SIZE: Final = Size(2_000)
"""Maximum size of a chunk, some 500 tokens: small models lose track of longer passages."""

SMALLEST: Final = {False: 100, True: 25}
"""The least size of a chunk, in characters and in tokens."""

NO_OVERLAP: Final = Size(0)


def parse_size(text: str, where: str) -> Size:
    """Parse the size of a chunk, `2000` or `800t`. Raises `ConfigError`, with the option as `where`."""
    size = _parsed(text, where, "a number of characters (2000) or of tokens (800t)")
    least = size._replace(length=SMALLEST[size.in_tokens])
    if size < least:
        raise ConfigError("is too small", where=where, found=text, expected=f"at least {least}")
    return size


def parse_overlap(text: str, size: Size, where: str) -> Size:
    """Parse an overlap, `200`, `80t` or `10%` of the size. Raises `ConfigError`."""
    if part := _PART.fullmatch(text):
        return size._replace(length=size.length * int(part[1]) // 100)
    return _parsed(text, where, "characters (200), tokens (80t) or up to 100% of the chunk size (10%)")


def _parsed(text: str, where: str, expected: str) -> Size:
    if match := _SIZE.fullmatch(text):
        return Size(int(match[1]), match[2] == "t")
    raise ConfigError("is not a size", where=where, found=text, expected=expected)


def chunks(
    document: Document, size: Size = CHUNK_SIZE, overlap: Size = NO_OVERLAP
) -> Iterator[DocumentChunk]:
    """Split a document into chunks of at most `size`; each is `document.text[start : start + len(text)]`.

    The context of a chunk is what precedes it, at most `overlap`, from a paragraph, a sentence or else a word
    on. Records are a chunk each, if they are not larger.
    """
    context = _Context(document.text, overlap)
    for number, (start, text) in enumerate(_passages(document, size), 1):
        yield DocumentChunk(number, start, text, context.before(start))


def _passages(document: Document, size: Size) -> Iterator[tuple[int, str]]:
    splitter = _splitter(size.length, size, markdown=document.format in WITH_HEADINGS)
    block = max(_BLOCK, size.length * (_MOST_PER_TOKEN if size.in_tokens else 4))
    for start, end in document.records or ((0, len(document.text)),):
        while start < end:
            limit = min(start + block, end)
            found = splitter.chunk_indices(document.text[start:limit])
            passages = [(start + offset, text) for offset, text in found if text.strip()]
            start = limit
            if limit < end and len(passages) > 1:
                start, _ = passages.pop()  # it may go on beyond the block
            yield from passages


def _splitter(
    capacity: int | tuple[int, int], unit: Size, *, markdown: bool = False, trim: bool = True
) -> TextSplitter | MarkdownSplitter:
    kind = MarkdownSplitter if markdown else TextSplitter
    if unit.in_tokens:
        return kind.from_tiktoken_model(TOKENIZER, capacity, trim=trim)
    return kind(capacity, trim=trim)


def count_tokens(text: str) -> int:
    """Count the tokens of a text as chunk sizes do, give or take one in each 2,000 characters."""
    return sum(_tokens_of(text[start : start + _COUNTED]) for start in range(0, len(text), _COUNTED))


def _tokens_of(text: str) -> int:
    # the splitter does not say how many tokens a text has, but whether it fits into so many
    possible = range(1, len(text.encode(errors="replace")) + 1)
    fewest = bisect_left(possible, True, hi=len(possible) - 1, key=lambda tokens: _fits(text, tokens))
    return possible[fewest]


def _fits(text: str, tokens: int) -> bool:
    return len(_splitter(tokens, Size(tokens, in_tokens=True), trim=False).chunks(text)) <= 1


class _Context:
    """Finds what precedes a passage of a text."""

    def __init__(self, text: str, size: Size) -> None:
        self._text = text
        self._size = size
        self._whole = _splitter(max(size.length, 1), size)
        half = max(size.length // 2, 1)
        self._parts = _splitter((1, half), size, trim=False)  # each ends as soon as it can

    def before(self, start: int) -> str:
        """Return what precedes `start`, without white space around it."""
        if not self._size.length:
            return ""
        first = self._first(start)
        preceding = self._text[first:start]
        if first:
            # The first part ends with a paragraph or a sentence in the first half, or else with a word.
            parts = self._parts.chunk_indices(preceding)
            preceding = preceding[parts[1][0] :] if len(parts) > 1 else ""
        return preceding.strip()

    def _first(self, start: int) -> int:
        """The offset from which on the text before `start` is not too long."""
        if not self._size.in_tokens:
            return max(0, start - self._size.length)
        offsets = range(max(0, start - _MOST_PER_TOKEN * self._size.length), start)
        return offsets.start + bisect_left(offsets, True, key=lambda first: self._is_small(first, start))

    def _is_small(self, first: int, start: int) -> bool:
        return len(self._whole.chunks(self._text[first:start])) <= 1
