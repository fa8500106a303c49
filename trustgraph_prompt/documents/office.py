"""Reads Word and PowerPoint files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Any, Final

from trustgraph_prompt.documents.document import Document
from trustgraph_prompt.documents.writer import TextWriter

_W: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_NOTE_KINDS: Final = ("footnote", "endnote")
_NO_TEXT: Final = frozenset(("Fallback", "del", "moveFrom", "pPr", "rPr"))
"""What was deleted, what repeats something for older programs, and properties."""

_SIGNS: Final = {"tab": "\t", "br": "\n", "cr": "\n", "p": "\n", "noBreakHyphen": "-"}
_HEADING = re.compile(r"heading ([1-9])\Z", re.IGNORECASE)
_MAX_STYLES: Final = 20
"""Styles that one builds on, one upon the other: a hostile file has circles."""


def read_docx(data: bytes, file: str) -> Document:
    """Read headings, paragraphs, lists and tables, with each footnote below its paragraph."""
    import docx

    word = docx.Document(BytesIO(data))
    styles = {style.get(_W + "styleId"): style for style in word.styles.element.iter(_W + "style")}
    notes = dict(_notes(word.part.rels.values()))
    writer = TextWriter()
    for block in _outermost(word.element, _W + "p", _W + "tr"):
        if block.tag == _W + "tr":
            writer.row(_text(cell) for cell in _outermost(block, _W + "tc"))
        elif text := _text(block).strip():
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


def read_pptx(data: bytes, file: str) -> Document:
    """Read the slides, each below its title, with tables and the speaker's notes."""
    import pptx

    writer = TextWriter()
    for number, slide in enumerate(pptx.Presentation(BytesIO(data)).slides, 1):
        writer.page(number)
        writer.section(1, "")
        title = slide.shapes.title
        if title is not None:
            writer.heading(1, title.text_frame.text)
        _write_shapes(
            writer, (each for each in slide.shapes if title is None or each.shape_id != title.shape_id)
        )
        if slide.has_notes_slide and (notes := slide.notes_slide.notes_text_frame):
            writer.add(notes.text.replace("\v", "\n"))
    return writer.document(file, "pptx")


def _outermost(parent: Any, *tags: str) -> Iterator[Any]:
    """The elements with these tags that are in no other of them, without those of older programs."""
    for child in parent.iterchildren("*"):
        if child.tag in tags:
            yield child
        elif _name(child) not in _NO_TEXT:
            yield from _outermost(child, *tags)


def _text(element: Any) -> str:
    """The text of a paragraph or a cell, with that of the text boxes in it."""
    if (name := _name(element)) in _NO_TEXT:
        return ""
    if name == "t":
        return str(element.text or "")
    return _SIGNS.get(name, "") + "".join(map(_text, element.iterchildren("*")))


def _style(paragraph: Any, styles: dict[str, Any]) -> tuple[int | None, bool]:
    """The level of a heading, the title's being 0, and whether a paragraph is an item of a list.

    Its own properties say so, or else its style and those that the style builds on.
    """
    is_item, element = False, paragraph
    name, parent = "", _value(paragraph, "w:pPr/w:pStyle")
    for _ in range(_MAX_STYLES):
        if heading := _HEADING.match(name):
            return int(heading[1]), False
        if name.lower() == "title":
            return 0, False
        if (outline := _value(element, "w:pPr/w:outlineLvl")) in tuple("012345678"):
            return int(outline) + 1, False
        is_item |= _value(element, "w:pPr/w:numPr/w:numId") not in ("", "0") or name.startswith("List ")
        if (element := styles.get(parent)) is None:
            break
        name, parent = _value(element, "w:name"), _value(element, "w:basedOn")
    return None, is_item


def _value(element: Any, path: str) -> str:
    """The value of an element below another, "" without one."""
    return str(element.xpath(f"string({path}/@w:val)"))


def _notes(relations: Iterable[Any]) -> Iterator[tuple[tuple[str, str], str]]:
    """The footnotes and endnotes, by tag and id."""
    from docx.oxml import parse_xml

    for relation in relations:
        if not relation.is_external and relation.reltype.endswith(tuple(f"/{kind}s" for kind in _NOTE_KINDS)):
            for note in parse_xml(relation.target_part.blob).iter(*(_W + kind for kind in _NOTE_KINDS)):
                yield (note.tag, note.get(_W + "id")), _text(note).strip()


def _write_shapes(writer: TextWriter, shapes: Iterable[Any]) -> None:
    for shape in shapes:
        if hasattr(shape, "shapes"):  # a group
            _write_shapes(writer, shape.shapes)
        elif shape.has_text_frame:
            writer.add(shape.text_frame.text.replace("\v", "\n"))
        elif shape.has_table:
            for row in shape.table.rows:
                writer.row(cell.text for cell in row.cells)


def _name(element: Any) -> str:
    return str(element.tag.rpartition("}")[2])
