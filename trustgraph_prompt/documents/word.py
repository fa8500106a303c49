"""Reads Word files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from io import BytesIO
from itertools import chain, islice
from typing import Any, Final

from trustgraph_prompt.documents.document import Document
from trustgraph_prompt.documents.elements import local_name, outermost
from trustgraph_prompt.documents.formulas import MATH, linear
from trustgraph_prompt.documents.html import write_page
from trustgraph_prompt.documents.raised_text import LEVELS, Run, joined
from trustgraph_prompt.documents.symbol_fonts import character, with_characters
from trustgraph_prompt.documents.table_rows import Cell, expanded, headed
from trustgraph_prompt.documents.writer import TextWriter

_W: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_RELATION: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_NOTE_KINDS: Final = ("footnote", "endnote")
_NO_TEXT: Final = frozenset(("Fallback", "del", "moveFrom", "pPr", "rPr", "rt"))
"""What was deleted, what repeats something for older programs, properties, and readings."""

_SIGNS: Final = {"tab": "\t", "br": "\n", "cr": "\n", "p": "\n", "noBreakHyphen": "-"}
_HEADING = re.compile(r"heading ([1-9])\Z", re.IGNORECASE)
_MAX_STYLES: Final = 20
"""Styles that one builds on, one upon the other: a hostile file has circles."""


def read_docx(data: bytes, file: str) -> Document:
    """Read headings, paragraphs, lists and tables, with each footnote below its paragraph."""
    import docx

    word = docx.Document(BytesIO(data))
    styles = {style.get(_W + "styleId"): style for style in word.styles.element.iter(_W + "style")}
    text_of = _TextOf(styles)
    notes = dict(_notes(word.part.rels.values(), text_of))
    parts = dict(word.part.related_parts)
    embedded: set[Any] = set()
    writer = TextWriter()
    for block, cells in _blocks(word.element, text_of):
        if block.tag == _W + "altChunk":
            part = parts.get(block.get(_RELATION))
            if part not in embedded:  # a hostile file has one by many names
                _write_part(writer, part)
            embedded.add(part)
        elif block.tag == _W + "tr":
            writer.row(cells)
        elif text := text_of(block).strip():
            level, is_item = _style(block, styles)
            if level is not None:
                writer.heading(level, text)
            elif is_item:
                writer.add(f"- {text}", kind="item")
            else:
                writer.add(text)
        for reference in block.iter(*(f"{_W}{kind}Reference" for kind in _NOTE_KINDS)):
            writer.add(notes.pop((reference.tag.removesuffix("Reference"), reference.get(_W + "id")), ""))
    return writer.document(file, "docx")


def _blocks(body: Any, text_of: _TextOf) -> Iterator[tuple[Any, list[str]]]:
    """The paragraphs, rows of tables with their cells, and embedded documents."""
    for block in outermost(body, _W + "p", _W + "tbl", _W + "altChunk", without=_NO_TEXT):
        if block.tag == _W + "tbl":
            rows = list(outermost(block, _W + "tr", without=_NO_TEXT))
            yield from zip(rows, headed(expanded(_cells(row, text_of) for row in rows)), strict=True)
        else:
            yield block, []


def _write_part(writer: TextWriter, part: Any) -> None:
    """Write a document that is embedded as such, if it is a page; a note tells of others."""
    if part is not None and "html" in part.content_type:
        write_page(writer, part.blob)
    elif part is not None:
        writer.notes.append(f"an embedded document is not read: {part.partname} ({part.content_type})")


def _cells(row: Any, text_of: _TextOf) -> Iterator[Cell]:
    for cell in outermost(row, _W + "tc", without=_NO_TEXT):
        merge = cell.find(f"{_W}tcPr/{_W}vMerge")
        is_part = merge is not None and merge.get(_W + "val") != "restart"
        columns = _value(cell, "w:tcPr/w:gridSpan")
        yield Cell(None if is_part else text_of(cell).strip(), int(columns or 1))


class _TextOf:
    """The text of a paragraph or a cell, with the text boxes in it."""

    def __init__(self, styles: dict[str, Any]) -> None:
        self._styles = styles
        self._of_styles: dict[tuple[str, str], Any] = {}

    def __call__(self, element: Any) -> str:
        return joined(self._runs(element))

    def _runs(self, element: Any) -> Iterator[Run]:
        from lxml import etree  # type: ignore[import-untyped]

        walker = etree.iterwalk(element, events=("start",))
        for _, each in walker:
            name = local_name(each)
            if name in _NO_TEXT:
                walker.skip_subtree()
            elif each.tag == MATH:
                yield Run(linear(each))
                walker.skip_subtree()
            elif name == "t":
                yield self._run(each)
            elif each.tag == _W + "sym":
                yield Run(character(each.get(_W + "font", ""), int(each.get(_W + "char", "0"), 16)))
            elif sign := _SIGNS.get(name):
                yield Run(sign)

    def _run(self, text: Any) -> Run:
        run = text.getparent()
        properties = {each.tag: each for each in run[0]} if len(run) and run[0].tag == _W + "rPr" else {}
        style = _attribute(properties.get(_W + "rStyle"), "val")
        level = LEVELS.get(_attribute(self._property(properties, style, "vertAlign"), "val"), 0)
        font = self._property(properties, style, "rFonts")
        content = with_characters(text.text or "", _attribute(font, "ascii") or _attribute(font, "hAnsi"))
        return Run(content, level, level > 0 and self._is_reference(run, style))

    def _is_reference(self, run: Any, style: str) -> bool:
        name = _value(self._styles[style], "w:name").lower() if style in self._styles else ""
        return name in ("footnote reference", "endnote reference") or bool(
            _attribute(run.getparent(), "anchor")
        )

    def _property(self, properties: dict[str, Any], style: str, name: str) -> Any:
        """A property of a run: its own, or else of its style."""
        found = properties.get(_W + name)
        return self._of_style(style, name) if found is None and style else found

    def _of_style(self, style: str, name: str) -> Any:
        """A property that a style has, or else one of the styles that it builds on."""
        if (style, name) not in self._of_styles:
            bases = _with_bases(style, self._styles)
            properties = (each.find(f"{_W}rPr/{_W}{name}") for each in bases)
            self._of_styles[style, name] = next((each for each in properties if each is not None), None)
        return self._of_styles[style, name]


def _with_bases(style: str, styles: dict[str, Any]) -> Iterator[Any]:
    """A style, and those that it builds on, one upon the other."""
    for _ in range(_MAX_STYLES):
        if (element := styles.get(style)) is None:
            return
        yield element
        style = _value(element, "w:basedOn")


def _style(paragraph: Any, styles: dict[str, Any]) -> tuple[int | None, bool]:
    """The level of a heading, the title's being 0, and whether a paragraph is an item of a list.

    Its own properties say so, or else its style and those that the style builds on.
    """
    is_item = False
    bases = _with_bases(_value(paragraph, "w:pPr/w:pStyle"), styles)
    for element in islice(chain((paragraph,), bases), _MAX_STYLES):
        name = _value(element, "w:name")
        if heading := _HEADING.match(name):
            return int(heading[1]), False
        if name.lower() == "title":
            return 0, False
        if (outline := _value(element, "w:pPr/w:outlineLvl")) in tuple("012345678"):
            return int(outline) + 1, False
        is_item |= _value(element, "w:pPr/w:numPr/w:numId") not in ("", "0") or name.startswith("List ")
    return None, is_item


def _value(element: Any, path: str) -> str:
    """The value of an element below another, "" without one."""
    return str(element.xpath(f"string({path}/@w:val)"))


def _notes(relations: Iterable[Any], text_of: _TextOf) -> Iterator[tuple[tuple[str, str], str]]:
    """The footnotes and endnotes, by tag and id."""
    from docx.oxml import parse_xml

    kinds = tuple(f"/{kind}s" for kind in _NOTE_KINDS)
    inside = (each for each in relations if not each.is_external and each.reltype.endswith(kinds))
    for part in dict.fromkeys(each.target_part for each in inside):
        for note in outermost(parse_xml(part.blob), *(_W + kind for kind in _NOTE_KINDS)):
            yield (note.tag, note.get(_W + "id")), text_of(note).strip()


def _attribute(element: Any, name: str) -> str:
    return "" if element is None else str(element.get(_W + name, ""))
