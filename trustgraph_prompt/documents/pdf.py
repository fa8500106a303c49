"""Reads PDF: the text of each page, with its number."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from io import BytesIO
from time import thread_time
from typing import Final

from trustgraph_prompt.documents.document import Document
from trustgraph_prompt.documents.writer import TextWriter
from trustgraph_prompt.errors import ConfigError

MAX_SECONDS: Final = 900.0
"""Of CPU for one file, some 15,000 pages: pages can share drawings, each of which is drawn again."""


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
    blank, damaged = [], []
    count = len(reader.pages)
    for number in range(1, count + 1):
        check()
        writer.page(number)
        try:
            text = reader.pages[number - 1].extract_text(visitor_operand_before=check)
        except Exception:  # whatever a damaged page leads to
            check()
            damaged.append(number)
            continue
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
    ):
        if numbers:
            writer.notes.append(f"{len(numbers)} of {count} pages {what}: {_listed(numbers)}")
    return writer.document(file, "pdf")


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:10])) + (", …" if len(numbers) > 10 else "")
