"""Reads PDF: the text of each page, with its number."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import Any, Final

from trustgraph_prompt.documents.document import Document
from trustgraph_prompt.documents.writer import TextWriter, not_read
from trustgraph_prompt.errors import ConfigError

_COMMENTS: Final = ("/Text", "/Highlight", "/Underline", "/StrikeOut", "/Squiggly", "/Caret")
_BLANK: Final = "have no text that can be read (scanned pages need OCR first)"
_DAMAGED: Final = "are damaged"
_INCOMPLETE: Final = "have damaged forms or comments"
_HIDDEN: Final = 0b100010  # flags of an annotation: hidden, or not shown on a screen
_MAX_PARENTS: Final = 20
"""Of a field of a form: a hostile file has circles."""


def read_pdf(data: bytes, file: str) -> Document:
    """Read the pages that have text; `notes` tell of the others. Raises `ConfigError` if there are none."""
    import pypdf

    logging.getLogger("pypdf").addHandler(logging.NullHandler())  # else what it repairs goes to stderr
    reader = pypdf.PdfReader(BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        raise ConfigError("is encrypted; save it without a password")
    writer = TextWriter()
    pages = _Pages(reader.pages)
    for number in range(1, len(reader.pages) + 1):
        writer.page(number)
        writer.add(pages.text(number), kind="page")  # a sentence may go on
    if not writer:
        raise pages.error
    writer.notes += pages.notes()
    return writer.document(file, "pdf")


class _Pages:
    """The texts of the pages, and what they lack."""

    def __init__(self, pages: Sequence[Any]) -> None:
        self._pages = pages
        self._numbers: dict[str, list[int]] = {what: [] for what in (_BLANK, _DAMAGED, _INCOMPLETE)}
        self._written: set[str] = set()
        self._comments = 0

    def text(self, number: int) -> str:
        """The text of a page with the values of its forms; blank if there is none."""
        try:
            page = self._pages[number - 1]
            text = str(page.extract_text())
        except Exception:  # whatever a damaged page leads to
            self._numbers[_DAMAGED].append(number)
            return ""
        try:
            for annotation in page.annotations or ():
                text += "".join(f"\n{line}" for line in _form_value(annotation.get_object(), self._written))
                self._comments += _is_comment(annotation.get_object())
        except Exception:
            self._numbers[_INCOMPLETE].append(number)
        if not text.strip():
            self._numbers[_BLANK].append(number)
        return text

    @property
    def error(self) -> ConfigError:
        """What is wrong with a file without any text."""
        count = len(self._pages)
        if self._numbers[_DAMAGED]:
            return ConfigError(f"is damaged: no text can be read on any of its {count} pages")
        return ConfigError(
            f"has no text on any of its {count} pages, only images: scanned pages need OCR first"
        )

    def notes(self) -> Iterator[str]:
        for what, numbers in self._numbers.items():
            if numbers:
                yield f"{len(numbers)} of {len(self._pages)} pages {what}: {_listed(numbers)}"
        if self._comments:
            yield not_read(self._comments, "comment")


def _form_value(annotation: Any, written: set[str]) -> Iterator[str]:
    """The text of a note on the page, or a field of a form with its value, which several boxes may show."""
    if annotation.get("/F", 0) & _HIDDEN:
        return
    if annotation.get("/Subtype") == "/FreeText":
        yield str(annotation.get("/Contents", ""))
    elif annotation.get("/Subtype") == "/Widget":
        fields = list(_with_parents(annotation))
        name = ".".join(str(field["/T"]) for field in reversed(fields) if "/T" in field)
        value = " ".join(", ".join(_shown(fields)).split())
        line = f"{name}: {value}" if name else value
        if value and line not in written:
            written.add(line)
            yield line


def _shown(fields: Sequence[Any]) -> Iterator[str]:
    """The values of a field as the form shows them: the file may have other words for its options."""
    from pypdf.generic import NameObject

    value = next((each["/V"] for each in fields if "/V" in each), "")
    options: Any = next((each["/Opt"] for each in fields if "/Opt" in each), [])
    shown = dict(option for option in options if isinstance(option, list) and len(option) == 2)
    for text in value if isinstance(value, list) else [value]:
        if isinstance(text, NameObject):  # of a box that is ticked, or not
            yield from [text[1:]] if text != "/Off" else []
        elif isinstance(text, str):
            yield str(shown.get(text, text))


def _with_parents(field: Any) -> Iterator[Any]:
    """A field and those that it is a part of, whose value and name it has, too."""
    for _ in range(_MAX_PARENTS):
        yield field
        if "/Parent" not in field:
            return
        field = field["/Parent"]


def _is_comment(annotation: Any) -> bool:
    return annotation.get("/Subtype") in _COMMENTS and bool(annotation.get("/Contents"))


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:10])) + (", …" if len(numbers) > 10 else "")
