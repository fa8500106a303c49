"""Puts the text of a document together, and notes where its pages, headings and records begin."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from trustgraph_prompt.documents.document import Document, Place, Span
from trustgraph_prompt.errors import ConfigError

MAX_CHARACTERS: Final = 64 * 1024 * 1024
"""Of a converted text, some 30,000 pages: a small file can stand for an endless text."""

_MAX_TITLE: Final = 200
"""Characters of a heading in the places below it."""

_NOT_TEXT = re.compile(r"[\0\ud800-\udfff]")


def check_length(characters: int) -> None:
    """Raise `ConfigError` if a text of so many characters is too long."""
    if characters > MAX_CHARACTERS:
        raise ConfigError(f"its text is longer than {MAX_CHARACTERS:,} characters; split it")


def not_read(count: int, kind: str) -> str:
    """Return a note that tells how much of a kind of a document's parts is not in its text."""
    plural = "es" if kind.endswith("x") else "s"
    return f"{count:,} {kind}{plural * (count > 1)} not read"


class Headings:
    """The heading of where one is in a document, with those above it."""

    def __init__(self) -> None:
        self._open: list[tuple[int, str]] = []

    def enter(self, level: int, title: str) -> None:
        """Enter a section; a higher level is further down."""
        while self._open and self._open[-1][0] >= level:
            self._open.pop()
        if title := " ".join(title[: 2 * _MAX_TITLE].split())[:_MAX_TITLE]:
            self._open.append((level, title))

    def __str__(self) -> str:
        return " > ".join(title for _, title in self._open)


class TextWriter:
    """Takes a document's parts in their order. Raises `ConfigError` if the text gets too long."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._parts: list[str] = []
        self._length = 0
        self._page: int | None = None
        self._headings = Headings()
        self._places: list[Place] = []
        self._records: list[Span] = []
        self._is_elsewhere = False
        self._last_kind = ""

    def __bool__(self) -> bool:
        return bool(self._parts)

    def page(self, number: int) -> None:
        """Begin a page."""
        self._page = number
        self._is_elsewhere = True

    def section(self, level: int, title: str) -> None:
        """Begin a section whose title is not part of the text."""
        self._headings.enter(level, title)
        self._is_elsewhere = True

    def heading(self, level: int, title: str) -> None:
        """Begin a section with its title, as in Markdown: the splitter begins a chunk with it."""
        if title := " ".join(title.split()):
            self.section(level, title)
            self.add(f"{'#' * min(max(level, 1), 6)} {title}")

    def add(self, text: str, kind: str = "") -> None:
        """Add a text below a blank line, or in the next line if the last one was of the same kind.

        Blank text is ignored.
        """
        text = _NOT_TEXT.sub("\N{REPLACEMENT CHARACTER}", text).strip()
        if not text:
            return
        if self._parts:
            self._append("\n" if kind and kind == self._last_kind else "\n\n")
        self._last_kind = kind
        if self._is_elsewhere:
            self._places.append(Place(self._length, self._page, str(self._headings) or None))
            self._is_elsewhere = False
        self._append(text)

    def row(self, cells: Iterable[str]) -> None:
        """Add a row of a table as a line, unless all cells are blank."""
        texts = [" ".join(cell.split()) for cell in cells]
        if any(texts):
            self.add(" | ".join(texts), kind="row")

    def record(self, lines: Iterable[str]) -> None:
        """Add lines that are a chunk of their own; they are counted as they come, as each may be long."""
        counted, length = [], self._length
        for line in lines:
            length += len(line)
            check_length(length)
            counted.append(line)
        self.add("\n".join(counted))
        self._records.append((self._length - len(self._parts[-1]), self._length))

    def document(self, file: str, format: str) -> Document:
        """Return the document."""
        text, places, records = "".join(self._parts), tuple(self._places), tuple(self._records)
        return Document(file, text, format, places, records, tuple(self.notes))

    def _append(self, text: str) -> None:
        self._length += len(text)
        check_length(self._length)
        self._parts.append(text)
