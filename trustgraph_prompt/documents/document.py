"""A document as text, with the places where its pages and headings begin, and its chunks."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

MAX_BYTES: Final = 256 * 1024 * 1024
"""A larger file is more likely a mistake than a document."""

Span = tuple[int, int]
"""Start and end of a passage in code points of the text, the end exclusive."""


class Place(NamedTuple):
    """The page, from 1, and the heading of the text from `start` on; None where the format has none.

    A heading stands below the headings above it: `Methods > Sampling`.
    """

    start: int
    page: int | None = None
    heading: str | None = None


@dataclass(frozen=True)
class Document:
    """The text of a file. All offsets are code points of this text.

    `file` is the file's name as the user gave it, `format` is `text`, `markdown`, `html`, `pdf`, `docx`,
    `pptx`, `xlsx`, `csv` or `epub`. `places` are in the order of the text. `records` are the passages that
    are a chunk each, such as the rows of a table; without any, the text is split by size. `notes` tell
    what of the file is missing in the text or had to be guessed.
    """

    file: str
    text: str = field(repr=False)
    format: str = "text"
    places: tuple[Place, ...] = field(default=(), repr=False)
    records: tuple[Span, ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = ()

    @cached_property
    def sha256(self) -> str:
        """The SHA-256 of the text in UTF-8, in hexadecimal."""
        return hashlib.sha256(self.text.encode(errors="replace")).hexdigest()

    def place(self, offset: int) -> Place:
        """Return the page and the heading of an offset."""
        index = bisect_right(self.places, offset, key=lambda place: place.start)
        return self.places[index - 1] if index else Place(0)


class DocumentChunk(NamedTuple):
    """A passage of a document that a prompt is run on.

    `number` counts from 1 in the document, `start` is the offset of `text`. `context` is the text before it
    that is shown with it.
    """

    number: int
    start: int
    text: str
    context: str = ""
