"""Reads text files and splits them into chunks that fit into a prompt."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from trustgraph_prompt.errors import ConfigError

CHUNK_SIZE = 2_000
"""Maximum characters of a chunk, some 500 tokens: small models lose track of longer passages."""

MAX_BYTES = 256 * 1024 * 1024
"""A larger file is more likely a mistake than a document."""

_PARAGRAPH_BREAK = re.compile(r"\n[ \t]*\n\s*")
_SENTENCE_END = re.compile(r"[.!?…][\"'”’)\]]*\s+|\n")
_SPACE = re.compile(r"\s+")


def read(path: Path) -> str:
    """Read a UTF-8 file. Raises `ConfigError` if it is unreadable, empty, too large or not text."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ConfigError(f"is larger than {MAX_BYTES // 1024 // 1024} MiB; split it", where=str(path))
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path)) from error
    if b"\0" in data:
        raise _not_text(data, str(path), 0)
    text = decode(data, str(path))
    if not text.strip():
        raise ConfigError("is empty", where=str(path))
    return text


def decode(data: bytes, where: str) -> str:
    """Decode UTF-8 and drop a byte order mark. Raises `ConfigError`, which names PDF and binary data."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _not_text(data, where, error.start) from error


def binary_kind(data: bytes) -> str | None:
    """Return what data is that is not text, as far as its bytes show it: `a PDF`, `a binary file` or None."""
    if data.startswith(b"%PDF-"):
        return "a PDF"
    return "a binary file" if b"\0" in data else None


def _not_text(data: bytes, where: str, start: int) -> ConfigError:
    """The error for data that is not UTF-8 text, which stops being so at byte `start`."""
    if kind := binary_kind(data):
        convert = "; convert it to text first" if kind == "a PDF" else ""
        message, found = f"is {kind}{convert}", data[:16]
    else:
        message, found = f"is not UTF-8 at byte {start}", data[start : start + 8]
    return ConfigError(message, where=where, found=found, expected="text in UTF-8")


def chunks(text: str, size: int = CHUNK_SIZE) -> Iterator[str]:
    """Split a text into chunks of at most `size` characters, without overlap.

    A chunk holds as many whole paragraphs as fit. A longer paragraph is split after a sentence, or else
    between words, or else anywhere.
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
    """Where to split: after the last sentence, or else the last word, that ends in the second half."""
    middle = (start + limit) // 2
    for pattern in (_SENTENCE_END, _SPACE):
        ends = [match.end() for match in pattern.finditer(text, middle, limit)]
        if ends:
            return ends[-1]
    return limit
