"""A piece of a document, as the chunker publishes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from trustgraph_prompt.json_text.encoding import encode
from trustgraph_prompt.wire.records import decode, take


@dataclass(frozen=True, slots=True)
class Metadata:
    """Where a chunk comes from."""

    id: str = ""
    root: str = ""
    collection: str = ""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document; on the wire its text is plain."""

    metadata: Metadata
    chunk: str
    document_id: str = ""

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Raises `RequestError` naming the field that is wrong."""
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

    def encode(self) -> bytes:
        """The record as it goes onto the topic."""
        return encode(self)
