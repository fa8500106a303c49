"""Tells the format of a file, and converts it to a document."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import PurePath
from typing import Final, NamedTuple

from trustgraph_prompt.documents import archive
from trustgraph_prompt.documents.document import Document
from trustgraph_prompt.documents.html import read_epub, read_html
from trustgraph_prompt.documents.markdown import markdown_places
from trustgraph_prompt.documents.open_xml import open_xml
from trustgraph_prompt.documents.pdf import read_pdf
from trustgraph_prompt.documents.powerpoint import read_pptx
from trustgraph_prompt.documents.spreadsheets import read_csv, read_xlsx
from trustgraph_prompt.documents.text import decode_any
from trustgraph_prompt.documents.word import read_docx
from trustgraph_prompt.errors import ConfigError, excerpt


class Format(NamedTuple):
    """A format that can be read."""

    label: str
    suffixes: tuple[str, ...]
    read: Callable[[bytes, str], Document]
    member: str = ""
    """The beginning of a name that only archives of this format have."""

    streamed: tuple[str, ...] = ()
    """The beginnings of the names of parts whose tags are never all in memory."""


def _read_text(data: bytes, file: str) -> Document:
    text, notes = decode_any(data, file)
    return Document(file, text, notes=notes)


def _read_markdown(data: bytes, file: str) -> Document:
    text, notes = decode_any(data, file)
    return Document(file, text, "markdown", markdown_places(text), notes=notes)


_SHEETS: Final = ("xl/worksheets/", "xl/sharedStrings.xml")
_POWERPOINT: Final = (".pptx", ".pptm", ".potx", ".potm", ".ppsx", ".ppsm")
FORMATS: Final = {
    "pdf": Format("PDF", (".pdf",), read_pdf),
    "docx": Format("Word", (".docx", ".docm", ".dotx", ".dotm"), open_xml(read_docx), "word/"),
    "pptx": Format("PowerPoint", _POWERPOINT, open_xml(read_pptx), "ppt/"),
    "xlsx": Format("Excel", (".xlsx", ".xlsm", ".xltx", ".xltm"), open_xml(read_xlsx), "xl/", _SHEETS),
    "epub": Format("EPUB", (".epub",), read_epub, "META-INF/container.xml"),
    "html": Format("HTML", (".html", ".htm", ".xhtml"), read_html),
    "markdown": Format("Markdown", (".md", ".markdown"), _read_markdown),
    "csv": Format("CSV", (".csv", ".tsv", ".tab"), read_csv),
    "text": Format("text", (".txt", ".text", ".rst", ".adoc", ".org", ".tex"), _read_text),
}
SUFFIXES: Final = {suffix: name for name, format in FORMATS.items() for suffix in format.suffixes}

_PRIVATE = re.compile("[\ue000-\uf8ff\U000f0000-\U0010fffd]+")
_HTML = re.compile(
    rb"(?:\xef\xbb\xbf)?\s{0,99}(?:<\?xml[^>]{0,200}>\s{0,99})?<(?:!doctype\s+html|html)\b", re.IGNORECASE
)
_ARCHIVE: Final = b"PK\3\4"
_NO_MEMORY: Final = 2
"""The code of libxml2's error."""

_PDF: Final = b"%PDF-"
_PDF_WITHIN: Final = 1024
"""First bytes of a file in which a PDF begins."""

_REFUSED: Final = {
    b"\xd0\xcf\x11\xe0": "is a Word, Excel or PowerPoint file that has a password or is older than 2007; "
    "save it as .docx, .xlsx or .pptx without a password",
    b"{\\rtf": "is RTF; save it as .docx",
}


def convert(data: bytes, file: str) -> Document:
    """Convert the content of a file, whose format shows in its first bytes, or else in its name.

    Raises `ConfigError`, which names the file, if it is empty, damaged, encrypted or too large, if its format
    is not read, or if the extra `documents` is missing. `Converter` also limits time and memory.
    """
    suffix = PurePath(file).suffix.lower()
    label = FORMATS[SUFFIXES.get(suffix, "text")].label
    try:
        if not data.strip():
            raise ConfigError("is empty")
        format = FORMATS[_format(data, suffix)]
        label = format.label
        with warnings.catch_warnings(action="ignore"):  # of libraries, about what they ignore
            document = format.read(data, file)
    except ConfigError as error:
        raise error.at(file) from None
    except MemoryError:
        raise  # see `Converter`
    except ImportError as error:
        message = f"{label} files need {error.name}: pip install 'trustgraph-prompt[documents]'"
        raise ConfigError(message, where=file) from None
    except Exception as error:  # a damaged file leads to any error in a library
        if getattr(error, "code", None) == _NO_MEMORY:
            raise MemoryError from error
        reason = excerpt(" ".join(str(error).split())) or type(error).__name__
        raise ConfigError(f"cannot be read as {label}, it is damaged: {reason}", where=file) from None
    if not document.text.strip():
        raise ConfigError("; ".join(("has no text that can be read", *document.notes)), where=file)
    return replace(document, notes=(*document.notes, *_private_characters(document.text)))


def is_plain(data: bytes, file: str) -> bool:
    """Whether the content of a file is its text, so that no library parses it."""
    starts = (_ARCHIVE, *_REFUSED)
    return (
        SUFFIXES.get(PurePath(file).suffix.lower(), "text") in ("text", "markdown")
        and not data.startswith(starts)
        and _PDF not in data[:_PDF_WITHIN]
        and not _HTML.match(data)
    )


def _private_characters(text: str) -> Iterator[str]:
    """A note of the characters that only their font gives a meaning."""
    counts = Counter("".join(_PRIVATE.findall(text)))
    if counts:
        numbers = ", ".join(f"U+{ord(sign):04X}" for sign, _ in counts.most_common(10))
        more = ", …" if len(counts) > 10 else ""
        kind = f"private-use character{'s' * (counts.total() > 1)}"
        yield f"{counts.total():,} {kind} in the text: {numbers}{more}"


def _format(data: bytes, suffix: str) -> str:
    """The name of a file's format. Raises `ConfigError` if it is not read."""
    for start, message in _REFUSED.items():
        if data.startswith(start):
            raise ConfigError(message)
    if _PDF in data[:_PDF_WITHIN]:
        return "pdf"
    if data.startswith(_ARCHIVE):
        members = archive.names(data)
        for name, format in FORMATS.items():
            if format.member and any(member.startswith(format.member) for member in members):
                archive.check(data, format.streamed)
                return name
        raise ConfigError("is a ZIP archive; unpack it, or convert it to a format that is read")
    if _HTML.match(data):
        return "html"
    name = SUFFIXES.get(suffix, "text")
    if name == "pdf" or FORMATS[name].member:  # what such a file begins with is not there
        raise ConfigError(f"is damaged, or not {FORMATS[name].label}", found=data[:16])
    return name
