"""Chunks of documents, as TrustGraph's chunker publishes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from trustgraph_prompt.wire.records import Record, decode, take


@dataclass(frozen=True, slots=True)
class Metadata:
    """The source of a chunk: its id, the id of its root document, its collection."""

    id: str = ""
    root: str = ""
    collection: str = ""

    @classmethod
    def of(cls, record: Mapping[str, Any], where: str) -> Self:
        """Take the metadata out of a record of type `where`. Raises `RequestError`."""
        metadata = take(record, where, metadata=dict).get("metadata", {})
        return cls(**take(metadata, f"{where}/metadata", id=str, root=str, collection=str))


@dataclass(frozen=True, slots=True)
class Chunk(Record):
    """A piece of a document; `chunk` is its text, unencoded."""

    metadata: Metadata
    chunk: str
    document_id: str = ""

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode a record. Raises `RequestError`, which names the invalid field."""
        record = decode(data, "Chunk")
        metadata = Metadata.of(record, "Chunk")
        return cls(metadata, **{"chunk": "", **take(record, "Chunk", chunk=str, document_id=str)})
