"""Finds the headings of Markdown, whose text stays as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from trustgraph_prompt.documents.document import Place, Span
from trustgraph_prompt.documents.writer import Headings

WITH_HEADINGS: Final = frozenset({"markdown", "html", "docx", "pptx", "epub"})
"""Formats whose text has Markdown's headings."""

_PARTS: Final = re.compile(
    r"""\A---[ \t]*\r?\n (?:(?!(?:---|\.\.\.)[ \t]*\r?$) .*\n)*+ (?:---|\.\.\.)  # what precedes the text
    | ^[ ]{0,3} (?P<fence>`{3,}+(?!.*`)|~{3,}+) .*                                # code
      (?:\n (?![ ]{0,3}(?P=fence)[`~]*[ \t]*\r?$) .*)*+ (?:\n.*)?
    | ^[ ]{0,3} (?P<marks>\#{1,6}) (?P<title>[ \t].*|\r?$)
    | ^(?!\t|[ ]{4}|[ \t]*(?:[-*+>|]|\d{1,9}[.)]\s|\r?$)) (?P<above>.*)
      \n [ ]{0,3} (?P<line>=+|-+) [ \t]*\r?$""",
    re.MULTILINE | re.VERBOSE,
)
"""Headings, and what holds none. `---` below an item of a list, a quote or a row is a rule."""

_CLOSING_MARKS: Final = re.compile(r"(?<!\S)#+\Z")


def markdown_places(text: str) -> tuple[Place, ...]:
    """Return the places of the headings; those in code fences and before the text's end matter are none."""
    headings = Headings()
    places = []
    for part in _PARTS.finditer(text):
        if part["marks"]:
            headings.enter(len(part["marks"]), _CLOSING_MARKS.sub("", part["title"].strip()))
        elif part["line"]:
            headings.enter(1 if part["line"].startswith("=") else 2, part["above"])
        else:
            continue
        places.append(Place(part.start(), None, str(headings) or None))
    return tuple(places)


def heading_spans(text: str) -> Iterator[Span]:
    """Yield where the headings stand, with their marks."""
    return (part.span() for part in _PARTS.finditer(text) if part["marks"] or part["line"])
