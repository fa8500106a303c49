"""Statements of a graph and their terms. Equal values are equal statements, so a dict removes duplicates."""

from __future__ import annotations

import re
from typing import NamedTuple, Self
from urllib.parse import quote

_FORBIDDEN = re.compile(r'[\x00-\x20<>"{}|\\^`\x7f-\x9f\ud800-\udfff]|%(?![0-9A-Fa-f]{2})')
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


class Iri(str):
    """The IRI of a node or a predicate."""

    __slots__ = ()

    @classmethod
    def of(cls, text: str, base: str = "") -> Self:
        """Make an IRI of a text that may not be one: under `base` unless it has a scheme, and escaped."""
        given = text if _SCHEME.match(text) else base + text
        return cls(_FORBIDDEN.sub(lambda found: quote(found[0], errors="replace"), given))


class Literal(NamedTuple):
    """A text, with the IRI of its datatype if it has one."""

    value: str
    datatype: str = ""


class TripleTerm(NamedTuple):
    """A statement as the object of another one (an RDF 1.2 triple term)."""

    subject: Iri
    predicate: Iri
    object: Iri | Literal


class Statement(NamedTuple):
    """A statement in the named graph `graph`, "" for the default graph."""

    subject: Iri
    predicate: Iri
    object: Iri | Literal | TripleTerm
    graph: str = ""


class Context(NamedTuple):
    """A text by which an entity is found: its name, or its definition. `types` are its classes, if known."""

    entity: Iri
    text: str
    types: tuple[str, ...] = ()
