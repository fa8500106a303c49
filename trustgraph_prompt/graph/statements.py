"""The values of a graph: IRIs, literals, statements, and the contexts of entities."""

from __future__ import annotations

from typing import NamedTuple


class Iri(str):
    """An absolute IRI."""

    __slots__ = ()


class Literal(NamedTuple):
    """A literal; `datatype` is an IRI, `language` a tag such as `en`."""

    value: str
    datatype: str = ""
    language: str = ""


class Quoted(NamedTuple):
    """A triple that is the subject or object of another one."""

    subject: Iri
    predicate: Iri
    object: Iri | Literal


class Statement(NamedTuple):
    """A triple in a graph; the default graph is ""."""

    subject: Iri
    predicate: Iri
    object: Iri | Literal | Quoted
    graph: str = ""


class Context(NamedTuple):
    """A text that describes an entity, for an embedding."""

    entity: Iri
    text: str
