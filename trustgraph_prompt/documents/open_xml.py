"""Rewrites variants of Word, PowerPoint and Excel files into the form that the libraries read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import BytesIO
from typing import Final
from zipfile import ZipFile

from trustgraph_prompt.documents.document import Document
from trustgraph_prompt.documents.writer import not_read

_TYPES: Final = "[Content_Types].xml"
_OTHER_TYPES: Final = (  # templates, shows, and files with macros
    (
        rb"application/vnd\.(?:ms-word\.\w+\.macroEnabled\w*"
        rb"|openxmlformats-officedocument\.wordprocessingml\.template)\.main\+xml",
        b"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml",
    ),
    (
        rb"application/vnd\.(?:ms-powerpoint\.(?:template|slideshow)\.macroEnabled"
        rb"|openxmlformats-officedocument\.presentationml\.(?:template|slideshow))\.main\+xml",
        b"application/vnd.openxmlformats-officedocument.presentationml.presentation.main+xml",
    ),
)
_STRICT: Final = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/")
_LEFT_OUT: Final = (
    ("comment", r"(?:word|ppt|xl)/comments?/?[^/]*\.xml", rb"<(?:\w+:)?(?:comment|cm)[\s/>]"),
    ("text box", r"xl/drawings/[^/]*\.xml", rb"<(?:\w+:)?txBody[\s/>]"),
    ("chart", r"\w+/charts/[^/]*\.xml", rb"<(?:\w+:)?chartSpace[\s/>]"),
    ("SmartArt graphic", r"\w+/diagrams/[^/]*\.xml", rb"<(?:\w+:)?dataModel[\s/>]"),
)


def open_xml(read: Callable[[bytes, str], Document]) -> Callable[[bytes, str], Document]:
    """Return a reader of all variants of a format; its notes count what is left out."""

    def read_variant(data: bytes, file: str) -> Document:
        normalized = _normalized(data)
        document = read(normalized, file)
        return replace(document, notes=(*document.notes, *_left_out(normalized)))

    return read_variant


def _normalized(data: bytes) -> bytes:
    """The same file with the content type of a document, and the namespaces of the transitional form."""
    with ZipFile(BytesIO(data)) as archive:
        types = archive.read(_TYPES)
        for pattern, usual in _OTHER_TYPES:
            types = re.sub(pattern, usual, types)
        is_strict = bool(_STRICT.search(archive.read("_rels/.rels")))
        if types == archive.read(_TYPES) and not is_strict:
            return data
        made = BytesIO()
        with ZipFile(made, "w") as written:
            for name in archive.namelist():
                content = types if name == _TYPES else archive.read(name)
                if is_strict and name.endswith((".xml", ".rels")):
                    content = _STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006/", content)
                written.writestr(name, content)
    return made.getvalue()


def _left_out(data: bytes) -> Iterator[str]:
    """Notes that count the parts of a file that are not read."""
    with ZipFile(BytesIO(data)) as archive:
        for kind, pattern, tag in _LEFT_OUT:
            members = [name for name in archive.namelist() if re.fullmatch(pattern, name)]
            if count := sum(len(re.findall(tag, archive.read(name))) for name in members):
                yield not_read(count, kind)
