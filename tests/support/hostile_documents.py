"""Small files that stand for much: each takes memory or time out of proportion, by one means.

`size` is how often a part is repeated. All are made of strings that compress well.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from io import BytesIO

from tests.support import document_files as made

MEGABYTE = 1_000_000
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"


Make = Callable[[int], bytes]
Nested = Callable[[int, int], str]


def sheet_of_one_string(size: int, string: str = f"<t>{'x' * 8 * MEGABYTE}</t>") -> bytes:
    """A row whose cells all have one string of 8 MB."""
    cells = '<c t="s"><v>0</v></c>' * size
    return _sheet(f'<row r="1">{cells}</row>', f"<si>{string}</si>")


def sheet_of_one_rich_string(size: int) -> bytes:
    """The same, in two pieces that look different."""
    half = f"<r><rPr><b/></rPr><t>{'x' * 4 * MEGABYTE}</t></r>"
    return sheet_of_one_string(size, half + half.replace("<b/>", "<i/>"))


def sheet_of_a_string_of_pieces(size: int) -> bytes:
    """Cells whose string has thousands of pieces."""
    return sheet_of_one_string(size, "<r><t>x</t></r>" * 20_000)


def sheet_with_a_long_name(size: int) -> bytes:
    """Rows below one name of 8 MB."""
    rows = "".join(f'<row r="{row}"><c t="n"><v>1</v></c></row>' for row in range(2, size + 2))
    return _sheet(f'<row r="1"><c t="s"><v>0</v></c></row>{rows}', f"<si><t>{'x' * 8 * MEGABYTE}</t></si>")


def book_of_one_sheet(size: int) -> bytes:
    """A workbook that lists one sheet of blank rows `size` times."""
    data = _sheet(
        "".join(f'<row r="{row}"/>' for row in range(1, 20_000)) + '<row r="20000"><c><v>7</v></c></row>'
    )
    sheets = "".join(f'<sheet name="s{n}" sheetId="{n}" r:id="rId1"/>' for n in range(1, size + 1))
    book = f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>{sheets}</sheets></workbook>'
    return made.changed(data, {"xl/workbook.xml": book})


def _sheet(rows: str, strings: str = "") -> bytes:
    data = made.excel({"s": [["a"]]})
    sheet = f'<worksheet xmlns="{_MAIN}"><sheetData>{rows}</sheetData></worksheet>'
    shared = f'<sst xmlns="{_MAIN}">{strings}</sst>'
    types = "[Content_Types].xml"
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"
    listed = f'<Override PartName="/xl/sharedStrings.xml" ContentType="{kind}"/></Types>'
    files = {
        "xl/worksheets/sheet1.xml": sheet,
        "xl/sharedStrings.xml": shared,
        types: made.part(data, types).replace("</Types>", listed),
    }
    return made.changed(data, files)


def _text(megabytes: int) -> str:
    return f"{'x ' * 500}<br>" * (1_000 * megabytes)  # no parser takes megabytes at a time


def nested_cells(size: int, megabytes: int = 60) -> str:
    """Cells of a table in each other, with a text in the innermost."""
    return f"<table><tr>{'<td><div>' * size}{_text(megabytes)}"


def nested_rows(size: int, megabytes: int = 60) -> str:
    """Rows in each other, in a table with merged cells."""
    return f"<table>{'<tr><td colspan=2><div>' * size}{_text(megabytes)}"


def nested_formulas(size: int, megabytes: int = 60) -> str:
    return f"<p>{'<math><mtext>' * size}{_text(megabytes)}"


def nested_asides(size: int, megabytes: int = 60) -> str:
    return f"<article>{'<aside>' * size}{_text(megabytes)}"


def book_of(body: str) -> bytes:
    return made.epub({"a.xhtml": body})


def page_of(body: str) -> bytes:
    return f"<!doctype html><html><body>{body}".encode()


def book_of_one_chapter(size: int) -> bytes:
    """A book that lists one chapter `size` times, each time by another name."""
    items = "".join(f'<item id="c{n}" href="a.xhtml"/>' for n in range(size))
    spine = "".join(f'<itemref idref="c{n}"/>' for n in range(size))
    book = f'<package xmlns="http://www.idpf.org/2007/opf"><manifest>{items}</manifest><spine>{spine}</spine></package>'
    return made.epub({"a.xhtml": "<p>x</p>" + "<b></b>" * 20_000}, {"OPS/book.opf": book})


def show_of_one_slide(size: int) -> bytes:
    """A show that lists one slide `size` times."""
    data = made.powerpoint()
    name = "ppt/presentation.xml"
    before, begin, rest = made.part(data, name).partition("<p:sldIdLst>")
    _, end, after = rest.partition("</p:sldIdLst>")
    again = "".join(f'<p:sldId id="{256 + n}" r:id="rId7"/>' for n in range(size))
    return made.changed(data, {name: before + begin + again + end + after})


def word_with_one_part_of_notes(size: int) -> bytes:
    """A document that refers `size` times to one part of footnotes."""
    data = made.word_with_a_footnote("The Rhine.", "In Europe.")
    name = "word/_rels/document.xml.rels"
    kind = f"{_OFFICE}/footnotes"
    again = "".join(f'<Relationship Id="x{n}" Type="{kind}" Target="footnotes.xml"/>' for n in range(size))
    notes = made.part(data, "word/footnotes.xml").replace(
        "</w:footnotes>", "<w:x/>" * 20_000 + "</w:footnotes>"
    )
    changed = {
        name: made.part(data, name).replace("</Relationships>", again + "</Relationships>"),
        "word/footnotes.xml": notes,
    }
    return made.changed(data, changed)


def word_with_one_embedded_page(size: int) -> bytes:
    """A document that embeds one page `size` times, each time by another name."""
    chunks = "".join(f'<w:altChunk r:id="x{n}"/>' for n in range(size))
    data = made.word_of(f"<w:p><w:r><w:t>x</w:t></w:r></w:p>{chunks}")
    rels, types = "word/_rels/document.xml.rels", "[Content_Types].xml"
    again = "".join(
        f'<Relationship Id="x{n}" Type="{_OFFICE}/aFChunk" Target="a.html"/>' for n in range(size)
    )
    changed = {
        rels: made.part(data, rels).replace("</Relationships>", again + "</Relationships>"),
        types: made.part(data, types).replace(
            "</Types>", '<Default Extension="html" ContentType="text/html"/></Types>'
        ),
        "word/a.html": "<html><body><p>Page.</p>" + "<b></b>" * 20_000,
    }
    return made.changed(data, changed)


def word_in_utf_7(size: int, encoding: str = "UTF-7") -> bytes:
    """Tags that a count of `<` does not see."""
    usual = made.word_of("<w:p><w:r><w:t>The Rhine.</w:t></w:r></w:p>")
    text = made.part(usual, "word/document.xml").replace("</w:body>", "<w:p/>" * size + "</w:body>")
    hidden = text.replace("<w:p/>", "+ADw-w:p/>")
    return made.changed(usual, {"word/document.xml": f'<?xml version="1.0" encoding="{encoding}"?>{hidden}'})


def word_named_like_a_sheet(size: int) -> bytes:
    """A document in a part whose name says that its tags need no limit, as they are read one by one."""
    usual = made.word_of(f"<w:p><w:r><w:t>The Rhine.</w:t></w:r></w:p>{'<w:p/>' * size}")
    moved = "xl/worksheets/document.xml"
    with zipfile.ZipFile(BytesIO(usual)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    files[moved] = files.pop("word/document.xml")
    for name in ("_rels/.rels", "[Content_Types].xml"):
        files[name] = files[name].replace(b"word/document.xml", moved.encode())
    rels = files.pop("word/_rels/document.xml.rels")
    files["xl/worksheets/_rels/document.xml.rels"] = rels.replace(b'Target="', b'Target="../../word/')
    return made.archive(files)


def attributes(size: int) -> str:
    return f"<p {' '.join(f'a{n}=1' for n in range(size))}>x"


def word_with_attributes(size: int) -> bytes:
    many = " ".join(f'a{n}="1"' for n in range(size))
    return made.word_of(f"<w:p {many}><w:r><w:t>x</w:t></w:r></w:p>")


#: What each is made of, the name of its file, and how often a part is repeated in the attack.
HOSTILE: dict[str, tuple[str, int, Callable[[int], bytes]]] = {
    "one string of 8 MB in all cells": ("a.xlsx", 2_000, sheet_of_one_string),
    "one rich string of 8 MB in all cells": ("a.xlsx", 2_000, sheet_of_one_rich_string),
    "one string of many pieces in all cells": ("a.xlsx", 100_000, sheet_of_a_string_of_pieces),
    "a name of 8 MB above all rows": ("a.xlsx", 2_000, sheet_with_a_long_name),
    "one sheet listed many times": ("a.xlsx", 100_000, book_of_one_sheet),
    "cells in each other, book": ("a.epub", 100, lambda size: book_of(nested_cells(size))),
    "cells in each other, page": ("a.html", 100, lambda size: page_of(nested_cells(size))),
    "rows in each other": ("a.html", 80, lambda size: page_of(nested_rows(size))),
    "formulas in each other": ("a.html", 100, lambda size: page_of(nested_formulas(size))),
    "asides in each other": ("a.html", 200, lambda size: page_of(nested_asides(size))),
    "one chapter listed many times": ("a.epub", 100_000, book_of_one_chapter),
    "one slide listed many times": ("a.pptx", 100_000, show_of_one_slide),
    "one part of notes referred to many times": ("a.docx", 100_000, word_with_one_part_of_notes),
    "one page embedded many times": ("a.docx", 100_000, word_with_one_embedded_page),
    "tags hidden by UTF-7": ("a.docx", 10_000_000, word_in_utf_7),
    "tags in a part named like a sheet": ("a.docx", 10_000_000, word_named_like_a_sheet),
    "attributes of a page": ("a.html", 100_000, lambda size: page_of(attributes(size))),
    "attributes of Word": ("a.docx", 100_000, word_with_attributes),
}
