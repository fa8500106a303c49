"""The text says what a file shows: raised text, readings, symbols, merged cells; the rest is noted."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import docx
import openpyxl
import pptx
import pytest
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from openpyxl.comments import Comment
from pptx.util import Cm

from tests.support import document_files as made
from tests.support.document_files import SENTENCE, word_of, word_run, word_table
from tests.support.guides import guide_page
from trustgraph_prompt.documents import Document, convert
from trustgraph_prompt.documents.formats import SUFFIXES
from trustgraph_prompt.errors import ConfigError

RAISED = '<w:vertAlign w:val="superscript"/>'
LOWERED = '<w:vertAlign w:val="subscript"/>'
RUBY = "<ruby>東<rp>(</rp><rt>とう</rt><rp>)</rp>京<rt>きょう</rt></ruby>"
TABLE = (
    "<table><tr><th rowspan=2>River<th colspan=2>2020</tr><tr><th>Sales<th>Cost</tr>"
    "<tr><td rowspan=2>Rhine<td>1<td>2</tr><tr><td>3<td>4</tr></table>"
)
ROWS = "River | 2020 > Sales | 2020 > Cost\nRhine | 1 | 2\nRhine | 3 | 4"


def word(body: str) -> Document:
    return convert(word_of(body), "a.docx")


def paragraph(*runs: str) -> str:
    return word(f"<w:p>{''.join(runs)}</w:p>").text


def page(body: str) -> Document:
    return convert(f"<!doctype html><html><body>{body}</body></html>".encode(), "a.html")


def article(body: str) -> Document:
    """A page in which the article is found."""
    text = f"<p>{SENTENCE * 9}</p>"
    return page(f"<nav>Menu</nav><article><h1>Rivers</h1>{text}{body}{text}</article><footer>x</footer>")


def slides(saved: Any) -> Document:
    data = io.BytesIO()
    saved.save(data)
    return convert(data.getvalue(), "a.pptx")


def sheet(rows: Any, *merged: str) -> Document:
    book = openpyxl.Workbook()
    made_sheet: Any = book.active
    for row in rows:
        made_sheet.append(row)
    for area in merged:
        made_sheet.merge_cells(area)
    data = io.BytesIO()
    book.save(data)
    return convert(data.getvalue(), "a.xlsx")


class TestRaisedText:
    def test_word_writes_powers_formulas_of_chemistry_and_fractions(self) -> None:
        powers = (
            word_run("10"),
            word_run("6", RAISED),
            word_run(" H"),
            word_run("2", LOWERED),
            word_run("O "),
        )
        assert (
            paragraph(*powers, word_run("1", RAISED), word_run("/"), word_run("20", LOWERED))
            == "10⁶ H₂O 1/20"
        )
        assert paragraph(
            word_run("1"), word_run("st", RAISED), word_run(" Rhine"), word_run("3", RAISED)
        ) == ("1st Rhine [3]")

    def test_a_style_of_word_that_builds_on_another_one_raises_text(self) -> None:
        styles = (
            '<w:styles xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">'
            f'<w:style w:styleId="a"><w:name w:val="footnote reference"/><w:rPr>{RAISED}</w:rPr></w:style>'
            '<w:style w:styleId="b"><w:name w:val="b"/><w:basedOn w:val="a"/></w:style></w:styles>'
        )
        runs = [("10", ""), ("6", '<w:rStyle w:val="b"/>'), (" in 1998", ""), ("3", '<w:rStyle w:val="a"/>')]
        data = word_of(f"<w:p>{''.join(word_run(*run) for run in runs)}</w:p>")
        document = convert(made.changed(data, {"word/styles.xml": styles}), "a.docx")
        assert document.text == "10⁶ in 1998 [3]"

    def test_a_formula_of_word_is_a_line(self) -> None:
        half = "<m:f><m:num><m:r><m:t>1</m:t></m:r></m:num><m:den><m:r><m:t>20</m:t></m:r></m:den></m:f>"
        assert paragraph(word_run("a "), f"<m:oMath>{half}</m:oMath>", word_run(" b")) == "a 1/20 b"

    @pytest.mark.parametrize("shown", [page, article])
    def test_a_page_writes_powers_and_footnotes(self, shown: Any) -> None:
        raised = "10<sup>6</sup> H<sub>2</sub>O <b>Rhine</b><sup>3</sup> 1<sup>st</sup> M<sup>me</sup> "
        linked = '1998<sup><a href="#n4">4</a></sup> Ob<a role="doc-noteref" href="n.xhtml#5">5</a> '
        text = shown(f"<p>{raised}{linked}5<sup>1</sup>&frasl;<sub>2</sub></p>").text
        assert "10⁶ H₂O Rhine [3] 1st Mme 1998 [4] Ob [5] 5 1/2" in text

    @pytest.mark.parametrize("shown", [page, article])
    def test_a_formula_of_a_page_is_a_line_without_its_twin_for_the_eye(self, shown: Any) -> None:
        formula = "<math><mfrac><mn>1</mn><mn>20</mn></mfrac></math>"
        twins = f'<span style="display:none">{formula}</span><span aria-hidden="true">1 20</span>'
        assert "a 1/20 b 1/20 c" in shown(f"<p>a {formula} b <span>{twins}</span> c</p>").text

    def test_a_book_writes_powers(self) -> None:
        assert convert(made.epub({"1.xhtml": f"<p>10<sup>6</sup> {RUBY}"}), "a.epub").text == "10⁶ 東京"

    def test_a_slide_writes_powers_and_symbols(self) -> None:
        show = pptx.Presentation()
        text = show.slides.add_slide(show.slide_layouts[6]).shapes.add_textbox(0, 0, 9, 9).text_frame
        for content, name, value in (("10", "", ""), ("6", "baseline", "30000"), (" \uf062", "", "")):
            run = text.paragraphs[0].add_run()
            run.text = content
            if name:
                run._r.get_or_add_rPr().set(name, value)
        run.font.name = "Symbol"
        assert slides(show).text == "10⁶ β"

    def test_a_cell_of_excel_writes_powers(self) -> None:
        main = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
        raised = '<r><rPr><vertAlign val="superscript"/></rPr><t>2</t></r>'
        strings = f"<sst {main}><si><r><t>km</t></r>{raised}</si></sst>"
        rows = '<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1"><v>5</v></c></row>'
        types = made.retyped(
            made.excel({"s": [["x"]]}),
            "</Types>",
            '<Override PartName="/xl/sharedStrings.xml" ContentType="application/vnd.openxmlformats-'
            'officedocument.spreadsheetml.sharedStrings+xml"/></Types>',
        )
        files = {
            "xl/sharedStrings.xml": strings,
            "xl/worksheets/sheet1.xml": f"<worksheet {main}><sheetData>{rows}</sheetData></worksheet>",
        }
        assert convert(made.changed(types, files), "a.xlsx").text == "km² | 5"


class TestReadings:
    @pytest.mark.parametrize("shown", [page, article])
    def test_a_page_leaves_out_ruby(self, shown: Any) -> None:
        assert "は東京です" in shown(f"<p>は{RUBY}です</p>").text

    def test_word_leaves_out_ruby(self) -> None:
        reading = f"<w:rt>{word_run('とう')}</w:rt><w:rubyBase>{word_run('東')}</w:rubyBase>"
        assert paragraph(f"<w:r><w:ruby>{reading}</w:ruby></w:r>", word_run("京")) == "東京"


class TestSymbols:
    def test_symbol_and_wingdings_are_read_by_their_tables(self) -> None:
        symbols = [("Symbol", "F062"), ("Symbol", "F0B3"), ("Symbol", "00B0"), ("Symbol", "F06D")]
        arrows = [("Wingdings", "F0E0"), ("Wingdings", "F0FC"), ("Arial", "2264")]
        made_of = "".join(f'<w:sym w:font="{font}" w:char="{code}"/>' for font, code in symbols + arrows)
        assert paragraph(f"<w:r>{made_of}</w:r>") == "β≥°μ→✔≤"

    def test_text_in_the_font_symbol_is_read_by_its_table(self) -> None:
        assert (
            paragraph(word_run("5 \uf06d\uf0b0", '<w:rFonts w:ascii="Symbol" w:hAnsi="Symbol"/>')) == "5 μ°"
        )

    def test_a_symbol_without_a_character_is_noted_with_its_number(self) -> None:
        document = word('<w:p><w:r><w:t>x </w:t><w:sym w:font="Webdings" w:char="F061"/></w:r></w:p>')
        assert document.notes == ("1 private-use character in the text: U+F061",)

    def test_characters_of_a_private_area_are_noted_in_every_format(self) -> None:
        document = convert(made.pdf(["su\ue000x", "a\ue000"]), "a.pdf")
        assert document.notes == ("2 private-use characters in the text: U+E000",)


class TestWhatIsLeftOut:
    def test_a_caption_of_an_article_is_read_and_an_aside_is_noted(self) -> None:
        figure = "<figure><img src=x><figcaption>Fig. 1: The Rhine at Basel.</figcaption></figure>"
        document = article(f"{figure}<aside><p>An aside about the Elbe.</p></aside>")
        assert "\n\nFig. 1: The Rhine at Basel.\n\n" in document.text
        assert document.notes == ("1 aside not read",)

    def test_values_of_a_form_and_free_text_of_a_pdf_are_read_and_comments_noted(self) -> None:
        annotations = [
            "<< /Subtype /Widget /T (name) /FT /Tx /V (Ann Lee) >>",
            "<< /Subtype /Widget /T (agree) /FT /Btn /V /Yes >>",
            "<< /Subtype /Widget /T (no) /FT /Btn /V /Off >>",
            *["<< /Subtype /Widget /Parent 5 0 R >>"] * 2,
            "<< /Subtype /Widget /T (to) /Parent 11 0 R /V [(de) (fr)] >>",
            "<< /Subtype /FreeText /Contents (Approved) >>",
            "<< /Subtype /Text /Contents (A comment) >>",
        ]
        document = convert(made.pdf_with(annotations), "a.pdf")
        assert document.text.startswith("Hello\nname: Ann Lee\nagree: Yes\ncolour: blue\n")
        assert document.text.endswith("to: de, fr\nApproved")
        assert document.notes == ("1 comment not read",)
        blank = convert(made.pdf_with(annotations[:1], "10 10 5 5 re f"), "a.pdf")
        assert (blank.text, blank.notes) == ("name: Ann Lee", ())

    @pytest.mark.parametrize(
        ("field", "shown"),
        [
            ("/T (path) /FT /Tx /V (/usr/bin)", "path: /usr/bin"),
            ("/T (switch) /FT /Tx /V (Off)", "switch: Off"),
            ("/FT /Tx /V (Ann)", "Ann"),
            ("/T (land) /FT /Ch /V (DE) /Opt [[(DE) (Germany)] [(FR) (France)]]", "land: Germany"),
        ],
    )
    def test_a_value_of_a_form_reads_as_it_is_shown(self, field: str, shown: str) -> None:
        annotations = [
            f"<< /Subtype /Widget {field} >>",
            "<< /Subtype /Widget /T (key) /FT /Tx /F 2 /V (hidden) >>",
        ]
        assert convert(made.pdf_with(annotations), "a.pdf").text == f"Hello\n{shown}"

    def test_a_damaged_form_does_not_lose_its_page(self) -> None:
        document = convert(made.pdf_with(["<< /Subtype /Widget /Parent 7 >>"]), "a.pdf")
        assert document.text == "Hello"
        assert document.notes == ("1 of 1 pages have damaged forms or comments: 1",)

    def test_embedded_pages_of_word_are_read_and_other_documents_noted(self) -> None:
        saved = docx.Document()
        for number, kind, content in (
            (1, "text/html", b"<p>Embedded 10<sup>6</sup>"),
            (2, "application/rtf", b"x"),
        ):
            part = Part(PackURI(f"/word/chunk{number}.x"), kind, content, saved.part.package)
            chunk = OxmlElement("w:altChunk")
            chunk.set(qn("r:id"), saved.part.relate_to(part, "http://schemas.openxmlformats.org/x/aFChunk"))
            saved.element.body.insert(0, chunk)
        data = io.BytesIO()
        saved.save(data)
        document = convert(data.getvalue(), "a.docx")
        assert document.text == "Embedded 10⁶"
        assert document.notes == ("an embedded document is not read: /word/chunk2.x (application/rtf)",)

    def test_comments_and_charts_and_text_boxes_are_noted(self) -> None:
        book = openpyxl.Workbook()
        cell: Any = book.worksheets[0]["A1"]
        cell.value, cell.comment = "x", Comment("Why?", "Ann")
        data = io.BytesIO()
        book.save(data)
        box = f"<xdr:wsDr>{'<xdr:sp><xdr:txBody><a:p/></xdr:txBody></xdr:sp>' * 2}</xdr:wsDr>"
        files = {"xl/drawings/drawing1.xml": box, "xl/charts/chart1.xml": "<c:chartSpace/>"}
        document = convert(made.changed(data.getvalue(), files), "a.xlsx")
        assert document.notes == ("1 comment not read", "2 text boxes not read", "1 chart not read")

    def test_comments_of_word_are_noted(self) -> None:
        comments = {
            "word/comments.xml": '<w:comments><w:comment w:id="1"/><w:comment w:id="2"/></w:comments>'
        }
        assert convert(made.changed(made.word(), comments), "a.docx").notes == ("2 comments not read",)

    def test_a_slide_that_has_forms_for_older_programs_is_read_once(self) -> None:
        show = pptx.Presentation()
        box = show.slides.add_slide(show.slide_layouts[6]).shapes.add_textbox(0, 0, 9, 9)
        box.text_frame.text = "The Rhine."
        tree, shape = box._element.getparent(), box._element
        compatible = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
        alternatives = tree.makeelement(f"{compatible}AlternateContent")
        for name in ("Choice", "Fallback"):
            alternatives.append(alternatives.makeelement(compatible + name))
        tree.append(alternatives)
        alternatives[0].append(shape)
        assert slides(show).text == "The Rhine."


class TestVariants:
    def test_the_guide_names_the_extensions_that_are_read(self) -> None:
        guide = guide_page("documents.md").read_text("utf-8")
        columns = [line.split("|")[2] for line in guide.splitlines() if re.match(r"\| [^|]+ \| `\.", line)]
        named = re.findall(r"`(\.\w+)`", " ".join(columns))
        assert sorted(named) == sorted(SUFFIXES)

    @pytest.mark.parametrize(
        ("name", "data"),
        [
            ("a.docx", made.word()),
            ("a.pptx", made.powerpoint()),
            ("a.xlsx", made.excel({"s": [["a", "b"], [1, 2]]})),
        ],
    )
    def test_strict_open_xml_is_read(self, name: str, data: bytes) -> None:
        document = convert(made.strict(data), name)
        assert document == convert(data, name)

    @pytest.mark.parametrize(
        ("name", "usual", "other"),
        [
            ("a.docm", *("wordprocessingml.document", "ms-word.document.macroEnabled")),
            ("a.dotx", *("wordprocessingml.document", "wordprocessingml.template")),
            ("a.dotm", *("wordprocessingml.document", "ms-word.template.macroEnabledTemplate")),
            ("a.pptm", *("presentationml.presentation", "ms-powerpoint.presentation.macroEnabled")),
            ("a.ppsx", *("presentationml.presentation", "presentationml.slideshow")),
            ("a.potx", *("presentationml.presentation", "presentationml.template")),
            ("a.potm", *("presentationml.presentation", "ms-powerpoint.template.macroEnabled")),
            ("a.xlsm", *("spreadsheetml.sheet", "ms-excel.sheet.macroEnabled")),
            ("a.xltx", *("spreadsheetml.sheet", "spreadsheetml.template")),
        ],
    )
    def test_templates_and_files_with_macros_are_read(self, name: str, usual: str, other: str) -> None:
        read: dict[str, Callable[[], bytes]] = {
            "d": made.word,
            "p": made.powerpoint,
            "x": lambda: made.excel({"s": [["a", "b"], [1, 2]]}),
        }
        data = read[name[2]]()
        prefix = "" if other.startswith("ms-") else "openxmlformats-officedocument."
        changed = made.retyped(
            data,
            f"vnd.openxmlformats-officedocument.{usual}.main+xml",
            f"vnd.{prefix}{other}.main+xml",
        )
        assert changed != data
        assert convert(changed, name).text == convert(data, name).text


class TestMergedCells:
    @pytest.mark.parametrize("shown", [page, article])
    def test_a_page_repeats_merged_cells_and_joins_header_rows(self, shown: Any) -> None:
        assert ROWS in shown(TABLE).text

    def test_word_repeats_merged_cells_and_joins_header_rows(self) -> None:
        wide, first, more = '<w:gridSpan w:val="2"/>', '<w:vMerge w:val="restart"/>', "<w:vMerge/>"
        table = word_table(
            [("Rivers", '<w:gridSpan w:val="3"/>')],
            [("River", first), ("2020", wide)],
            [("", more), ("Sales", ""), ("Cost", "")],
            [("Rhine", first), ("1", ""), ("2", "")],
            [("", more), ("3", ""), ("4", "")],
        )
        assert word(table).text == f"Rivers\n{ROWS}"

    def test_a_slide_repeats_merged_cells_and_joins_header_rows(self) -> None:
        show = pptx.Presentation()
        shapes = show.slides.add_slide(show.slide_layouts[6]).shapes
        table = shapes.add_table(4, 3, 0, 0, Cm(5), Cm(5)).table
        for number, text in enumerate(
            ("River", "2020", "", "", "Sales", "Cost", "Rhine", "1", "2", "", "3", "4")
        ):
            table.cell(number // 3, number % 3).text = text
        for first, last in (((0, 0), (1, 0)), ((0, 1), (0, 2)), ((2, 0), (3, 0))):
            table.cell(*first).merge(table.cell(*last))
        assert slides(show).text == ROWS

    def test_a_sheet_repeats_merged_cells_and_joins_header_rows(self) -> None:
        rows = [["River", "2020", None], [None, "Sales", "Cost"], ["Rhine", 1, 2], [None, 3, 4]]
        document = sheet(rows, "A1:A2", "B1:C1", "A3:A4")
        assert document.text == (
            "River: Rhine\n2020 > Sales: 1\n2020 > Cost: 2\n\nRiver: Rhine\n2020 > Sales: 3\n2020 > Cost: 4"
        )

    def test_a_header_above_other_values_is_one_row(self) -> None:
        rows = [["Name", None, "City"], ["Ann", "Lee", "Paris"], ["Bob", "Ray", "Rome"]]
        assert sheet(rows, "A1:B1").text.startswith("Name: Ann\nName: Lee\nCity: Paris")

    @pytest.mark.parametrize("merged", [(), ("A1:C1",)])
    def test_titles_above_a_table_are_headings(self, merged: tuple[str, ...]) -> None:
        rows = [["Rivers", None, None], ["by Ann"], [], ["River", "2019", "2020"], ["Rhine", 1, 2]]
        document = sheet(rows, *merged)
        assert document.text == "Rivers\n\nby Ann\n\nRiver: Rhine\n2019: 1\n2020: 2"
        assert document.place(document.records[0][0]).heading == "Sheet > Rivers > by Ann"
        assert len(document.records) == 1

    @pytest.mark.parametrize(
        "rows", [[["name"], ["Ann"], ["Bob"]], [["River"], ["Rhine", 1233], ["Elbe", 1094]]]
    )
    def test_header_above_values_is_no_title(self, rows: list[list[Any]]) -> None:
        assert sheet(rows).text.startswith(f"{rows[0][0]}: {rows[1][0]}")

    def test_a_row_that_is_blank_but_for_merged_cells_is_left_out(self) -> None:
        rows = [["a", "b"], ["Rhine", 1], [None, None], [None, 2]]
        assert sheet(rows, "A2:A4").text == "a: Rhine\nb: 1\n\na: Rhine\nb: 2"

    def test_a_table_for_layout_is_no_grid(self) -> None:
        body = (
            "<table><tr><td colspan=2>Menu</td><td><h1>Rivers</h1><p>The Rhine flows.</p></td></tr></table>"
        )
        assert page(body).text == "Menu\n\n# Rivers\n\nThe Rhine flows."


class TestCsv:
    @pytest.mark.parametrize("first", ["sep=;", '"sep=;"', "SEP=;"])
    def test_a_first_line_may_state_the_delimiter(self, first: str) -> None:
        assert convert(f"{first}\r\na;b\r\n1,2;3\r\n".encode(), "a.csv").text == "a: 1,2\nb: 3"

    def test_a_quote_may_be_escaped_by_a_backslash(self) -> None:
        text = 'a,b\n"He said \\"hi, you\\" to",5\n"C:\\temp\\\\",6\n'
        assert convert(text.encode(), "a.csv").text == 'a: He said "hi, you" to\nb: 5\n\na: C:\\temp\\\nb: 6'

    def test_a_quote_may_be_escaped_in_a_cell_of_several_lines(self) -> None:
        text = 'a,b\n"one\nsay \\"x\\" there",5\n'
        assert convert(text.encode(), "a.csv").text == 'a: one\nsay "x" there\nb: 5'

    @pytest.mark.parametrize(("cell", "value"), [('"C:\\dir\\"', "C:\\dir\\"), ('5\\" pipe', '5\\" pipe')])
    def test_a_backslash_at_the_end_of_a_cell_or_without_quotes_is_one(self, cell: str, value: str) -> None:
        assert convert(f"a,b\n{cell},5\n".encode(), "a.csv").text == f"a: {value}\nb: 5"

    def test_a_title_is_a_heading(self) -> None:
        document = convert(b"Rivers;;\nRiver;km;in\nRhine;1233;NL\n", "a.csv")
        assert document.text == "Rivers\n\nRiver: Rhine\nkm: 1233\nin: NL"


class TestHostileCells:
    def refusal(self, data: bytes, name: str) -> str:
        with pytest.raises(ConfigError) as caught:
            convert(data, name)
        return str(caught.value)

    def test_cells_of_a_page_are_as_wide_as_the_standard_says(self) -> None:
        assert page("<table><tr><td colspan=100000>x<td>y</table>").text == "x | " * 1_000 + "y"

    def test_thousands_of_raised_texts_in_a_link_are_read(self) -> None:
        assert page(f"<a href='#x'>{'x<sup>2</sup>' * 20_000}</a>").text == "x²" * 20_000

    @pytest.mark.parametrize("control", ["\x0e", "&#14;", "\x01", "&#xd800;", "\ufffe"])
    def test_control_characters_in_markup_do_not_stop_a_page(self, control: str) -> None:
        formula = f"<math><mi>x{control}</mi><mfrac><mn>1{control}</mn><mn>2</mn></mfrac></math>"
        document = page(f"<p>10<sup>2{control}</sup> {formula}</p><table><tr><td colspan=2>x{control}<td>y")
        assert document.text.startswith("10")
        assert document.text.endswith("y")

    def test_control_characters_around_a_formula_do_not_stop_a_page(self) -> None:
        fenced = '<mfenced open="\x0f" close="\x0e"><mi>x</mi></mfenced>'
        assert page(f"<p>a <math>{fenced}</math></p>").text == "a x"

    def test_merged_cells_of_a_page_stand_for_no_more_than_a_million(self) -> None:
        body = f"<html><table><tr><td colspan=1000 rowspan=65534>x<td>y{'<tr><td>z' * 1_001}</table>"
        assert "stand for more than 1,000,000 cells" in self.refusal(body.encode(), "a.html")

    def test_blank_rows_beside_a_merged_cell_of_a_page_count(self) -> None:
        body = f"<html><table><tr>{'<td>' * 2_000}<td rowspan=65534>x{'<tr>' * 1_000}</table>"
        assert "stand for more than 1,000,000 cells" in self.refusal(body.encode(), "a.html")

    def test_long_merged_cells_of_word_are_refused(self) -> None:
        wide = '<w:gridSpan w:val="100000"/>'
        data = word_of(word_table([("x" * 100_000, wide), ("y", "")]))
        assert "stand for more than 67,108,864 characters" in self.refusal(data, "a.docx")

    def test_merged_cells_of_a_sheet_cost_only_the_rows_that_it_has(self) -> None:
        main = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
        row = '<row r="1"><c r="A1"><v>1</v></c></row><row r="9"><c r="A9"><v>2</v></c></row>'
        area = '<mergeCells><mergeCell ref="B1:XFD1048576"/></mergeCells>'
        xml = f"<worksheet {main}><sheetData>{row}</sheetData>{area}</worksheet>"
        data = made.changed(made.excel({"s": [[1]]}), {"xl/worksheets/sheet1.xml": xml})
        assert convert(data, "a.xlsx").text == "1: 2"
