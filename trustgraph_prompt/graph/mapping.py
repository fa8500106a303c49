"""Makes statements of the objects of an answer, as the clause `graph` of their prompt says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Final

from trustgraph_prompt.contract import Grounded, Grounding
from trustgraph_prompt.graph.clause import EntityForm, Form, GraphClause, StatementForm
from trustgraph_prompt.graph.names import Naming
from trustgraph_prompt.graph.statements import Context, Iri, Literal, Statement
from trustgraph_prompt.graph.vocabulary import BOOLEAN, DEFINITION, DOUBLE, INTEGER, LABEL, TYPE
from trustgraph_prompt.json_text.encoding import encode
from trustgraph_prompt.json_text.pointer import pointer
from trustgraph_prompt.json_text.values import is_one_of

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
    clause: GraphClause, objects: Iterable[Any], named: Naming, grounded: Grounded | None = None
) -> Graph:
    """Make the graph of the objects of an answer; `grounded` says for each where its values occur.

    A value that is no object, to which no form applies, or that lacks what a form needs, adds nothing.
    """
    writer = _Writer(Graph(), named)
    for value, found in zip(objects, grounded or repeat(_NO_VALUES), strict=False):
        for form in clause.forms if isinstance(value, dict) else ():
            if not form.when or _applies(form, value):
                writer.add(form, value, found)
    return writer.graph


def _applies(form: Form, value: Mapping[str, Any]) -> bool:
    return all(key in value and is_one_of(value[key], (wanted,)) for key, wanted in form.when)


@dataclass(slots=True)
class _Writer:
    """Adds the statements of single objects to a graph."""

    graph: Graph
    named: Naming

    def add(self, form: Form, value: Mapping[str, Any], found: Mapping[str, Grounding | None]) -> None:
        if isinstance(form, StatementForm):
            self._add_statement(form, value, found)
        else:
            self._add_entity(form, value, found)

    def _add_statement(
        self, form: StatementForm, value: Mapping[str, Any], found: Mapping[str, Grounding | None]
    ) -> None:
        parts = [value.get(key) for key in (form.subject, form.predicate, form.object)]
        if any(map(_is_empty, parts)):
            return
        subject, predicate, object = map(_text, parts)
        is_entity = (value.get(form.entity, True) if isinstance(form.entity, str) else form.entity) is True
        subject_iri, predicate_iri = self.named(subject), self.named(predicate)
        object_term = self.named(object) if is_entity else Literal(object)
        of_subject, of_object = evidence_of(found, form.subject), evidence_of(found, form.object)
        _add(self.graph.facts, Statement(subject_iri, predicate_iri, object_term), of_subject + of_object)
        self._label(subject_iri, subject, of_subject)
        self._label(predicate_iri, predicate, of_subject + of_object)
        if isinstance(object_term, Iri):
            self._label(object_term, object, of_object)

    def _add_entity(
        self, form: EntityForm, value: Mapping[str, Any], found: Mapping[str, Grounding | None]
    ) -> None:
        if _is_empty(given := value.get(form.subject)):
            return
        name = _text(given)
        entity, evidence = self.named(name), evidence_of(found, form.subject)
        described = [*self._description(form, value, found, evidence)]
        for predicate, term, of_value in described:
            _add(self.graph.facts, Statement(entity, predicate, term), evidence + of_value)
        if described:
            self._label(entity, name, evidence)
            self.graph.contexts[Context(entity, name)] = None
            if form.definition is not None and not _is_empty(definition := value.get(form.definition)):
                self.graph.contexts[Context(entity, _text(definition))] = None

    def _description(
        self,
        form: EntityForm,
        value: Mapping[str, Any],
        found: Mapping[str, Grounding | None],
        of_entity: Evidence,
    ) -> Iterator[tuple[Iri, Iri | Literal, Evidence]]:
        """What an object says about its entity: the predicate, the object, and the evidence of its value."""
        if form.definition is not None and not _is_empty(definition := value.get(form.definition)):
            yield DEFINITION, Literal(_text(definition)), evidence_of(found, form.definition)
        if form.class_ is not None:
            yield TYPE, self._labelled(form.class_, of_entity), ()
        if form.type is not None:
            for path, kind in _values(form.type, value):
                evidence = evidence_of(found, *path)
                yield TYPE, self._labelled(_text(kind), evidence or of_entity), evidence
        for prop in form.properties:
            for path, each in _values(prop.key, value):
                evidence = evidence_of(found, *path)
                named = evidence or of_entity
                term = self._labelled(_text(each), named) if prop.entity else _literal(each)
                yield self._labelled(prop.predicate, named), term, evidence

    def _label(self, iri: Iri, text: str, evidence: Evidence) -> None:
        _add(self.graph.labels, Statement(iri, LABEL, Literal(text)), evidence)

    def _labelled(self, text: str, evidence: Evidence) -> Iri:
        """The IRI of a name, with its label; an IRI of the clause as it is."""
        if isinstance(text, Iri):
            return text
        iri = self.named(text)
        self._label(iri, text, evidence)
        return iri


def _add(statements: dict[Statement, Evidence], statement: Statement, evidence: Evidence) -> None:
    """Add a statement; of several evidences of it, the first that has a position counts."""
    there = statements.get(statement, ())
    statements[statement] = there if any(there) else evidence


def _values(key: str, value: Mapping[str, Any]) -> Iterator[tuple[list[str | int], Any]]:
    """The value of a key, or the elements of its list, with their paths; none that is empty."""
    given = value.get(key)
    if not isinstance(given, list):
        if not _is_empty(given):
            yield [key], given
        return
    for index, each in enumerate(given):
        if not _is_empty(each):
            yield [key, index], each


def evidence_of(found: Mapping[str, Grounding | None], *path: str | int) -> Evidence:
    """Where the value at a path occurs; empty if it need not occur anywhere."""
    if not found:
        return ()
    key = pointer(path)
    return (found[key],) if key in found else ()


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
