"""Makes statements of the objects of an answer, as the clause `graph` of their prompt says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Final

from trustgraph_prompt.contract import Grounded, Grounding
from trustgraph_prompt.contract.coerce_scalars import is_one_of
from trustgraph_prompt.graph.clause import EntityForm, Form, GraphClause, StatementForm
from trustgraph_prompt.graph.names import Naming
from trustgraph_prompt.graph.statements import Context, Iri, Literal, Statement
from trustgraph_prompt.graph.vocabulary import BOOLEAN, DEFINITION, DOUBLE, INTEGER, LABEL, TYPE
from trustgraph_prompt.json_text.encoding import encode
from trustgraph_prompt.json_text.pointer import pointer

Evidence = tuple[Grounding, ...]
"""Where the values that a statement is made of occur in the text."""

_NO_VALUES: Final[Mapping[str, Grounding | None]] = {}


@dataclass(slots=True)
class Graph:
    """What the objects of one answer say, each statement once and in the order of the objects.

    `facts` are the statements that the model made, with their evidence, `labels` the names of their terms and
    what an ontology says of them, `contexts` the texts by which the entities are found.
    """

    facts: dict[Statement, Evidence] = field(default_factory=dict)
    labels: dict[Statement, None] = field(default_factory=dict)
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
        evidence = evidence_of(found, [form.subject], [form.object]) if found else ()
        self._say(Statement(subject_iri, predicate_iri, object_term), evidence)
        self._label(subject_iri, subject)
        self._label(predicate_iri, predicate)
        if isinstance(object_term, Iri):
            self._label(object_term, object)

    def _add_entity(
        self, form: EntityForm, value: Mapping[str, Any], found: Mapping[str, Grounding | None]
    ) -> None:
        if _is_empty(given := value.get(form.subject)):
            return
        name = _text(given)
        entity = self.named(name)
        is_described = False
        for path, predicate, term in self._description(form, value):
            self._say(
                Statement(entity, predicate, term), evidence_of(found, [form.subject], path) if found else ()
            )
            is_described = True
        if is_described:
            self._label(entity, name)
            self.graph.contexts[Context(entity, name)] = None
            if form.definition is not None and not _is_empty(definition := value.get(form.definition)):
                self.graph.contexts[Context(entity, _text(definition))] = None

    def _description(
        self, form: EntityForm, value: Mapping[str, Any]
    ) -> Iterator[tuple[list[str | int], Iri, Iri | Literal]]:
        """What an object says about its entity: the path of the value, the predicate, the object."""
        if form.definition is not None and not _is_empty(definition := value.get(form.definition)):
            yield [form.definition], DEFINITION, Literal(_text(definition))
        if form.class_ is not None:
            yield [], TYPE, self._labelled(form.class_)
        if form.type is not None:
            for path, kind in _values(form.type, value):
                yield path, TYPE, self._labelled(_text(kind))
        for prop in form.properties:
            for path, each in _values(prop.key, value):
                term = self._labelled(_text(each)) if prop.entity else _literal(each)
                yield path, self._labelled(prop.predicate), term

    def _say(self, statement: Statement, evidence: Evidence) -> None:
        """Add a fact; of several evidences of one fact, the first counts."""
        if not self.graph.facts.get(statement):
            self.graph.facts[statement] = evidence

    def _label(self, iri: Iri, text: str) -> None:
        self.graph.labels[Statement(iri, LABEL, Literal(text))] = None

    def _labelled(self, text: str) -> Iri:
        """The IRI of a name, with its label; an IRI of the clause as it is."""
        if isinstance(text, Iri):
            return text
        iri = self.named(text)
        self._label(iri, text)
        return iri


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


def evidence_of(found: Mapping[str, Grounding | None], *paths: Sequence[str | int]) -> Evidence:
    """Where the values at these paths occur, as far as they do."""
    matches = [found.get(pointer(path)) for path in paths if path]
    return tuple(match for match in matches if match is not None and match.spans)


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _text(value: Any) -> str:
    """A value as text: as TrustGraph writes it, but lists and objects as JSON."""
    if isinstance(value, str):
        return value
    return encode(value).decode() if isinstance(value, dict | list) else str(value)


def _literal(value: Any) -> Literal:
    match value:
        case bool():
            return Literal("true" if value else "false", BOOLEAN)
        case int():
            return Literal(str(value), INTEGER)
        case float():
            return Literal(str(value), DOUBLE)
    return Literal(_text(value))
