"""Reads HTML and EPUB: headings, paragraphs, lists, and tables with a row in each line."""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Iterator
from io import BytesIO
from typing import Any, Final
from urllib.parse import unquote
from zipfile import ZipFile

from trustgraph_prompt.documents.document import Document
from trustgraph_prompt.documents.elements import outermost
from trustgraph_prompt.documents.plain_html_markup import (
    BLOCKS,
    LEVELS,
    SKIPPED,
    is_nested_deeply,
    parsed,
    with_plain_markup,
    words,
)
from trustgraph_prompt.documents.text import decode_page
from trustgraph_prompt.documents.writer import TextWriter, not_read
from trustgraph_prompt.errors import ConfigError

MAX_ARTICLE: Final = 2 * 1024 * 1024
"""Characters of a page in which the article is searched for; of a larger one all text is taken."""

_MAX_THOROUGH: Final = 256 * 1024
"""Characters of a page in which it is searched for in ways whose time grows with the square of the page."""

_MENUS: Final = ("nav", "footer", "aside", "form", "button")
_EXCERPT: Final = 60
"""Characters that tell whether a text is a part of another one."""

_ENCRYPTION: Final = "META-INF/encryption.xml"
_LINE_BREAK: Final = "\N{LINE SEPARATOR}"
"""Stands for `<br>`, as other line breaks of HTML are spaces."""


def read_html(data: bytes, file: str) -> Document:
    """Read the article of a page, or all of the page if no article with its headings is found."""
    page = with_plain_markup(decode_page(data))
    is_searched = len(page) <= MAX_ARTICLE and not is_nested_deeply(page)
    article = _article(page) if is_searched else None
    writer = TextWriter()
    if _has_headings(article) or not _has_headings(_body(page)):
        asides = _asides(page, "" if article is None else "".join(article.itertext()))
        _write_blocks(writer, article)
        if writer and asides:
            writer.notes.append(not_read(asides, "aside"))
    for menus in (_MENUS, ()):
        if not writer:
            _write_blocks(writer, _body(page), *menus)
    return writer.document(file, "html")


def read_epub(data: bytes, file: str) -> Document:
    """Read the chapters of a book in their order, each as a whole."""
    archive = ZipFile(BytesIO(data))
    protected = _protected(archive)
    names, missing = set(archive.namelist()), 0
    writer = TextWriter()
    for name in _chapters(archive):
        if name in protected:
            raise ConfigError("is protected against copying (DRM)")
        if name in names:
            write_page(writer, archive.read(name))
        else:
            missing += 1
    if missing:
        chapters = "1 chapter is" if missing == 1 else f"{missing} chapters are"
        writer.notes.append(f"{chapters} missing in the file")
    return writer.document(file, "epub")


def write_page(writer: TextWriter, data: bytes) -> None:
    """Write all text of a page."""
    _write_blocks(writer, _body(with_plain_markup(decode_page(data))))


def _article(page: str) -> Any:
    import trafilatura
    from lxml import etree  # type: ignore[import-untyped]

    logging.getLogger("trafilatura").addHandler(logging.NullHandler())  # else it complains on stderr
    try:
        found = trafilatura.extract(
            page,
            output_format="html",
            fast=len(page) > _MAX_THOROUGH,
            include_comments=False,
            include_formatting=False,
        )
        body = etree.fromstring(found).find("body")
    except Exception:  # whatever a strange page leads to
        return None
    for code in list(body.iter("pre")):
        if code.getparent() is not body:
            code.tag = "code"  # trafilatura makes `pre` of both
    return body


def _body(page: str) -> Any:
    return parsed(page).find("body") if page.strip() else None


def _asides(page: str, article: str) -> int:
    """How many asides there are within a page's article or main part that an article was found without."""
    body = _body(page) if "<aside" in page.lower() else None
    asides = (
        []
        if body is None
        else body.xpath(".//aside[ancestor::article or ancestor::main][not(ancestor::aside)]")
    )
    texts = filter(None, (" ".join(words(aside).split()) for aside in asides))
    found = " ".join(article.split())
    return sum(text[:_EXCERPT] not in found for text in texts)


def _has_headings(body: Any) -> bool:
    return body is not None and next(body.iter(*LEVELS), None) is not None


def _write_blocks(writer: TextWriter, body: Any, *skipped: str) -> None:
    """Write the headings, the rows of tables, and what is between them."""
    if body is None:
        return
    from lxml import etree

    etree.strip_elements(body, *SKIPPED, *skipped, with_tail=False)
    for line_break in body.iter("br"):
        line_break.tail = _LINE_BREAK + (line_break.tail or "")
    pieces: list[str] = []
    bullet = ""
    walker = etree.iterwalk(body, events=("start", "end"))
    for event, element in walker:
        tag = element.tag
        if tag in BLOCKS:
            lines = (" ".join(line.split()) for line in "".join(pieces).strip().split(_LINE_BREAK))
            if text := "\n".join(lines):
                writer.add(bullet + text, kind=bullet)
                bullet = ""
            pieces.clear()
        if tag == "li":
            bullet = "- " if event == "start" else ""
        if event == "end":
            pieces.append(element.tail or "")
        elif tag in LEVELS:
            writer.heading(LEVELS[tag], words(element))
            walker.skip_subtree()
        elif tag == "tr" and next(element.iter("table", *LEVELS), None) is None:  # else it is for layout
            writer.row(words(cell) for cell in outermost(element, "td", "th"))
            walker.skip_subtree()
        elif tag == "pre":
            writer.add("".join(element.itertext()).replace(_LINE_BREAK, "\n"))
            walker.skip_subtree()
        else:
            pieces.append(element.text or "")


def _chapters(archive: ZipFile) -> Iterator[str]:
    """The names of a book's chapters in the order of its spine, each once, without its table of contents."""
    container = _xml(archive.read("META-INF/container.xml"))
    package = container.find(".//{*}rootfile")
    path = "" if package is None else package.get("full-path", "")
    book = _xml(archive.read(path))
    items = {item.get("id"): item for item in book.iterfind("{*}manifest/{*}item")}
    listed = (items.get(each.get("idref")) for each in book.iterfind("{*}spine/{*}itemref"))
    chapters = (
        unquote(item.get("href", ""))
        for item in listed
        if item is not None and "nav" not in item.get("properties", "").split()
    )
    folder = posixpath.dirname(path)
    return iter(dict.fromkeys(posixpath.normpath(posixpath.join(folder, chapter)) for chapter in chapters))


def _protected(archive: ZipFile) -> set[str]:
    """The names of the files that are encrypted: those of fonts often are, and do not matter."""
    if _ENCRYPTION not in archive.namelist():
        return set()
    encryption = _xml(archive.read(_ENCRYPTION))
    return {unquote(each.get("URI", "")) for each in encryption.iterfind(".//{*}CipherReference")}


def _xml(data: bytes) -> Any:
    from lxml import etree

    return etree.fromstring(data, etree.XMLParser(resolve_entities=False))
