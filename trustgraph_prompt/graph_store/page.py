"""Writes a graph as one HTML file: the graph beside its documents, without anything loaded from elsewhere.

`page/` in the repository holds the sources of the page, and builds `page_files/page.html` of them.
"""

from __future__ import annotations

import html
import json
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any, Final

from trustgraph_prompt.documents.markdown import WITH_HEADINGS, heading_spans
from trustgraph_prompt.graph_store.node_positions import layout
from trustgraph_prompt.graph_store.same_names import things_named
from trustgraph_prompt.graph_store.view import Fact, GraphView, SourceDocument, SourcePassage, Thing
from trustgraph_prompt.replaced_file import replaced

TEMPLATE: Final = Path(__file__).parent / "page_files" / "page.html"
_BEYOND_ONE_UNIT: Final = re.compile("[\U00010000-\U0010ffff]")


def write_page(view: GraphView, out: Path, title: str | None = None, incomplete: str = "") -> None:
    """Write the page of a graph to `out`, by default under the name of its file if it has one document.

    `incomplete` says at the top what the graph lacks, and so does the page if nothing was looked up. The file
    replaces the previous one at the end. Raises `StoreError`.
    """
    if view.facts and not any(fact.is_looked_up or fact.passages for fact in view.facts):
        incomplete = f"{incomplete} No name of any fact was looked up in the texts.".lstrip()
    head, tail = TEMPLATE.read_text("utf-8").split("{{data}}")
    head = head.replace("{{incomplete}}", html.escape(incomplete))
    head = head.replace("{{title}}", html.escape(title or _title(view)))
    data = json.dumps(_Content(view).as_json(), ensure_ascii=False, separators=(",", ":"))
    # No `<`, so nothing in the data ends the element that holds it.
    page = head + data.replace("<", "\\u003c") + tail
    with replaced(out) as part:
        part.write_bytes(page.encode(errors="replace"))


def _title(view: GraphView) -> str:
    files = [file for document in view.documents.values() for file in document.files]
    return PurePath(files[0]).name if len(view.documents) == 1 and files else "Knowledge graph"


class _Content:
    """The content of the page, as `page/src/data.js` reads it: texts once, references as numbers."""

    def __init__(self, view: GraphView) -> None:
        self._view = view
        self._strings: defaultdict[str, int] = defaultdict(lambda: len(self._strings))
        self._passages: defaultdict[SourcePassage, int] = defaultdict(lambda: len(self._passages))
        self._things = {iri: number for number, iri in enumerate(view.things)}
        self._documents = {iri: number for number, iri in enumerate(view.documents)}
        self._offsets = [_Utf16(document.text) for document in view.documents.values()]
        self._linked = _linked_values(view)

    def as_json(self) -> dict[str, Any]:
        """Return the content. Texts and passages get their numbers in this order, those of passages last."""
        view, strings, passages = self._view, self._strings, self._passages
        places = layout(len(self._things), self._edges())
        return {
            "documents": [*map(self._document, view.documents.values(), self._offsets)],
            "things": [self._thing(*each) for each in zip(view.things.values(), places, strict=True)],
            "facts": [self._fact(each) for each in view.facts],
            "refusals": [
                [passages[each.passage], strings[each.prompt], each.object, strings[each.reason]]
                for each in view.refusals
            ],
            "cuts": [[passages[each.passage], strings[each.prompt]] for each in view.cuts],
            "passages": [self._passage(each) for each in passages],
            "strings": list(strings),
        }

    def _edges(self) -> Iterator[tuple[int, int]]:
        for fact in self._view.facts:
            if fact.is_relation or fact in self._linked:
                yield self._things[fact.subject], self._things[self._linked.get(fact, fact.object)]

    def _document(self, document: SourceDocument, offset: _Utf16) -> list[Any]:
        spans = heading_spans(document.text) if document.format in WITH_HEADINGS else ()
        headings = [(offset[start], offset[end]) for start, end in spans]
        return [document.files or (document.iri,), document.text, headings]

    def _thing(self, thing: Thing, place: tuple[float, float]) -> list[Any]:
        types = [self._strings[name] for name in thing.types]
        x, y = (round(each, 1) for each in place)
        return [thing.name, types, x, y, thing.iris, [name for name in thing.names if name != thing.name]]

    def _fact(self, fact: Fact) -> list[Any]:
        return [
            self._things[fact.subject],
            self._strings[fact.predicate],
            self._things[fact.object] if fact.is_relation else self._strings[fact.object],
            fact.is_relation,
            [self._passages[each] for each in fact.passages],
            [self._strings[each] for each in fact.prompts],
            [self._passages[each] for each in fact.chunks],
            fact.is_ungrounded,
            fact.is_weak,
            self._things[self._linked[fact]] if fact in self._linked else None,
            fact.is_looked_up,
        ]

    def _passage(self, passage: SourcePassage) -> list[Any]:
        number = self._documents[passage.document]
        start, end = self._offsets[number][passage.start], self._offsets[number][passage.end]
        return [number, start, end, passage.page, passage.heading and self._strings[passage.heading]]


def _linked_values(view: GraphView) -> dict[Fact, str]:
    """The IRIs of things, by the facts whose value is their name though the model called it a text."""
    texts = [fact for fact in view.facts if not fact.is_relation]
    named = things_named((fact.object for fact in texts), view.things.values())
    return {
        fact: named[fact.object]
        for fact in texts
        if named.get(fact.object, fact.subject) != fact.subject
        and fact.object not in view.things[fact.subject].types
    }


class _Utf16:
    """Converts offsets in code points to offsets in UTF-16 code units, which JavaScript counts."""

    def __init__(self, text: str) -> None:
        self._pairs = [match.start() for match in _BEYOND_ONE_UNIT.finditer(text)]
        self._length = len(text)

    def __getitem__(self, offset: int) -> int:
        offset = min(offset, self._length)  # a store may hold what somebody else loaded
        return offset + bisect_left(self._pairs, offset)
