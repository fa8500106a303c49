"""Makes statements of the objects of an answer, as the clause `graph` of their prompt says."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any, Final

from trustgraph_prompt.contract import Grounded, Grounding
from trustgraph_prompt.graph.graph_clause import EntityForm, Form, GraphClause, StatementForm
from trustgraph_prompt.graph.names import Naming
from trustgraph_prompt.graph.statements import Context, Iri, Literal, Statement
from trustgraph_prompt.graph.vocabulary import BOOLEAN, DEFINITION, DOUBLE, INTEGER, LABEL, TYPE
from trustgraph_prompt.json_text.encoding import encode
from trustgraph_prompt.json_text.pointer import pointer
from trustgraph_prompt.json_text.values import is_one_of


class Stretch(Grounding):
    """Where a stretch of the quote of an object stands."""

    __slots__ = ()


Evidence = tuple[Grounding | None, ...]
"""Where the values that a statement is made of occur in the text: None for one that occurs nowhere."""

_DATATYPES: Final[Mapping[type, Iri]] = {bool: BOOLEAN, int: INTEGER, float: DOUBLE}
_NO_VALUES: Final[Mapping[str, Grounding | None]] = {}


@dataclass(slots=True)
class Graph:
    """What the objects of one answer say, each statement once and in the order of the objects.

    `facts` are the statements that the model made, `labels` the names of their terms and what an ontology
    says of them, both with their evidence. `contexts` are the texts by which the entities are found.
    """

    facts: dict[Statement, Evidence] = field(default_factory=dict)
    labels: dict[Statement, Evidence] = field(default_factory=dict)
    contexts: dict[Context, None] = field(default_factory=dict)


def graph_of(
    clause: GraphClause,
    objects: Iterable[Any],
    named: Naming,
    grounded: Grounded | None = None,
    quotes: Collection[str] = (),
) -> Graph:
    """Make the graph of the objects of an answer; `grounded` says for each where its values occur.

    `quotes` are the keys of an object with the quotes that are the evidence of all its facts. A value that is
    no object, to which no form applies, or that lacks what a form needs, adds nothing.
    """
    graph = Graph()
    for value, found in zip(objects, grounded or repeat(_NO_VALUES), strict=False):
        writer = _Writer(graph, named, value, found, quotes)
        for form in clause.forms if isinstance(value, dict) else ():
            if form.when and not _applies(form, value):
                continue
            if isinstance(form, StatementForm):
                writer.add_statement(form)
            else:
                writer.add_entity(form)
    return graph


def _applies(form: Form, value: Mapping[str, Any]) -> bool:
    return all(key in value and is_one_of(value[key], (wanted,)) for key, wanted in form.when)


@dataclass(slots=True)
class _Writer:
    """Adds the statements of one object to a graph: of `value`, whose values were `found`."""

    graph: Graph
    named: Naming
    value: Mapping[str, Any]
    found: Mapping[str, Grounding | None]
    quotes: Collection[str]

    def add_statement(self, form: StatementForm) -> None:
        parts = [self.value.get(key) for key in (form.subject, form.predicate, form.object)]
        if any(map(_is_empty, parts)):
            return
        subject, predicate, object = map(_text, parts)
        is_entity = self.value.get(form.entity, True) if isinstance(form.entity, str) else form.entity
        of_subject, of_object = evidence_of(self.found, form.subject), evidence_of(self.found, form.object)
        evidence = of_subject + of_object
        statement = Statement(
            self._label(subject, of_subject),
            self._label(predicate, evidence),
            self._label(object, of_object) if is_entity is True else Literal(object),
        )
        self._add_fact(statement, evidence)

    def add_entity(self, form: EntityForm) -> None:
        if _is_empty(given := self.value.get(form.subject)):
            return
        name = _text(given)
        entity, evidence = self.named(name), evidence_of(self.found, form.subject)
        definition = self.value.get(form.definition) if form.definition is not None else None
        described = [*self._description(form, evidence)]
        if form.definition is not None and not _is_empty(definition):
            of_definition = evidence_of(self.found, form.definition)
            described.insert(0, (DEFINITION, Literal(_text(definition)), of_definition))
        for predicate, term, of_value in described:
            self._add_fact(Statement(entity, predicate, term), evidence + of_value)
        if described:
            self._label(name, evidence)
            self.graph.contexts[Context(entity, name)] = None
            if not _is_empty(definition):
                self.graph.contexts[Context(entity, _text(definition))] = None

    def _description(
        self, form: EntityForm, of_entity: Evidence
    ) -> Iterator[tuple[Iri, Iri | Literal, Evidence]]:
        """What an object says about its entity: the predicate, the object, and the evidence of its value."""
        if form.class_ is not None:
            yield TYPE, self._labelled(form.class_, of_entity), ()
        if form.type is not None:
            for kind, evidence in self._values(form.type):
                yield TYPE, self._labelled(_text(kind), evidence or of_entity), evidence
        for prop in form.properties:
            for each, evidence in self._values(prop.key):
                named = evidence or of_entity
                term = self._labelled(_text(each), named) if prop.entity else _literal(each)
                yield self._labelled(prop.predicate, named), term, evidence

    def _values(self, key: str) -> Iterator[tuple[Any, Evidence]]:
        """The value of a key, or the elements of its list, with their evidence; none that is empty."""
        given: Any = self.value.get(key)
        is_list = isinstance(given, list)
        for index, each in enumerate(given if is_list else [given]):
            if not _is_empty(each):
                yield each, evidence_of(self.found, key, index) if is_list else evidence_of(self.found, key)

    def _add_fact(self, statement: Statement, evidence: Evidence) -> None:
        _add(self.graph.facts, statement, quoted(evidence, self.found, self.quotes))

    def _labelled(self, text: str, evidence: Evidence) -> Iri:
        """The IRI of a name or an IRI of the clause; a name gets its label."""
        return text if isinstance(text, Iri) else self._label(text, evidence)

    def _label(self, text: str, evidence: Evidence) -> Iri:
        iri = self.named(text)
        _add(self.graph.labels, Statement(iri, LABEL, Literal(text)), evidence)
        return iri


def _add(statements: dict[Statement, Evidence], statement: Statement, evidence: Evidence) -> None:
    """Add a statement; of several evidences of it, the first that has a position counts."""
    there = statements.get(statement, ())
    statements[statement] = there if any(there) else evidence


def evidence_of(found: Mapping[str, Grounding | None], *path: str | int) -> Evidence:
    """Where the value at a path occurs; empty if it need not occur anywhere."""
    if not found:
        return ()
    key = pointer(path)
    return (found[key],) if key in found else ()


def quoted(evidence: Evidence, found: Mapping[str, Grounding | None], quotes: Collection[str]) -> Evidence:
    """The evidence of a fact whose object may have quotes: these are where it stands, each stretch of them.

    What its values are found as still counts, but no longer where.
    """
    there = [where for quote in quotes if (where := found.get(pointer((quote,)))) and where.term == "text"]
    stretches = [
        Stretch(where.term, where.kind, where.score, (span,)) for where in there for span in where.spans
    ]
    if not stretches:
        return evidence
    return (*stretches, *(each and replace(each, spans=()) for each in evidence))


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _text(value: Any) -> str:
    """A value as text: as TrustGraph writes it, but lists and objects as JSON."""
    if isinstance(value, str):
        return value
    return encode(value).decode() if isinstance(value, dict | list) else str(value)


def _literal(value: Any) -> Literal:
    text = encode(value).decode() if isinstance(value, bool) else _text(value)
    return Literal(text, _DATATYPES.get(type(value), ""))
