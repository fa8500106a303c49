"""Every format becomes a text with places and records; what is broken or hostile is refused by name."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable
from datetime import date, datetime
from typing import Any

import pytest

from tests.support import document_files as made
from tests.support.document_files import SENTENCE
from trustgraph_prompt.documents import Converter, Document, convert
from trustgraph_prompt.documents.chunks import Size, chunks
from trustgraph_prompt.errors import ConfigError

PAGE = f"""<!doctype html><html><head><title>Title</title></head><body>
<nav><ul><li><a href="/">Home</a></li><li><a href="/about">About us</a></li></ul></nav>
<main><article><h1>Rivers 🌊</h1><p>The <b>Rhine</b> rises in the <a href="alps">Alps</a>, and ends in the
North Sea. It is one of the long rivers of Europe, and has many tributaries on its way.</p>
<h2>Asia</h2><p>{SENTENCE}</p><ul><li>Indus</li><li>Ganges</li></ul>
<table><tr><th>River</th><th>km</th></tr><tr><td>Yangtze</td><td>6300</td></tr></table></article></main>
<footer><p>All rights reserved.</p></footer></body></html>"""
MARKDOWN = f"""# Rivers 🌊

Intro.

## Asia

{SENTENCE}
"""
TABLE: list[list[Any]] = [["River", "km"], ["长江 🌊", 6300], ["Rhine", 1233]]
CSV = "\n".join(",".join(map(str, row)) for row in TABLE)

FILES: dict[str, Callable[[], bytes]] = {
    "a.pdf": lambda: made.pdf(["First page.", SENTENCE]),
    "a.docx": made.word,
    "a.pptx": made.powerpoint,
    "a.xlsx": lambda: made.excel({"Sheet 🌊": TABLE}),
    "a.epub": lambda: made.epub(
        {"1.xhtml": "<h1>One 🌊</h1><p>Intro.", "2.xhtml": f"<h1>Two</h1><p>{SENTENCE}"}
    ),
    "a.html": PAGE.encode,
    "a.md": MARKDOWN.encode,
    "a.csv": CSV.encode,
    "a.txt": SENTENCE.encode,
}
ARCHIVES = ["a.docx", "a.pptx", "a.xlsx", "a.epub"]


def heading_of(document: Document, passage: str) -> str | None:
    return document.place(document.text.index(passage)).heading


def page_of(document: Document, passage: str) -> int | None:
    return document.place(document.text.index(passage)).page


def refusal(data: bytes, name: str) -> str:
    with pytest.raises(ConfigError) as caught:
        convert(data, name)
    assert str(caught.value).startswith(f"{name}: ")
    return str(caught.value)


def text_or_refusal(data: bytes, name: str) -> str:
    try:
        return convert(data, name).text
    except ConfigError as error:
        return str(error)


class TestEveryFormat:
    @pytest.mark.parametrize("name", FILES)
    def test_places_and_records_are_offsets_of_the_text(self, name: str) -> None:
        document = convert(FILES[name](), name)
        assert document.file == name
        starts = [place.start for place in document.places]
        assert starts == sorted(set(starts))
        for place in document.places:
            assert not document.text[place.start].isspace()
            last = (place.heading or "").split(" > ")[-1]
            if name not in ("a.pdf", "a.xlsx") and last:
                assert document.text[place.start :].lstrip("# ").startswith(last)
        for start, end in document.records:
            assert document.text[start:end].strip() == document.text[start:end] != ""
        river = "长江" if name in ("a.xlsx", "a.csv") else "Yangtze"
        at = document.text.index(river)
        assert document.text[at : at + len(river)] == river

    @pytest.mark.parametrize("name", FILES)
    def test_the_content_counts_more_than_the_name(self, name: str) -> None:
        document = convert(FILES[name](), name)
        by_content = name not in ("a.md", "a.csv", "a.txt")
        assert convert(FILES[name](), "-").format == (document.format if by_content else "text")

    @pytest.mark.parametrize("name", FILES)
    def test_an_empty_file_is_refused(self, name: str) -> None:
        assert refusal(b"", name) == refusal(b" \n", name) == f"{name}: is empty"

    def test_a_file_without_text_is_refused(self) -> None:
        page = b"<html><body><script>1</script></body></html>"
        assert refusal(page, "a.html") == "a.html: has no text that can be read"

    @pytest.mark.parametrize("name", ["a.pdf", *ARCHIVES])
    def test_a_truncated_file_is_refused(self, name: str) -> None:
        data = FILES[name]()
        for size in (10, len(data) // 2, len(data) - 100):
            assert "damaged" in refusal(data[:size], name)

    @pytest.mark.parametrize("name", ["a.pdf", *ARCHIVES])
    def test_a_text_with_the_name_of_another_format_is_refused(self, name: str) -> None:
        assert "is damaged, or not " in refusal(b"Just a text.", name)

    @pytest.mark.parametrize("name", FILES)
    def test_flipped_bytes_are_refused_or_read(self, name: str) -> None:
        data = FILES[name]()
        for at in range(0, len(data), max(1, len(data) // 40)):
            assert text_or_refusal(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :], name)


def test_headings_begin_a_chunk() -> None:
    body = "".join(f"<h1>Part {number}</h1><p>{'word ' * 14}</p>" for number in range(5))
    for name, data in (("a.epub", made.epub({"1.xhtml": body})), ("a.html", f"<html><body>{body}".encode())):
        found = [chunk.text.split("\n")[0] for chunk in chunks(convert(data, name), Size(120))]
        assert found == [f"# Part {number}" for number in range(5)]


class TestPdf:
    def test_each_page_has_its_number(self) -> None:
        document = convert(made.pdf(["First 🌊.", SENTENCE, "Third."]), "a.pdf")
        assert document.text == f"First 🌊.\n{SENTENCE}\nThird."
        assert [page_of(document, text) for text in ("First", "Yangtze", "Third")] == [1, 2, 3]

    def test_pages_without_text_are_noted(self) -> None:
        document = convert(made.pdf(["First.", "", "Third."]), "a.pdf")
        assert page_of(document, "Third") == 3
        assert document.notes == (
            "1 of 3 pages have no text that can be read (scanned pages need OCR first): 2",
        )

    def test_a_scanned_document_needs_ocr(self) -> None:
        assert "has no text on any of its 2 pages, only images: scanned pages need OCR" in refusal(
            made.pdf(["", ""]), "a.pdf"
        )

    def test_500_pages_are_read(self) -> None:
        document = convert(made.pdf([f"Page {number} of the book." for number in range(1, 501)]), "a.pdf")
        assert [page_of(document, f"Page {number} ") for number in (1, 250, 500)] == [1, 250, 500]
        assert len(document.places) == 500

    def test_pdf_with_an_empty_password_is_read(self) -> None:
        assert convert(made.encrypted_pdf(made.pdf([SENTENCE]), ""), "a.pdf").text == SENTENCE
        assert "is encrypted" in refusal(made.encrypted_pdf(made.pdf([SENTENCE]), "secret"), "a.pdf")

    def test_a_damaged_page_is_noted_and_the_others_are_read(self) -> None:
        whole = made.pdf(["First.", "Second.", "Third."])
        before, begin, second = whole.partition(b"9 0 obj")
        document = convert(before + begin + second.replace(b"BT /F1", b"BT (F1", 1), "a.pdf")
        assert document.text == "First.\nThird."
        assert document.notes == ("1 of 3 pages are damaged: 2",)

    def test_pages_that_draw_each_other_end(self) -> None:
        # Each drawing draws the next one ten times, and the last one the first: endless without a limit.
        drawings = [
            "<< /Type /XObject /Subtype /Form /BBox [0 0 9 9] /Length 60 "
            f"/Resources << /XObject << /D {4 + (n + 1) % 9} 0 R >> >> >>\nstream\n{'/D Do ' * 10}\nendstream"
            for n in range(9)
        ]
        page = "<< /Type /Page /Parent 2 0 R /Contents 4 0 R /Resources << /XObject << /D 4 0 R >> >> >>"
        kids = "3 0 R " * 20_000
        data = made.pdf_of(
            [
                "<< /Type /Catalog /Pages 2 0 R >>",
                f"<< /Type /Pages /Count 20000 /Kids [{kids}] >>",
                page,
                *drawings,
            ]
        )
        with (
            Converter(max_seconds=0.5) as converter,
            pytest.raises(ConfigError, match=r"a\.pdf: takes more than 0\.5 seconds of CPU"),
        ):
            converter.convert(data, "a.pdf")

    def test_pages_that_contain_themselves_are_refused(self) -> None:
        data = made.pdf_of(["<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Count 1 /Kids [2 0 R] >>"])
        refusal(data, "a.pdf")

    def test_a_stream_that_inflates_to_too_much_is_no_text(self) -> None:
        bomb = zlib.compress(b"BT (x) Tj ET " * 10_000_000).decode("latin-1")
        page = "<< /Type /Page /Parent 2 0 R /Contents 4 0 R >>"
        stream = f"<< /Filter /FlateDecode /Length {len(bomb)} >>\nstream\n{bomb}\nendstream"
        tree = "<< /Type /Pages /Count 1 /Kids [3 0 R] >>"
        refusal(made.pdf_of(["<< /Type /Catalog /Pages 2 0 R >>", tree, page, stream]), "a.pdf")


class TestWord:
    def test_headings_lists_and_tables_are_kept(self) -> None:
        document = convert(made.word(), "a.docx")
        assert document.text == (
            f"# Rivers 🌊\n\n# Asia\n\n{SENTENCE}\n\n## Lengths\n\n- Indus\n- Ganges\n\n"
            "River | km\nYangtze | 6300\n\n# Europe\n\nThe Rhine is shorter."
        )
        assert heading_of(document, "Yangtze") == "Rivers 🌊 > Asia"
        assert heading_of(document, "6300") == "Rivers 🌊 > Asia > Lengths"
        assert heading_of(document, "Rhine") == "Rivers 🌊 > Europe"

    def test_inserted_text_counts_and_deleted_text_does_not(self) -> None:
        body = (
            '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body><w:sdt>'
            "<w:sdtContent><w:p><w:r><w:t>The </w:t></w:r><w:ins><w:r><w:t>long</w:t></w:r></w:ins>"
            "<w:del><w:r><w:delText>short</w:delText></w:r></w:del><w:r><w:t> Rhine</w:t></w:r></w:p>"
            "</w:sdtContent></w:sdt></w:body></w:document>"
        )
        assert (
            convert(made.changed(made.word(), {"word/document.xml": body}), "a.docx").text == "The long Rhine"
        )

    def test_a_footnote_stands_below_its_paragraph(self) -> None:
        document = convert(made.word_with_a_footnote("The Rhine.", "In Europe."), "a.docx")
        assert document.text == "The Rhine.\n\nIn Europe."

    def test_styles_that_build_on_each_other_in_a_circle_are_no_headings(self) -> None:
        styles = (
            '<w:styles xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">'
            '<w:style w:type="paragraph" w:styleId="Heading1"><w:name w:val="a"/>'
            '<w:basedOn w:val="Heading1"/></w:style></w:styles>'
        )
        document = convert(made.changed(made.word(), {"word/styles.xml": styles}), "a.docx")
        assert document.places == ()


class TestPowerPoint:
    def test_a_slide_is_a_page_below_its_title(self) -> None:
        document = convert(made.powerpoint(), "a.pptx")
        assert document.text == f"# Asia 🌊\n\n{SENTENCE}\n\nSpeak slowly.\n\nRiver | km\nRhine | 1233"
        assert document.place(document.text.index("Yangtze"))[1:] == (1, "Asia 🌊")
        assert document.place(document.text.index("Rhine"))[1:] == (2, None)


class TestTables:
    @pytest.mark.parametrize("name", ["a.csv", "a.xlsx"])
    def test_a_row_is_a_record_with_the_names_of_the_first(self, name: str) -> None:
        document = convert(FILES[name](), name)
        assert [document.text[start:end] for start, end in document.records] == [
            "River: 长江 🌊\nkm: 6300",
            "River: Rhine\nkm: 1233",
        ]

    def test_sheets_are_headings(self) -> None:
        data = made.excel(
            {"Asia": TABLE[:2], "Empty": [], "Europe": [TABLE[0], TABLE[2]], "Alone": [["one", None, "row"]]}
        )
        document = convert(data, "a.xlsx")
        assert heading_of(document, "6300") == "Asia"
        assert heading_of(document, "1233") == "Europe"
        assert heading_of(document, "one | row") == "Alone"
        assert len(document.records) == 3

    def test_blank_cells_are_left_out_and_dates_are_readable(self) -> None:
        rows: list[list[Any]] = [
            ["name", "from", "at"],
            ["Rhine", date(2020, 1, 2), None],
            [],
            [None, datetime(2020, 1, 2, 3, 4), 1.5, "x"],
        ]
        assert convert(made.excel({"s": rows}), "a.xlsx").text == (
            "name: Rhine\nfrom: 2020-01-02\n\nfrom: 2020-01-02 03:04:00\nat: 1.5\ncolumn 4: x"
        )

    @pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
    def test_the_delimiter_is_found_and_quotes_may_hold_it_and_line_breaks(self, delimiter: str) -> None:
        text = f'name{delimiter}note\r\nRhine{delimiter}"1,5; a{delimiter}b\r\nand ""more"""\r\n'
        document = convert(text.encode(), "a.csv")
        assert document.text == f'name: Rhine\nnote: 1,5; a{delimiter}b\r\nand "more"'

    def test_a_quote_that_is_not_closed_is_refused_with_its_line(self) -> None:
        assert "line 2: field larger than field limit" in refusal(b'a,b\n"' + b"x" * 200_000, "a.csv")

    def test_wide_tables_with_long_names_end(self) -> None:
        names = b",".join([b"n" * 1000] * 10_000)
        rows = b"\n".join([b",".join([b"1"] * 10_000)] * 10)
        assert "its text is longer than 67,108,864 characters" in refusal(names + b"\n" + rows, "a.csv")

    def test_a_cell_far_out_does_not_fill_the_memory(self) -> None:
        sheet = (
            '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
            '<dimension ref="A1:XFD1048576"/><sheetData><row r="1"><c r="A1"><v>1</v></c></row>'
            '<row r="9000000000"><c r="A9000000000"><v>2</v></c></row></sheetData></worksheet>'
        )
        data = made.changed(FILES["a.xlsx"](), {"xl/worksheets/sheet1.xml": sheet})
        assert "has more than 10,000,000 cells" in refusal(data, "a.xlsx")


class TestHtml:
    def test_the_article_is_kept_without_menu_and_footer(self) -> None:
        document = convert(PAGE.encode(), "a.html")
        assert document.text == (
            "# Rivers 🌊\n\nThe Rhine rises in the Alps, and ends in the North Sea. It is one of the long "
            f"rivers of Europe, and has many tributaries on its way.\n\n## Asia\n\n{SENTENCE}\n\n"
            "- Indus\n- Ganges\n\nRiver | km\nYangtze | 6300"
        )
        assert heading_of(document, "Rhine") == "Rivers 🌊"
        assert heading_of(document, "Yangtze") == "Rivers 🌊 > Asia"

    def test_a_page_without_an_article_is_all_its_text(self) -> None:
        page = b"<html><body><nav><a href='/'>Home</a> <a href='/x'>Rhine</a></nav></body></html>"
        assert convert(page, "a.html").text == "Home Rhine"

    def test_headings_outside_an_article_are_kept(self) -> None:
        text = "<p>A long sentence about the rivers of the continent, which flow into the sea.</p>" * 5
        body = f"<nav>Home</nav><header><h1>Go</h1></header><div>{text}</div><footer>x</footer>"
        document = convert(f"<html><body>{body}</body></html>".encode(), "a.html")
        assert document.text.startswith("# Go\n\nA long sentence")
        assert heading_of(document, "rivers") == "Go"
        assert "Home" not in document.text

    @pytest.mark.parametrize(
        "hidden",
        [
            "<p hidden>unseen</p>",
            '<p style="color: red; DISPLAY : none">unseen</p>',
            '<span style="visibility:hidden">unseen</span>',
            '<i aria-hidden="true">unseen</i>',
            '<span class="material-icons" aria-hidden="true">unseen</span>',
            '<span aria-hidden="true">unseen</span><span class="sr-only"></span>',
            '<div role="dialog" aria-hidden="true"><p>unseen</p></div>',
            "<div hidden><table><tr><td>unseen<td rowspan=2>x<tr><td>y</table></div>",
        ],
    )
    def test_hidden_text_is_not_read(self, hidden: str) -> None:
        short = f"<h1>Go</h1>{hidden} Rhine <p>Elbe"
        long = f"<article><h1>Go</h1><p>{SENTENCE * 9}</p>{hidden}<p>Rhine. {SENTENCE * 9}</p></article>"
        book = made.epub({"1.xhtml": f"<body>{short}</body>"})
        assert convert(book, "a.epub").text == "# Go\n\nRhine\n\nElbe"
        for body in (short, long):
            text = convert(f"<html><body>{body}</body></html>".encode(), "a.html").text
            assert "unseen" not in text
            assert "Rhine" in text

    @pytest.mark.parametrize(
        "seen",
        [
            '<p hidden="until-found">Rhine</p>',
            '<p hidden="UNTIL-FOUND">Rhine</p>',
            '<p style="display: block">Rhine</p>',
            '<div style="backface-visibility: hidden"><p>Rhine</p></div>',
            '<div style="visibility: hidden"><p style="visibility: visible">Rhine</p></div>',
            '<article style="visibility: hidden"><h1>Go</h1><p>Rhine</p></article>',
            '<button aria-controls="more">More</button><div id="more" hidden><p>Rhine</p></div>',
            '<a href="#tab">Tab</a><div id="tab" style="display: none"><p>Rhine</p></div>',
            '<div role="tabpanel" hidden><p>Rhine</p></div>',
            '<p>It flows <span aria-hidden="true">as the Rhine</span></p>',
            '<div aria-hidden="true"><p>Rhine</p></div>',
            '<p aria-hidden="false">Rhine</p>',
            '<div aria-hidden="true"><h1>Go</h1><p>Rhine</p></div>',
            '<p><span style="display: none"><math><mi>Rhine</mi></math></span></p>',
        ],
    )
    def test_text_that_only_looks_hidden_is_read(self, seen: str) -> None:
        assert "Rhine" in convert(f"<html><body>{seen}<p>Elbe</body></html>".encode(), "a.html").text

    def test_code_in_a_sentence_does_not_end_it(self) -> None:
        page = f"<html><body><article><p>Call <code>sum(x)</code> now. {SENTENCE * 9}</p>"
        assert convert(page.encode(), "a.html").text.startswith("Call sum(x) now. The river")

    def test_a_table_that_holds_headings_is_for_layout(self) -> None:
        page = b"<html><body><table><tr><td>Menu</td><td><h1>Rivers</h1><p>The Rhine<br>flows.</p></td></tr>"
        document = convert(page, "a.html")
        assert document.text == "Menu\n\n# Rivers\n\nThe Rhine\nflows."
        assert heading_of(document, "Rhine") == "Rivers"

    def test_an_encoding_that_the_page_declares_counts(self) -> None:
        page = '<html><head><meta charset="windows-1251"></head><body><p>Волга</p></body></html>'
        assert convert(page.encode("cp1251"), "a.html").text == "Волга"

    def test_deep_and_unclosed_elements_end(self) -> None:
        page = b"<html><body>" + b"<table><tr><td><b>" * 50_000 + b"x"
        refusal(page, "a.html")


class TestEpub:
    def test_chapters_are_read_in_their_order_without_the_contents(self) -> None:
        book = made.epub({"z 1.xhtml": "<h1>One 🌊</h1><p>Intro.", "a.xhtml": f"<h1>Two</h1><p>{SENTENCE}"})
        document = convert(book, "a.epub")
        assert document.text == f"# One 🌊\n\nIntro.\n\n# Two\n\n{SENTENCE}"
        assert heading_of(document, "Yangtze") == "Two"

    def test_a_book_without_its_chapters_is_refused_saying_so(self) -> None:
        book = made.epub({"a.xhtml": "<p>x"})
        with zipfile.ZipFile(io.BytesIO(book)) as whole:
            rest = {name: whole.read(name) for name in whole.namelist() if not name.endswith("a.xhtml")}
        said = "has no text that can be read; 1 chapter is missing in the file"
        assert refusal(made.archive(rest), "a.epub") == f"a.epub: {said}"

    def test_a_protected_book_is_refused(self) -> None:
        encryption = '<e><CipherReference URI="OPS/a.xhtml"/></e>'
        book = made.epub({"a.xhtml": "<p>x"}, {"META-INF/encryption.xml": encryption})
        assert "DRM" in refusal(book, "a.epub")


class TestHostileArchives:
    @pytest.mark.parametrize("name", ARCHIVES)
    def test_a_zip_bomb_is_refused_before_it_is_unpacked(self, name: str) -> None:
        bomb = made.changed(FILES[name](), {"bomb.bin": bytes(257 * 1024 * 1024)})
        assert "unpacks to" in refusal(bomb, name)

    @pytest.mark.parametrize("name", ARCHIVES)
    def test_a_zip_bomb_that_lies_about_its_size_is_damaged(self, name: str) -> None:
        bomb = bytearray(made.changed(FILES[name](), {"bomb.bin": bytes(1024 * 1024)}))
        entry = bomb.rindex(b"PK\1\2")
        bomb[entry + 24 : entry + 28] = struct.pack("<I", 10)
        assert "damaged" in refusal(bytes(bomb), name)

    def test_too_many_files_or_tags_are_refused(self) -> None:
        assert "more than 20,000 files" in refusal(b"PK\3\4" + b"PK\1\2" * 20_001, "a.docx")
        many = "<a>" + "<b/>" * 3_000_000 + "</a>"
        assert "3,000,000 XML tags" in refusal(
            made.changed(made.word(), {"word/document.xml": many}), "a.docx"
        )

    @pytest.mark.parametrize(
        ("name", "member"),
        [
            ("a.docx", "word/document.xml"),
            ("a.pptx", "ppt/slides/slide1.xml"),
            ("a.xlsx", "xl/worksheets/sheet1.xml"),
            ("a.xlsx", "xl/sharedStrings.xml"),
            ("a.epub", "OPS/book.opf"),
            ("a.epub", "OPS/1.xhtml"),
        ],
    )
    def test_entities_are_not_expanded(self, name: str, member: str) -> None:
        levels = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
        xml = f'<!DOCTYPE a [<!ENTITY e0 "laughing">{levels}]><a>&e9;</a>'
        assert "laughing" not in text_or_refusal(made.changed(FILES[name](), {member: xml}), name)

    def test_other_archives_and_old_formats_are_named(self) -> None:
        assert "is a ZIP archive" in refusal(made.archive({"a.txt": "x"}), "a.zip")
        assert "older than 2007" in refusal(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a.doc")
        assert "is RTF" in refusal(rb"{\rtf1 hello}", "a.rtf")
        assert "is a binary file" in refusal(b"\x7fELF\0\0", "a.txt")
