"""The messages of a graph and of rows, decoded: what TrustGraph's stores read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from trustgraph_prompt.errors import RequestError
from trustgraph_prompt.wire.chunk import Metadata
from trustgraph_prompt.wire.records import Record, decode, json_type, take

IRI, BLANK, LITERAL, TRIPLE = "i", "b", "l", "t"
"""The types of terms."""


@dataclass(frozen=True, slots=True)
class Term:
    """A term of a triple: of its fields, `type` says which are used."""

    type: str = ""
    iri: str = ""
    id: str = ""
    value: str = ""
    datatype: str = ""
    language: str = ""
    triple: Triple | None = None


@dataclass(frozen=True, slots=True)
class Triple:
    """A triple; `g` is the IRI of its named graph, None for the default graph."""

    s: Term | None = None
    p: Term | None = None
    o: Term | None = None
    g: str | None = None


@dataclass(frozen=True, slots=True)
class Triples(Record):
    """Triples that were extracted from a chunk."""

    metadata: Metadata
    triples: Sequence[Triple] = ()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode a record. Raises `RequestError`, which names the invalid field."""
        record = decode(data, "Triples")
        return cls(
            Metadata.of(record, "Triples"),
            [
                _triple(each, f"Triples/triples/{index}")
                for index, each in enumerate(take(record, "Triples", triples=list).get("triples", []))
            ],
        )


@dataclass(frozen=True, slots=True)
class EntityContext:
    """A text about an entity, from the chunk `chunk_id`."""

    entity: Term | None = None
    context: str = ""
    chunk_id: str = ""
    rdf_type: Sequence[str] = ()
    attributes: Mapping[str, str | Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EntityContexts(Record):
    """Texts about the entities of a chunk."""

    metadata: Metadata
    entities: Sequence[EntityContext] = ()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode a record. Raises `RequestError`, which names the invalid field."""
        record = decode(data, "EntityContexts")
        return cls(
            Metadata.of(record, "EntityContexts"),
            [
                _context(each, f"EntityContexts/entities/{index}")
                for index, each in enumerate(
                    take(record, "EntityContexts", entities=list).get("entities", [])
                )
            ],
        )


@dataclass(frozen=True, slots=True)
class ExtractedObject(Record):
    """Rows of the table `schema_name`: the text of each value by the name of its field."""

    metadata: Metadata
    schema_name: str = ""
    values: Sequence[Mapping[str, str]] = ()
    confidence: float = 0.0
    source_span: str = ""

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode a record. Raises `RequestError`, which names the invalid field."""
        name = "ExtractedObject"
        record = decode(data, name)
        rows = [
            _object(row, f"{name}/values/{index}")
            for index, row in enumerate(take(record, name, values=list).get("values", []))
        ]
        return cls(
            metadata=Metadata.of(record, name),
            values=[
                take(row, f"{name}/values/{index}", **dict.fromkeys(row, str))
                for index, row in enumerate(rows)
            ],
            **take(record, name, schema_name=str, confidence=float, source_span=str),
        )


def _triple(value: object, where: str) -> Triple:
    record = _object(value, where)
    s, p, o = (_term(record.get(name), f"{where}/{name}") for name in ("s", "p", "o"))
    return Triple(s, p, o, **take(record, where, g=str))


def _term(value: object, where: str) -> Term | None:
    if value is None:
        return None
    record = _object(value, where)
    texts = take(record, where, type=str, iri=str, id=str, value=str, datatype=str, language=str)
    triple = record.get("triple")
    return Term(**texts, triple=None if triple is None else _triple(triple, f"{where}/triple"))


def _context(value: object, where: str) -> EntityContext:
    record = _object(value, where)
    return EntityContext(
        entity=_term(record.get("entity"), f"{where}/entity"),
        **take(record, where, context=str, chunk_id=str, rdf_type=list, attributes=dict),
    )


def _object(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise RequestError(f"{where}: found {json_type(value)}, expected an object")
    return value
