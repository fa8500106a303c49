"""Where the facts of an answer come from: their chunk, who extracted them, and where they stand in the text.

The ids are made from the chunk, the prompt and its version, and the time is that of the chunk's publication.
The same answer to a chunk that is delivered twice therefore adds nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from trustgraph_prompt.contract import Grounding
from trustgraph_prompt.graph import vocabulary as v
from trustgraph_prompt.graph.mapping import Evidence, Graph, Stretch
from trustgraph_prompt.graph.statements import Iri, Literal, Statement, TripleTerm

if TYPE_CHECKING:  # workers read no files
    from trustgraph_prompt.documents import Document

GRAPH_SOURCE: Final = "urn:graph:source"
"""TrustGraph's named graph for the provenance of extracted statements."""

_BASE: Final = "https://trustgraph.ai"
_MOST_TRIED = 8  # occurrences of each value, to find those that are closest together

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Origin:
    """What an answer was made from, and by whom.

    `chunk` is the IRI of the chunk, `text` its text. If `document` is given, the chunk is the passage of it
    that begins at `start`, and positions are those in the document; otherwise they are those in the chunk.
    `prompt` and `version` are those of the prompt. `component` is the name of the extractor, as in
    `kg-extract-definitions`. `published` is the time of publication in seconds since the epoch, None if
    it is unknown.
    """

    chunk: Iri
    text: str
    prompt: str
    version: str
    component: str
    component_version: str
    published: float | None
    model: str | None = None
    ontology: Iri | None = None
    document: Document | None = None
    start: int = 0

    @property
    def id(self) -> str:
        """What the IRIs of the answer's graph and of its activity end in.

        In a flow one model answers; the graph of a document may be put together with several.
        """
        by_model = (self.model,) if self.document is not None else ()
        return hash_of(self.chunk, self.prompt, self.version, *by_model)

    @property
    def activity(self) -> Iri:
        """The IRI of the extraction."""
        return Iri(f"{_BASE}/activity/{self.id}")

    @property
    def source(self) -> Iri:
        """The IRI of the text whose positions are given."""
        return self.chunk if self.document is None else document_iri(self.document)


def document_iri(document: Document) -> Iri:
    """The IRI of a document: the same for files whose converted text is the same."""
    return Iri(f"urn:sha256:{document.sha256}")


def passage_iri(document: Document, start: int, end: int) -> Iri:
    """The IRI of a passage of a document, as RFC 5147 identifies it."""
    return Iri(f"{document_iri(document)}#char={start},{end}")


def about_document(document: Document) -> Iterator[Statement]:
    """The statements about a document: its name, its format and its whole text, in which spans are found."""
    iri = document_iri(document)
    yield about(iri, v.TYPE, v.DIGITAL_DOCUMENT)
    yield about(iri, v.NAME, Literal(document.file))
    yield about(iri, v.ENCODING_FORMAT, Literal(document.format))
    yield about(iri, v.SHA256, Literal(document.sha256))
    yield about(iri, v.TEXT, Literal(document.text))


def about_passage(document: Document, start: int, end: int) -> Iterator[Statement]:
    """The statements about a chunk of a document."""
    iri = passage_iri(document, start, end)
    yield about(iri, v.WAS_DERIVED_FROM, document_iri(document))
    yield about(iri, v.CHAR_OFFSET, Literal(str(start), v.INTEGER))
    yield about(iri, v.CHAR_LENGTH, Literal(str(end - start), v.INTEGER))


def provenance(graph: Graph, origin: Origin, *, triple_terms: bool = True) -> list[Statement]:
    """Return the statements about the facts of an answer, in the graph `GRAPH_SOURCE`; none without facts.

    They are TrustGraph's, and W3C Web Annotation selectors for the facts with evidence, whose offsets are
    code points of the text. Unless `triple_terms`, an `rdf:Statement` takes the place of each triple term.
    """
    if not graph.facts:
        return []
    return list(dict.fromkeys(_Provenance(origin, triple_terms).of(graph)))


class _Provenance:
    def __init__(self, origin: Origin, triple_terms: bool) -> None:
        self._origin = origin
        self._triple_terms = triple_terms
        self._subgraph = Iri(f"{_BASE}/subgraph/{origin.id}")

    def of(self, graph: Graph) -> Iterator[Statement]:
        for fact in graph.facts:
            yield about(
                self._subgraph, v.CONTAINS, _quotation(fact) if self._triple_terms else self._reifier(fact)
            )
        yield from self._subgraph_and_activity()
        has_positions = False
        for fact, evidence in graph.facts.items():
            spans = _closest([each for each in evidence if each and each.spans and each.term == "text"])
            has_positions = has_positions or bool(spans)
            doubt = self._doubt(evidence)
            if self._origin.document is not None and any(isinstance(each, Stretch) for each in evidence):
                is_whole = "true" if _is_looked_up(fact, evidence) else "false"
                yield about(self._reifier(fact), v.LOOKED_UP, Literal(is_whole, v.BOOLEAN))
            if spans or doubt or not self._triple_terms:
                yield from self._reified(fact)
            if doubt:
                yield about(self._reifier(fact), doubt, Literal("true", v.BOOLEAN))
                yield about(self._reifier(fact), v.WAS_DERIVED_FROM, self._origin.chunk)
            for span in spans:
                target = self._target(span)
                yield about(self._reifier(fact), v.HAS_TARGET, target)
                yield from self._selectors(target, span)
        if has_positions and self._origin.document is None:
            digest = hashlib.sha256(self._origin.text.encode(errors="replace")).hexdigest()
            yield about(self._origin.chunk, v.SHA256, Literal(digest))

    def _doubt(self, evidence: Evidence) -> Iri | None:
        """What marks a fact with a value that its document does not have, or only in part."""
        if self._origin.document is None:
            return None
        if None in evidence:
            return v.UNGROUNDED
        return v.WEAK if any(each and each.kind.is_weak for each in evidence) else None

    def _subgraph_and_activity(self) -> Iterator[Statement]:
        origin, subgraph = self._origin, self._subgraph
        activity = origin.activity
        agent = Iri(f"{_BASE}/agent/{quote(origin.component, safe='')}")
        yield about(subgraph, v.TYPE, v.ENTITY)
        yield about(subgraph, v.TYPE, v.SUBGRAPH)
        yield about(subgraph, v.WAS_DERIVED_FROM, origin.chunk)
        yield about(subgraph, v.WAS_GENERATED_BY, activity)
        yield about(activity, v.TYPE, v.ACTIVITY)
        yield about(activity, v.LABEL, Literal(f"{origin.component} extraction"))
        yield about(activity, v.USED, origin.chunk)
        yield about(activity, v.WAS_ASSOCIATED_WITH, agent)
        if origin.published is not None:
            time = datetime.fromtimestamp(origin.published, UTC).isoformat().replace("+00:00", "Z")
            yield about(activity, v.STARTED_AT_TIME, Literal(time))
        yield about(activity, v.COMPONENT_VERSION, Literal(origin.component_version))
        yield about(agent, v.TYPE, v.AGENT)
        yield about(agent, v.LABEL, Literal(origin.component))
        if origin.model:
            yield about(activity, v.LLM_MODEL, Literal(origin.model))
        if origin.ontology:
            yield about(activity, v.ONTOLOGY, origin.ontology)
        if origin.document is not None:
            yield about(activity, v.PROMPT, Literal(origin.prompt))
            yield about(activity, v.PROMPT_VERSION, Literal(origin.version))
            yield from about_passage(origin.document, origin.start, origin.start + len(origin.text))

    def _reifier(self, fact: Statement) -> Iri:
        return Iri(f"{_BASE}/statement/{hash_of(self._origin.id, *fact[:3])}")

    def _reified(self, fact: Statement) -> Iterator[Statement]:
        reifier = self._reifier(fact)
        if self._triple_terms:
            yield about(reifier, v.REIFIES, _quotation(fact))
            return
        yield about(reifier, v.TYPE, v.STATEMENT)
        yield about(reifier, v.SUBJECT, fact.subject)
        yield about(reifier, v.PREDICATE, fact.predicate)
        yield about(reifier, v.OBJECT, fact.object)

    def _target(self, span: Span) -> Iri:
        start, end = span
        offset = self._origin.start
        return Iri(f"{_BASE}/target/{hash_of(self._origin.source, start + offset, end + offset)}")

    def _selectors(self, target: Iri, span: Span) -> Iterator[Statement]:
        start, end = span
        offset, document = self._origin.start, self._origin.document
        position, quotation = Iri(f"{target}#position"), Iri(f"{target}#quote")
        yield about(target, v.HAS_SOURCE, self._origin.source)
        yield about(target, v.HAS_SELECTOR, position)
        yield about(target, v.HAS_SELECTOR, quotation)
        yield about(position, v.TYPE, v.TEXT_POSITION_SELECTOR)
        yield about(position, v.START, Literal(str(start + offset), v.NON_NEGATIVE_INTEGER))
        yield about(position, v.END, Literal(str(end + offset), v.NON_NEGATIVE_INTEGER))
        yield about(quotation, v.TYPE, v.TEXT_QUOTE_SELECTOR)
        yield about(quotation, v.EXACT, Literal(self._origin.text[start:end]))
        if document is not None:
            place = document.place(start + offset)
            if place.page is not None:
                yield about(target, v.PAGE_NUMBER, Literal(str(place.page), v.INTEGER))
            if place.heading is not None:
                yield about(target, v.HEADING, Literal(place.heading))


def _closest(evidence: Sequence[Grounding]) -> tuple[Span, ...]:
    """One occurrence of each value, those that are closest together."""
    choices = product(*(each.spans[:_MOST_TRIED] for each in evidence))
    return min(choices, key=lambda spans: max(e for _, e in spans) - min(s for s, _ in spans) if spans else 0)


def _is_looked_up(fact: Statement, evidence: Evidence) -> bool:
    """Whether each name in a fact with a quote was looked up: the passages of the fact do not say so."""
    is_relation = isinstance(fact.object, Iri) and fact.predicate != v.TYPE and fact.object != fact.subject
    return sum(not isinstance(each, Stretch) for each in evidence) >= 1 + is_relation


def _quotation(fact: Statement) -> TripleTerm:
    assert not isinstance(fact.object, TripleTerm)
    return TripleTerm(fact.subject, fact.predicate, fact.object)


def about(subject: Iri, predicate: Iri, object: Iri | Literal | TripleTerm) -> Statement:
    """A statement of the provenance."""
    return Statement(subject, predicate, object, GRAPH_SOURCE)


def hash_of(*parts: object) -> str:
    """An id for values: equal values have the same."""
    return hashlib.sha256(ascii(parts).encode()).hexdigest()[:32]
