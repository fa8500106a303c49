"""Chunks of documents, as TrustGraph's chunker publishes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from trustgraph_prompt.wire.records import Record, decode, take


@dataclass(frozen=True, slots=True)
class Metadata:
    """The source of a chunk: its id, the id of its root document, its collection."""

    id: str = ""
    root: str = ""
    collection: str = ""


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
        metadata: dict[str, Any] = take(record, "metadata", dict, {}, "Chunk")
        return cls(
            metadata=Metadata(
                **{
                    key: take(metadata, key, str, "", "Chunk/metadata")
                    for key in ("id", "root", "collection")
                }
            ),
            chunk=take(record, "chunk", str, "", "Chunk"),
            document_id=take(record, "document_id", str, "", "Chunk"),
        )
