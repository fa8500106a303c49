"""The first reader and splitter of `extract`: runs that were begun with them are resumed with them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

from trustgraph_prompt.documents.document import MAX_BYTES, Chunk, Document

_PARAGRAPH_BREAK = re.compile(r"\n[ \t]*\n\s*")
_SENTENCE_END = re.compile(r"[.!?…][\"'”’)\]]*\s+|\n")
_SPACE = re.compile(r"\s+")


def read_and_split(path: Path, size: int) -> tuple[Document, list[Chunk]] | None:
    """Read a file and split it into chunks of at most `size` characters; None if it was refused then.

    The text of the document is that of the chunks: line ends and blank lines are changed before it is split.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig") if path.stat().st_size <= MAX_BYTES else ""
    except (OSError, UnicodeDecodeError):
        return None
    if "\0" in text or not text.strip():
        return None
    texts = [*split(text, size)]
    starts = accumulate((len(each) + 2 for each in texts), initial=0)
    chunks = [Chunk(number, *each) for number, each in enumerate(zip(starts, texts, strict=False), 1)]
    return Document(str(path), "\n\n".join(texts)), chunks


def split(text: str, size: int) -> Iterator[str]:
    """Split a text into chunks of at most `size` characters."""
    chunk = ""
    for paragraph in _PARAGRAPH_BREAK.split(text.replace("\r\n", "\n").strip()):
        for part in _parts(paragraph.strip(), size):
            together = f"{chunk}\n\n{part}" if chunk else part
            if len(together) <= size:
                chunk = together
            else:
                yield chunk
                chunk = part
    if chunk:
        yield chunk


def _parts(paragraph: str, size: int) -> Iterator[str]:
    start = 0
    while len(paragraph) - start > size:
        end = _last_break(paragraph, start, start + size)
        yield paragraph[start:end].strip()
        start = end
    yield paragraph[start:].strip()


def _last_break(text: str, start: int, limit: int) -> int:
    middle = (start + limit) // 2
    for pattern in (_SENTENCE_END, _SPACE):
        ends = [match.end() for match in pattern.finditer(text, middle, limit)]
        if ends:
            return ends[-1]
    return limit
