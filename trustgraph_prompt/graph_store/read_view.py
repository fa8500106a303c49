"""Reads the graph of a store as people see it.

A store may hold statements that somebody else loaded. Those of the default graph are facts like ours; in the
other graphs, what is not written as we write it is left out.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import pyoxigraph as ox

from trustgraph_prompt.graph import vocabulary as v
from trustgraph_prompt.graph.provenance import GRAPH_SOURCE
from trustgraph_prompt.graph_store.excerpt import without_sources
from trustgraph_prompt.graph_store.same_names import connected, resolve_names
from trustgraph_prompt.graph_store.store import GraphStore
from trustgraph_prompt.graph_store.view import (
    Cut,
    Fact,
    GraphView,
    RefusedObject,
    SourceDocument,
    SourcePassage,
    Thing,
)

# One query for all that is known of each fact would take twice as long as these.
_ANSWERS: Final = """
SELECT ?activity ?prompt ?document ?start ?end ?truncated {
  ?activity prov:used ?chunk ; tp:prompt ?prompt .
  ?chunk prov:wasDerivedFrom ?document ; tg:charOffset ?start ; tg:charLength ?length .
  BIND (?start + ?length AS ?end)
  FILTER (0 <= ?start && ?start <= ?end)
  OPTIONAL { ?activity tp:truncated ?truncated }
}
"""
_STATED: Final = """
SELECT ?fact ?activity { ?subgraph tg:contains ?fact ; prov:wasGeneratedBy ?activity }
"""
_REFUSED: Final = """
SELECT ?activity ?object ?reason {
  ?activity tp:refused ?refused . ?refused tp:object ?object ; tp:reason ?reason
}
"""
_TARGETS: Final = """
SELECT ?target ?document ?start ?end ?page ?heading {
  ?target oa:hasSource ?document ; oa:hasSelector ?position . ?position oa:start ?start ; oa:end ?end .
  FILTER (0 <= ?start && ?start <= ?end)
  OPTIONAL { ?target tg:pageNumber ?page FILTER (0 < ?page) }
  OPTIONAL { ?target tp:heading ?heading }
}
"""
_LOOKED_UP: Final = """
SELECT ?reifier ?fact ?target ?ungrounded ?weak {
  ?reifier rdf:reifies ?fact .
  OPTIONAL { ?reifier oa:hasTarget ?target }
  OPTIONAL { ?reifier tp:ungrounded ?ungrounded }
  OPTIONAL { ?reifier tp:weak ?weak }
}
"""

_WITH_QUOTE: Final = "SELECT ?reifier ?whole { ?reifier tp:lookedUp ?whole }"

_FOUND, _WEAK, _UNGROUNDED = range(3)

_LOCAL_NAME = re.compile(r"(?<![^/#:])[^/#:]++(?=[/#:]*\Z)")


class _ChunkAnswer(NamedTuple):
    chunk: SourcePassage
    prompt: str
    is_truncated: bool


class _Key(NamedTuple):
    """What facts that are one have in common: things, the IRI of a predicate, or else a text."""

    subject: str
    predicate: str
    object: str
    is_relation: bool


def read_view(store: GraphStore, *, by_rule: bool = False) -> GraphView:
    """Read all of a graph into memory.

    `by_rule` also makes things one that the rules of names say are the same, as `graph resolve` would.
    Each statement of the default graph is a fact, except for labels and what describes the classes and
    properties of an ontology. A thing's class is a text, and its statement is a fact like others. Things are
    the subjects of facts and the objects of relations.
    """
    documents = store.documents()
    sources = _Sources(store, documents)
    triples = [quad.triple for quad in store.dataset.quads_for_pattern(None, None, None, ox.DefaultGraph())]
    names: dict[str, Counter[str]] = defaultdict(Counter)
    for label in triples:
        if label.predicate.value == v.LABEL and isinstance(label.object, ox.Literal):
            names[_name(label.subject)][_name(label.object)] += len(sources.answers.get(label, ())) or 1
    pairs = store.pairs(v.SAME_AS) | (_same_by_rule(store) if by_rule else set())
    same = {group[0]: group for group in connected(pairs)}
    first = {iri: one for one, group in same.items() for iri in group}
    terms = {each.subject for each in triples if each.predicate.value == v.TYPE and _is_term(each)}
    stated: dict[_Key, list[ox.Triple]] = defaultdict(list)
    for fact in triples:
        is_label = fact.predicate.value == v.LABEL
        if not (is_label or fact.subject in terms or isinstance(fact.object, ox.Triple)):
            stated[_key(fact, first, names)].append(fact)
    types: dict[str, set[str]] = defaultdict(set)
    for key in stated:
        if key.predicate == v.TYPE:
            types[key.subject].add(key.object)
    seen = {key.subject for key in stated} | {key.object for key in stated if key.is_relation}
    return GraphView(
        {iri: _thing(same.get(iri, [iri]), names, types) for iri in sorted(seen)},
        sorted(
            (sources.fact(key, _most_used(names, key.predicate), of) for key, of in stated.items()),
            key=lambda fact: fact[:4],
        ),
        documents,
        sources.refusals,
        sources.cuts,
    )


def _is_term(type: ox.Triple) -> bool:
    """Whether its subject is a class or a property."""
    return _name(type.object) in (v.CLASS, v.OBJECT_PROPERTY, v.DATATYPE_PROPERTY)


def _key(fact: ox.Triple, first: Mapping[str, str], names: Mapping[str, Counter[str]]) -> _Key:
    """The key of a fact. `first` has the IRI that stands for each of several that are one thing."""
    subject, object = _name(fact.subject), _name(fact.object)
    subject, predicate = first.get(subject, subject), fact.predicate.value
    if predicate == v.TYPE:
        return _Key(subject, predicate, _most_used(names, object), False)
    if isinstance(fact.object, ox.Literal):
        return _Key(subject, predicate, object, False)
    return _Key(subject, predicate, first.get(object, object), True)


def _same_by_rule(store: GraphStore) -> set[frozenset[str]]:
    things = read_view(without_sources(store)).things.values()
    found = resolve_names(things, store.pairs(v.DIFFERENT_FROM)).same
    return {frozenset((each.one, each.other)) for each in found}


class _Sources:
    """The answers that state facts, the passages of facts, and what of the answers is not a fact."""

    def __init__(self, store: GraphStore, documents: Mapping[str, SourceDocument]) -> None:
        by_activity = {
            activity: _ChunkAnswer(passage, prompt.value, truncated is not None and truncated.value == "true")
            for activity, prompt, document, start, end, truncated in _rows(store, _ANSWERS)
            if (passage := _passage(documents, document, start, end))
        }
        self.answers: dict[ox.Triple, list[_ChunkAnswer]] = defaultdict(list)
        for fact, activity in _rows(store, _STATED):
            if activity in by_activity:
                self.answers[fact].append(by_activity[activity])
        targets = {
            target: passage
            for target, document, start, end, page, heading in _rows(store, _TARGETS)
            if (passage := _passage(documents, document, start, end, page, heading))
        }
        self._passages: dict[ox.Triple, set[SourcePassage]] = defaultdict(set)
        self._doubt: dict[ox.Triple, int] = {}  # the least of all that state it
        found: Counter[tuple[ox.Triple, ox.NamedNode]] = Counter()  # names, by answer
        is_whole = {reifier: whole.value == "true" for reifier, whole in _rows(store, _WITH_QUOTE)}
        for reifier, fact, target, ungrounded, weak in _rows(store, _LOOKED_UP):
            doubt = _UNGROUNDED if ungrounded else _WEAK if weak else _FOUND
            self._doubt[fact] = min(doubt, self._doubt.get(fact, doubt))
            if target in targets:
                self._passages[fact].add(targets[target])
                found[fact, reifier] += 1 if reifier not in is_whole else 2 * is_whole[reifier]
        # A relation has two names, unless it is of a thing with itself. Each that is found has a target; a
        # fact with a quote has that as its target instead, and says whether its names were looked up.
        self._whole = {
            fact for (fact, _), count in found.items() if count > (1 if _has_two_names(fact) else 0)
        } | {fact for fact, doubt in self._doubt.items() if doubt != _FOUND}
        refused = (
            RefusedObject(answer.chunk, answer.prompt, object.value, reason.value)
            for activity, object, reason in _rows(store, _REFUSED)
            if (answer := by_activity.get(activity))
        )
        self.refusals = sorted(refused)
        self.cuts = sorted(Cut(each.chunk, each.prompt) for each in by_activity.values() if each.is_truncated)

    def fact(self, key: _Key, predicate: str, stated: list[ox.Triple]) -> Fact:
        """The fact that one or several statements are."""
        answers = [answer for each in stated for answer in self.answers.get(each, ())]
        passages = {passage for each in stated for passage in self._passages.get(each, ())}
        doubt = min(self._doubt.get(each, _FOUND) for each in stated)
        return Fact(
            key.subject,
            predicate,
            key.object,
            key.is_relation,
            tuple(sorted(passages, key=_by_place)),
            tuple(sorted({each.prompt for each in answers})),
            tuple(sorted({each.chunk for each in answers}, key=_by_place)),
            doubt == _UNGROUNDED,
            doubt == _WEAK,
            not self._whole.isdisjoint(stated),
        )


def _has_two_names(fact: ox.Triple) -> bool:
    is_class = fact.predicate.value == v.TYPE
    return not isinstance(fact.object, ox.Literal) and fact.subject != fact.object and not is_class


def _rows(store: GraphStore, sparql: str) -> Any:
    return store.query(sparql, default_graph=ox.NamedNode(GRAPH_SOURCE))


def _passage(
    documents: Mapping[str, SourceDocument],
    document: ox.NamedNode,
    start: ox.Literal,
    end: ox.Literal,
    page: ox.Literal | None = None,
    heading: ox.Literal | None = None,
) -> SourcePassage | None:
    """A passage, if it is one of a document that we have."""
    if (iri := _name(document)) not in documents:
        return None
    number, title = page and int(page.value), heading and heading.value
    return SourcePassage(iri, int(start.value), int(end.value), number, title)


def _by_place(passage: SourcePassage) -> tuple[str, int, int]:
    return passage[:3]


def _thing(iris: list[str], names: Mapping[str, Counter[str]], types: Mapping[str, set[str]]) -> Thing:
    counted = sum((names.get(each, Counter()) for each in iris), Counter[str]())
    ordered = sorted(counted, key=lambda each: (-counted[each], each)) or [_local_name(iris[0])]
    return Thing(iris[0], ordered[0], tuple(iris), tuple(ordered), tuple(sorted(types.get(iris[0], ()))))


def _most_used(names: Mapping[str, Counter[str]], iri: str) -> str:
    """The name of a predicate or a class."""
    return _thing([iri], names, {}).name


def _name(term: object) -> str:
    """The IRI of a node, the id of a blank node after `_:`, or the text of a literal."""
    return term.value if isinstance(term, ox.NamedNode | ox.Literal) else str(term)


def _local_name(iri: str) -> str:
    found = _LOCAL_NAME.search(iri)
    return unquote(found[0]) if found and not iri.startswith("_:") else iri
