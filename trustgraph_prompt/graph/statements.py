"""Statements of a graph and their terms. Equal values are equal statements, so a dict removes duplicates."""

from __future__ import annotations

from typing import NamedTuple


class Iri(str):
    """The IRI of a node or a predicate."""

    __slots__ = ()


class Literal(NamedTuple):
    """A text, with the IRI of its datatype or a language tag if it has one."""

    value: str
    datatype: str = ""
    language: str = ""


class Quoted(NamedTuple):
    """A statement as the object of another one (an RDF 1.2 triple term)."""

    subject: Iri
    predicate: Iri
    object: Iri | Literal


class Statement(NamedTuple):
    """A statement in the named graph `graph`, "" for the default graph."""

    subject: Iri
    predicate: Iri
    object: Iri | Literal | Quoted
    graph: str = ""


class Context(NamedTuple):
    """A text by which an entity is found: its name, or its definition. `types` are its classes, if known."""

    entity: Iri
    text: str
    types: tuple[str, ...] = ()
