"""Reads PDF: the text of each page, with its number."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from io import BytesIO
from time import thread_time
from typing import Any, Final

from trustgraph_prompt.documents.document import Document
from trustgraph_prompt.documents.writer import TextWriter, not_read
from trustgraph_prompt.errors import ConfigError

MAX_SECONDS: Final = 900.0
"""Of CPU for one file, some 15,000 pages: pages can share drawings, each of which is drawn again."""

_COMMENTS: Final = ("/Text", "/Highlight", "/Underline", "/StrikeOut", "/Squiggly", "/Caret")
_MAX_PARENTS: Final = 20
"""Of a field of a form: a hostile file has circles."""


def read_pdf(data: bytes, file: str, max_seconds: float = MAX_SECONDS) -> Document:
    """Read the pages that have text; `notes` tell of the others.

    Raises `ConfigError` if there are none, or if it takes longer than `max_seconds` of CPU.
    """
    import pypdf

    logging.getLogger("pypdf").addHandler(logging.NullHandler())  # else what it repairs goes to stderr
    end = thread_time() + max_seconds

    def check(*_: object) -> None:
        if thread_time() > end:
            raise ConfigError(f"takes more than {max_seconds:g} seconds to read; split it")

    reader = pypdf.PdfReader(BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        raise ConfigError("is encrypted; save it without a password")
    writer = TextWriter()
    blank, damaged, incomplete, comments = [], [], [], 0
    written: set[str] = set()
    count = len(reader.pages)
    for number in range(1, count + 1):
        check()
        writer.page(number)
        try:
            page = reader.pages[number - 1]
            text = page.extract_text(visitor_operand_before=check)
        except Exception:  # whatever a damaged page leads to
            check()
            damaged.append(number)
            continue
        try:
            for annotation in page.annotations or ():
                check()
                text += "".join(f"\n{line}" for line in _form_value(annotation.get_object(), written))
                comments += _is_comment(annotation.get_object())
        except Exception:
            check()
            incomplete.append(number)
        if text.strip():
            writer.add(text, kind="page")  # a sentence may go on
        else:
            blank.append(number)
    if damaged and not writer:
        raise ConfigError(f"is damaged: no text can be read on any of its {count} pages")
    if not writer:
        raise ConfigError(
            f"has no text on any of its {count} pages, only images: scanned pages need OCR first"
        )
    for numbers, what in (
        (blank, "have no text that can be read (scanned pages need OCR first)"),
        (damaged, "are damaged"),
        (incomplete, "have damaged forms or comments"),
    ):
        if numbers:
            writer.notes.append(f"{len(numbers)} of {count} pages {what}: {_listed(numbers)}")
    if comments:
        writer.notes.append(not_read(comments, "comment"))
    return writer.document(file, "pdf")


def _form_value(annotation: Any, written: set[str]) -> Iterator[str]:
    """The text of a note on the page, or a field of a form with its value, which several boxes may show."""
    if annotation.get("/Subtype") == "/FreeText":
        yield str(annotation.get("/Contents", ""))
    elif annotation.get("/Subtype") == "/Widget":
        fields = list(_with_parents(annotation))
        names = [str(field["/T"]) for field in fields if "/T" in field]
        value = next((field["/V"] for field in fields if "/V" in field), "")
        texts = value if isinstance(value, list) else [value]
        shown = ", ".join(str(text).removeprefix("/") for text in texts if isinstance(text, str))
        line = f"{'.'.join(reversed(names))}: {' '.join(shown.split())}"
        if shown.strip() not in ("", "Off") and line not in written:
            written.add(line)
            yield line


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
