"""Text files, cut into chunks that fit into a question."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from trustgraph_prompt.errors import ConfigError

CHUNK_SIZE = 2_000
"""Characters of a chunk at most: some 500 tokens, so that a model of any size keeps an eye on all of it."""

MAX_BYTES = 256 * 1024 * 1024
"""A larger file is more likely a mistake than a document."""

_PARAGRAPH_BREAK = re.compile(r"\n[ \t]*\n\s*")
_SENTENCE_END = re.compile(r"[.!?…][\"'”’)\]]*\s+|\n")
_SPACE = re.compile(r"\s+")


def read(path: Path) -> str:
    """The text of a UTF-8 file. Raises `ConfigError` where it cannot be read, is empty, or is no text."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ConfigError(f"is larger than {MAX_BYTES // 1024 // 1024} MiB; split it", where=str(path))
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path)) from error
    if b"\0" in data:
        raise ConfigError("is a binary file", where=str(path), found=data[:16], expected="text in UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"is not UTF-8 at byte {error.start}",
            where=str(path),
            found=data[error.start : error.start + 8],
            expected="text in UTF-8",
        ) from error
    if not text.strip():
        raise ConfigError("is empty", where=str(path))
    return text


def chunks(text: str, size: int = CHUNK_SIZE) -> Iterator[str]:
    """Chunks of at most `size` characters, without overlap: whole paragraphs together, as many as fit.

    What is too long for a chunk is cut at the end of a sentence, else between words, else anywhere.
    """
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
    """Where to cut: after the last sentence, else the last word, that ends in the second half."""
    middle = (start + limit) // 2
    for pattern in (_SENTENCE_END, _SPACE):
        ends = [match.end() for match in pattern.finditer(text, middle, limit)]
        if ends:
            return ends[-1]
    return limit
