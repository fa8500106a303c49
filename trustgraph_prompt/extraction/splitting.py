"""How the documents of a run are split, which its state records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from trustgraph_prompt.documents import Chunk, Converter, Document
from trustgraph_prompt.documents.chunks import CHUNK_SIZE, NO_OVERLAP, Size, chunks, parse_overlap, parse_size


@dataclass(frozen=True)
class Splitting:
    """The size of chunks, and of what is shown before them."""

    size: Size = CHUNK_SIZE
    overlap: Size = NO_OVERLAP

    def read(self, path: Path, converter: Converter) -> tuple[Document, list[Chunk]]:
        """Read a file and split it. Raises `ConfigError` if it is not a usable document."""
        document = converter.read(path)
        return document, list(chunks(document, self.size, self.overlap))

    @classmethod
    def from_json(cls, recorded: Mapping[str, str]) -> Self:
        """Return what `as_json` recorded."""
        size = parse_size(recorded["chunk-size"], "chunk-size")
        return cls(size, parse_overlap(recorded["overlap"], size, "overlap"))

    def as_json(self) -> dict[str, str]:
        """Return what the state records."""
        splitter = "semantic-text-splitter"
        return {"splitter": splitter, "chunk-size": str(self.size), "overlap": str(self.overlap)}
