"""Replaces the markup of a page whose text alone reads wrongly: raised text, ruby, formulas, merged cells."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final

from trustgraph_prompt.documents.elements import outermost
from trustgraph_prompt.documents.formulas import linear
from trustgraph_prompt.documents.raised_text import CONTEXT, Run, is_fraction, numerator, scripted
from trustgraph_prompt.documents.table_rows import MAX_COLUMNS, Cell, expanded, headed
from trustgraph_prompt.errors import ConfigError

MAX_CELLS: Final = 1_000_000
"""Of all tables of a page that have merged cells."""

SKIPPED: Final = ("script", "style", "template", "noscript", "svg", "math", "select", "textarea")
LEVELS: Final = {f"h{level}": level for level in range(1, 7)}
BLOCKS: Final = {
    *LEVELS,
    *("address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details"),
    *("dialog", "dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form"),
    *("header", "hgroup", "hr", "legend", "li", "main", "menu", "nav", "ol", "p", "pre", "section"),
    *("summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul"),
}
_MARKUP: Final = re.compile(
    r"<(?:su[bp]|r[tp]|(?:\w{1,20}:)?math|figcaption)\b|\b(?:col|row)span\s{0,9}=|noteref|\bhidden\b"
    r"|display\s{0,9}:\s{0,9}none",
    re.IGNORECASE,
)
_TAG: Final = re.compile(
    r"""<!--.*?(?:-->|\Z)
    | <(?:(?P<raw>script|style|textarea|title)\b|[a-z])[^\s/>]*+
      (?:[\s/]*+[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+"?|'[^']*+'?|[^\s>]*+))?+){0,20000}+
      (?P<more>[\s/]*+[^\s/>])?
      (?(raw)[^<]*+(?:<(?!/(?P=raw)\b)[^<]*+)*+)""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
"""A tag with its first 20,000 attributes, the beginning of one more, and what is no markup."""

_UNSEEN: Final = re.compile(
    r"(?<![\w-])(?:display\s{0,9}:\s{0,9}none|visibility\s{0,9}:\s{0,9}hidden)\b", re.IGNORECASE
)
_VISIBLE: Final = re.compile(r"(?<![\w-])visibility\s{0,9}:\s{0,9}visible\b", re.IGNORECASE)
_ICON: Final = re.compile(r"icon|symbol|glyph|\bfa[a-z]?\b", re.IGNORECASE)
_ONLY_HEARD: Final = re.compile(r"sr-?only|screen-?reader|visually-?hidden|off-?screen", re.IGNORECASE)
"""In the classes of text for programs that read aloud."""

_NO_XML: Final = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that a page may have, and that lxml refuses in a changed text."""

_MATH: Final = ("math", "m:math", "mml:math")
_CONTROLS: Final = "//@*[name() = 'aria-controls' or name() = 'href' or contains(name(), 'target')]"
"""The attributes that name what a click shows."""

_SCRIPTS: Final = {"sup": 1, "sub": -1}
_WRITTEN: Final = "written"
"""The tag of elements that became text, until it is stripped."""

_DROPPED: Final = "dropped"
"""The tag of elements that are hidden, until they are dropped."""

_MAX_ROWS: Final = 65_534
"""Of one cell, as in HTML's standard."""


def parsed(page: str) -> Any:
    """Return the tree of a page that is not blank. Raises `ConfigError` if its end would be lost."""
    tree, is_whole = _tree(page, huge=True)
    if not is_whole:
        raise ConfigError("its elements are nested more than 2,048 levels deep")
    return tree


def is_nested_deeply(page: str) -> bool:
    """Whether a parser with its usual limits would lose the end of a page."""
    return bool(page.strip()) and not _tree(page, huge=False)[1]


def _tree(page: str, *, huge: bool) -> tuple[Any, bool]:
    """The tree of a page, and whether all of the page is in it.

    libxml2 ends at 256 levels and at 10 MB in one text or attribute; if it may be `huge`, at 2,048 and 1 GB.
    """
    from lxml import html  # type: ignore[import-untyped]

    parser = html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=huge)
    tree = html.document_fromstring(page.encode("utf-8", "replace"), parser=parser)
    return tree, not parser.error_log.filter_from_fatals()


def words(element: Any) -> str:
    """Return the text of an element, with a space between its paragraphs."""
    for block in element.iter(*BLOCKS):
        block.text = " " + _NO_XML.sub("", block.text or "")
        block.tail = " " + _NO_XML.sub("", block.tail or "")
    return "".join(element.itertext())


def with_plain_markup(page: str) -> str:
    """Return a page whose text alone says what the page says; the same page if it has no such markup.

    Raises `ConfigError` if a tag has so many attributes that it takes minutes to parse.
    """
    if any(tag["more"] for tag in _TAG.finditer(page)):
        raise ConfigError("has a tag with more than 20,000 attributes")
    if not _MARKUP.search(page):
        return page
    from lxml import etree, html

    tree = parsed(page)
    etree.strip_elements(tree, "rt", "rp", "rtc", with_tail=False)
    for formula in list(outermost(tree, *_MATH)):
        _replace_formula(formula)
    _drop_hidden(tree)
    for element, before in list(_scripts(tree)):
        _replace_script(element, before)
    etree.strip_tags(tree, _WRITTEN, "ruby", "rb")
    for figure in list(tree.iter("figure", "figcaption")):  # the search for an article leaves them out
        figure.tag = "div" if figure.tag == "figure" else "p"
    _replace_merged_cells(tree)
    return str(html.tostring(tree, encoding="unicode"))


def _drop_hidden(tree: Any) -> None:
    """Drop what readers of a page never see, icons, and what is there twice.

    A script may show the whole page when it is loaded, and controls show tabs and answers: these are read.
    """
    from lxml import etree

    shown = _with_ancestors(tree.iter("h1", "main", "article"))
    shown |= _with_ancestors(each for each in tree.xpath("//*[@style]") if _VISIBLE.search(each.get("style")))
    controlled = {id.lstrip("#") for ids in tree.xpath(_CONTROLS) for id in ids.split()}
    for element in tree.xpath("/html/body//*[@hidden or @style or @aria-hidden]"):
        is_shown = element in shown or element.get("role") == "tabpanel" or element.get("id") in controlled
        if not is_shown and (_is_unseen(element) or _is_aside(element)):
            element.tag = _DROPPED
    etree.strip_elements(tree, _DROPPED, with_tail=False)


def _with_ancestors(elements: Iterable[Any]) -> set[Any]:
    found: set[Any] = set()
    for element in elements:
        while element is not None and element not in found:
            found.add(element)
            element = element.getparent()
    return found


def _is_unseen(element: Any) -> bool:
    is_hidden = element.get("hidden", "until-found").lower() != "until-found"
    return is_hidden or _UNSEEN.search(element.get("style", "")) is not None


def _is_aside(element: Any) -> bool:
    """Whether an element that only the eye meets adds nothing: an icon, a dialog, or what is said twice."""
    if element.get("aria-hidden") != "true":
        return False
    beside = (element.getprevious(), element.getnext())
    return (
        element.tag in ("i", "a", "button")
        or element.get("role") in ("dialog", "alertdialog", "tooltip")
        or _ICON.search(element.get("class", "")) is not None
        or any(each is not None and _ONLY_HEARD.search(each.get("class", "")) for each in beside)
    )


def _replace_formula(formula: Any) -> None:
    """Write a formula as text, without what shows it to those who see."""
    parent = formula.getparent()
    if parent is not None and parent.tag not in BLOCKS and _is_only_child(formula):
        parent.attrib.clear()  # it may be hidden
        for twin in (parent.getprevious(), parent.getnext()):
            if twin is not None and twin.get("aria-hidden") == "true":
                twin.clear(keep_tail=True)
    _write(formula, linear(formula) or formula.get("alttext", ""))


def _scripts(tree: Any) -> Iterator[tuple[Any, str]]:
    """Raised and lowered elements and references to notes, each with the text before it."""
    from lxml import etree

    before = ""
    walker = etree.iterwalk(tree, events=("start", "end"))
    for event, element in walker:
        if element.tag in BLOCKS or element.tag == "br":
            before = ""
        if event == "end":
            before += element.tail or ""
        elif element.tag in _SCRIPTS or _is_noteref(element):
            yield element, before
            before += "".join(element.itertext())
            walker.skip_subtree()
        else:
            before += element.text or ""
        before = before[-CONTEXT:]


def _replace_script(element: Any, before: str) -> None:
    part, after, tail = _run(element), element.getnext(), Run(element.tail or "")
    if after is not None and after.tag == "sub" and is_fraction([part, tail, _run(after)]):
        element.tail, after.tag = "/", _WRITTEN
        _write(element, numerator(part.text, before))
    elif element.find(".//br") is None:
        _write(element, scripted(part, before))


def _write(element: Any, text: str) -> None:
    element.clear(keep_tail=True)
    element.tag, element.text = _WRITTEN, _NO_XML.sub("", text)


def _run(element: Any) -> Run:
    text = "".join(element.itertext())
    level = _SCRIPTS.get(element.tag, int(_is_noteref(element)))
    around = element.getparent()
    links = [*element.iter("a")]
    if around is not None and around.tag == "a" and _is_only_child(element) and not element.tail:
        links.append(around)
    is_reference = any("#" in link.get("href", "") for link in links)
    return Run(text, level, level > 0 and is_reference)


def _is_only_child(element: Any) -> bool:
    """Whether an element begins its parent, and no other element follows: counting them all takes time."""
    alone = element.getprevious() is None and element.getnext() is None
    return alone and not (element.getparent().text or "").strip()


def _is_noteref(element: Any) -> bool:
    return element.tag == "a" and "noteref" in f"{element.get('epub:type')} {element.get('role')}"


def _replace_merged_cells(tree: Any) -> None:
    """Write each merged cell into each of its rows and columns, and several header rows as one."""
    from lxml import etree

    count = 0

    def counted(rows: Iterable[list[Cell]]) -> Iterator[list[Cell]]:
        nonlocal count
        for cells in rows:
            count += sum(cell.columns for cell in cells)
            if count > MAX_CELLS:
                raise ConfigError(f"its merged cells stand for more than {MAX_CELLS:,} cells; split it")
            yield cells

    for table in list(tree.iter("table")):
        for_layout = next(table.iterdescendants("table", *LEVELS), None) is not None
        if for_layout or not table.xpath("boolean(.//*[@colspan > 1 or @rowspan > 1])"):
            continue
        etree.strip_elements(table, *SKIPPED, with_tail=False)
        rows = list(outermost(table, "tr"))
        texts = list(headed(expanded(counted(_cells(rows)))))
        for row, cells in zip(rows, texts, strict=True):
            row.clear(keep_tail=True)
            for text in cells:
                etree.SubElement(row, "td").text = _NO_XML.sub("", text)


def _cells(rows: Iterable[Any]) -> Iterator[list[Cell]]:
    """The cells of rows, with parts of the cells above that reach into them."""
    above: dict[int, tuple[int, int]] = {}  # by column: the columns and the rows below of a cell
    for row in rows:
        below: dict[int, tuple[int, int]] = {}
        cells: list[Cell] = []
        column, last = 0, max(above, default=-1)
        own = deque(row.iterchildren("td", "th"))
        while own or column <= last:
            if column in above:
                columns, rest = above[column]
                cells.append(Cell(None, columns))
            elif own:
                element = own.popleft()
                for line_break in element.iter("br"):
                    line_break.tail = " " + _NO_XML.sub("", line_break.tail or "")
                rest = _span(element, "rowspan", _MAX_ROWS)
                cells.append(Cell(words(element).strip(), _span(element, "colspan", MAX_COLUMNS)))
            else:
                rest = 1
                cells.append(Cell(""))
            if rest > 1:
                below[column] = cells[-1].columns, rest - 1
            column += cells[-1].columns
        yield cells
        above = below


def _span(element: Any, name: str, most: int) -> int:
    value = element.get(name, "").strip()
    return max(1, min(int(value[:9]), most)) if value.isascii() and value.isdigit() else 1
