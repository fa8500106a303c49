"""Reads PowerPoint files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Any, Final

from trustgraph_prompt.documents.document import Document
from trustgraph_prompt.documents.elements import outermost
from trustgraph_prompt.documents.formulas import MATH, linear
from trustgraph_prompt.documents.raised_text import Run, joined
from trustgraph_prompt.documents.symbol_fonts import with_characters
from trustgraph_prompt.documents.table_rows import Cell, expanded, headed
from trustgraph_prompt.documents.writer import TextWriter

_A: Final = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_ALTERNATIVES: Final = "{http://schemas.openxmlformats.org/markup-compatibility/2006}AlternateContent"


def read_pptx(data: bytes, file: str) -> Document:
    """Read the slides, each below its title, with tables and the speaker's notes."""
    import pptx

    writer = TextWriter()
    slides = {slide.part: slide for slide in pptx.Presentation(BytesIO(data)).slides}  # each once
    notes_read: set[Any] = set()
    for number, slide in enumerate(slides.values(), 1):
        writer.page(number)
        writer.section(1, "")
        _choose_alternatives(slide.element)
        title = slide.shapes.title
        if title is not None:
            writer.heading(1, drawn_text(title.element))
        _write_shapes(
            writer, (each for each in slide.shapes if title is None or each.shape_id != title.shape_id)
        )
        if slide.has_notes_slide and slide.notes_slide.part not in notes_read:
            notes_read.add(slide.notes_slide.part)
            if notes := slide.notes_slide.notes_text_frame:
                writer.add(drawn_text(notes._txBody))
    return writer.document(file, "pptx")


def drawn_text(body: Any) -> str:
    """Return the text of the paragraphs of a drawing, a line for each."""
    return "\n".join(joined(_runs(paragraph)) for paragraph in outermost(body, _A + "p"))


def _choose_alternatives(slide: Any) -> None:
    """Put the first of several forms of a shape in their place; the others are for older programs."""
    for alternatives in list(slide.iter(_ALTERNATIVES)):
        for shape in alternatives[0] if len(alternatives) else ():
            alternatives.addprevious(shape)


def _write_shapes(writer: TextWriter, shapes: Iterable[Any]) -> None:
    for shape in shapes:
        if hasattr(shape, "shapes"):  # a group
            _write_shapes(writer, shape.shapes)
        elif shape.has_text_frame:
            writer.add(drawn_text(shape.element))
        elif shape.has_table:
            rows = outermost(shape.element, _A + "tr")
            for cells in headed(expanded(map(_cells, rows))):
                writer.row(cells)


def _cells(row: Any) -> Iterator[Cell]:
    for cell in row.iterchildren(_A + "tc"):
        if cell.get("hMerge") not in ("1", "true"):
            is_part = cell.get("vMerge") in ("1", "true")
            yield Cell(None if is_part else drawn_text(cell), int(cell.get("gridSpan", "1")))


def _runs(paragraph: Any) -> Iterator[Run]:
    for child in paragraph.iterchildren("*"):
        text = child.findtext(_A + "t") or ""
        if child.tag in (_A + "r", _A + "fld"):
            yield Run(with_characters(text, _font(child)), _level(child))
        elif child.tag == _A + "br":
            yield Run("\n")
        else:
            formulas = [child] if child.tag == MATH else outermost(child, MATH)
            yield from (Run(linear(formula)) for formula in formulas)


def _level(run: Any) -> int:
    """Whether a run is raised or lowered, in thousandths of its size."""
    baseline = int(run.xpath("string(a:rPr/@baseline)").strip().rstrip("%") or 0)
    return (baseline > 0) - (baseline < 0)


def _font(run: Any) -> str:
    return str(run.xpath("string((a:rPr/a:sym | a:rPr/a:latin)[last()]/@typeface)"))
