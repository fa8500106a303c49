"""Files of every format that `documents` reads, made by the libraries of the formats, or by hand."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import docx
import openpyxl
import pptx
import pypdf
from docx.opc.constants import CONTENT_TYPE as CT
from docx.opc.constants import RELATIONSHIP_TYPE as RT
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from pptx.util import Cm

SENTENCE = "The river 🌊 长江 is called the Yangtze."
"""With what is more than one byte, and more than one code unit of UTF-16, before a name."""


def pdf(pages: Sequence[str]) -> bytes:
    """A PDF with a text on each page; a page without text has a drawing."""
    signs = sorted(set("".join(pages)))
    codes = {sign: f"{code:04x}" for code, sign in enumerate(signs, 1)}
    mapped = "\n".join(f"<{code}> <{sign.encode('utf-16-be').hex()}>" for sign, code in codes.items())
    unicode = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /Made def\n"
        "1 begincodespacerange <0000> <ffff> endcodespacerange\n"
        f"{len(codes)} beginbfchar\n{mapped}\nendbfchar\n"
        "endcmap end end"
    )
    font = (
        "<< /Type /Font /Subtype /Type0 /BaseFont /Made /Encoding /Identity-H /ToUnicode 4 0 R "
        "/DescendantFonts [5 0 R] >>"
    )
    descendant = (
        "<< /Type /Font /Subtype /CIDFontType2 /BaseFont /Made /DW 500 "
        "/CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> >>"
    )
    kids = " ".join(f"{number} 0 R" for number in range(6, 6 + 2 * len(pages), 2))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {len(pages)} /Kids [{kids}] >>",
        font,
        _stream(unicode),
        descendant,
    ]
    for number, page in enumerate(pages):
        lines = " T* ".join(f"<{''.join(map(codes.__getitem__, line))}> Tj" for line in page.split("\n"))
        content = f"BT /F1 12 Tf 14 TL 50 800 Td {lines} ET" if page else "10 10 100 100 re f"
        objects += [
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] "
            f"/Resources << /Font << /F1 3 0 R >> >> /Contents {7 + 2 * number} 0 R >>",
            _stream(content),
        ]
    return pdf_of(objects)


def pdf_with(annotations: Sequence[str], content: str = "BT /F1 12 Tf 50 800 Td (Hello) Tj ET") -> bytes:
    """A page with annotations, which are the objects from 6 on; object 5 is a field of a form."""
    references = " ".join(f"{number} 0 R" for number in range(6, 6 + len(annotations)))
    return pdf_of(
        [
            "<< /Type /Catalog /Pages 2 0 R /AcroForm << /Fields [5 0 R] >> >>",
            "<< /Type /Pages /Count 1 /Kids [3 0 R] >>",
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R /Resources << /Font << /F1 "
            f"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> /Annots [{references}] >>",
            _stream(content),
            "<< /T (colour) /V (blue) >>",
            *annotations,
        ]
    )


def pdf_of(objects: Sequence[str]) -> bytes:
    """A PDF of these objects, numbered from 1; the first is its catalog."""
    data, starts = b"%PDF-1.7\n", []
    for number, content in enumerate(objects, 1):
        starts.append(len(data))
        data += f"{number} 0 obj\n{content}\nendobj\n".encode("latin-1")
    table = "".join(f"{start:010} 00000 n \n" for start in starts)
    size = len(objects) + 1
    trailer = f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n<< /Size {size} /Root 1 0 R >>\n"
    return data + f"{trailer}startxref\n{len(data)}\n%%EOF\n".encode()


def encrypted_pdf(data: bytes, password: str, owner: str = "owner") -> bytes:
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(data))
    writer.encrypt(password, owner, algorithm="AES-256")
    saved = io.BytesIO()
    writer.write(saved)
    return saved.getvalue()


def word() -> bytes:
    made = docx.Document()
    made.add_heading("Rivers 🌊", 0)
    made.add_heading("Asia", 1)
    made.add_paragraph(SENTENCE)
    made.add_heading("Lengths", 2)
    made.add_paragraph("Indus", style="List Bullet")
    made.add_paragraph("Ganges", style="List Bullet")
    table = made.add_table(2, 2)
    for cell, text in zip(
        (*table.rows[0].cells, *table.rows[1].cells), ("River", "km", "Yangtze", "6300"), strict=True
    ):
        cell.text = text
    made.add_heading("Europe", 1)
    made.add_paragraph("The Rhine is shorter.")
    saved = io.BytesIO()
    made.save(saved)
    return saved.getvalue()


def word_of(body: str) -> bytes:
    """A document with this body, in the prefixes `w`, `m` and `r`."""
    office = "http://schemas.openxmlformats.org"
    prefixes = (
        f'xmlns:w="{office}/wordprocessingml/2006/main" xmlns:m="{office}/officeDocument/2006/math" '
        f'xmlns:r="{office}/officeDocument/2006/relationships"'
    )
    return changed(
        word(), {"word/document.xml": f"<w:document {prefixes}><w:body>{body}</w:body></w:document>"}
    )


def word_run(text: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def word_table(*rows: Sequence[tuple[str, str]]) -> str:
    """A table of Word, whose cells are a text and properties."""

    def cell(text: str, own: str) -> str:
        return f"<w:tc><w:tcPr>{own}</w:tcPr><w:p>{word_run(text)}</w:p></w:tc>"

    made = "".join(f"<w:tr>{''.join(cell(*each) for each in row)}</w:tr>" for row in rows)
    return f"<w:tbl>{made}</w:tbl>"


def word_with_a_footnote(text: str, note: str) -> bytes:
    made = docx.Document()
    reference = OxmlElement("w:footnoteReference")
    reference.set(qn("w:id"), "2")
    made.add_paragraph().add_run(text)._r.append(reference)
    notes = (
        '<w:footnotes xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">'
        f'<w:footnote w:id="2"><w:p><w:r><w:t>{note}</w:t></w:r></w:p></w:footnote></w:footnotes>'
    )
    part = Part(PackURI("/word/footnotes.xml"), CT.WML_FOOTNOTES, notes.encode(), made.part.package)
    made.part.relate_to(part, RT.FOOTNOTES)
    saved = io.BytesIO()
    made.save(saved)
    return saved.getvalue()


def powerpoint() -> bytes:
    made = pptx.Presentation()
    slide = made.slides.add_slide(made.slide_layouts[1])
    slide.shapes.title.text = "Asia 🌊"
    slide.placeholders[1].text = SENTENCE
    slide.notes_slide.notes_text_frame.text = "Speak slowly."
    slide = made.slides.add_slide(made.slide_layouts[6])
    table = slide.shapes.add_table(2, 2, 0, 0, Cm(5), Cm(5)).table
    for number, text in enumerate(("River", "km", "Rhine", "1233")):
        table.cell(number // 2, number % 2).text = text
    saved = io.BytesIO()
    made.save(saved)
    return saved.getvalue()


def excel(sheets: Mapping[str, Sequence[Sequence[Any]]]) -> bytes:
    made = openpyxl.Workbook()
    del made["Sheet"]
    for name, rows in sheets.items():
        sheet = made.create_sheet(name)
        for row in rows:
            sheet.append(row)
    saved = io.BytesIO()
    made.save(saved)
    return saved.getvalue()


def strict(data: bytes) -> bytes:
    """The same file in the strict form of Open XML."""
    usual = rb"http://schemas\.openxmlformats\.org/(\w+)/2006/(?=main|relationships|math)"
    with zipfile.ZipFile(io.BytesIO(data)) as before:
        names = [name for name in before.namelist() if name.endswith((".xml", ".rels"))]
        made = {name: re.sub(usual, rb"http://purl.oclc.org/ooxml/\1/", before.read(name)) for name in names}
        types = "[Content_Types].xml"
        return changed(data, made | {types: before.read(types)})


def retyped(data: bytes, before: str, after: str) -> bytes:
    """The same file with another content type, as templates and files with macros have it."""
    types = "[Content_Types].xml"
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return changed(data, {types: archive.read(types).replace(before.encode(), after.encode())})


def archive(files: Mapping[str, str | bytes]) -> bytes:
    saved = io.BytesIO()
    with zipfile.ZipFile(saved, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in files.items():
            made.writestr(name, content)
    return saved.getvalue()


def part(data: bytes, name: str) -> str:
    """A file of an archive as text."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return archive.read(name).decode()


def changed(data: bytes, files: Mapping[str, str | bytes]) -> bytes:
    """An archive with other content in some of its files."""
    with zipfile.ZipFile(io.BytesIO(data)) as before:
        return archive({name: before.read(name) for name in before.namelist()} | dict(files))


def epub(chapters: Mapping[str, str], extra: Mapping[str, str] | None = None) -> bytes:
    """A book with the bodies of its chapters by their file names."""
    items = "".join(f'<item id="c{n}" href="{name}"/>' for n, name in enumerate(chapters))
    spine = "".join(f'<itemref idref="c{n}"/>' for n in range(len(chapters)))
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" version="3.0">'
        '<manifest><item id="nav" href="nav.xhtml" properties="nav"/>'
        f'{items}</manifest><spine><itemref idref="nav"/>{spine}</spine></package>'
    )
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container" version="1.0"><rootfiles>'
        '<rootfile full-path="OPS/book.opf"/></rootfiles></container>'
    )
    pages = {
        f"OPS/{name}": f'<?xml version="1.0" encoding="UTF-8"?><html><body>{body}</body></html>'
        for name, body in {"nav.xhtml": "<nav>Contents</nav>", **chapters}.items()
    }
    return archive(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": container,
            "OPS/book.opf": package,
            **pages,
            **(extra or {}),
        }
    )


def _stream(content: str) -> str:
    return f"<< /Length {len(content)} >>\nstream\n{content}\nendstream"
