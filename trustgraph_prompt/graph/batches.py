"""The messages that carry a graph to TrustGraph's stores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final, TypeVar

from trustgraph_prompt.graph.statements import Context, Iri, Literal, Quoted, Statement
from trustgraph_prompt.wire.chunk import Chunk
from trustgraph_prompt.wire.graph import (
    IRI,
    LITERAL,
    TRIPLE,
    EntityContext,
    EntityContexts,
    Term,
    Triple,
    Triples,
)

MOST_TRIPLES: Final = 50
MOST_CONTEXTS: Final = 5
"""The triples, and the contexts, of one message: those of TrustGraph's extractors."""

_MOST_KEPT: Final = 10_000  # terms of IRIs that are cached

T = TypeVar("T")


def triples(
    statements: Iterable[Statement], chunk: Chunk, limit: int, *, batched: bool = True
) -> Iterator[bytes]:
    """Encode `Triples` with the statements that a chunk gave, unless `batched` as few as possible.

    Each has at most `limit` bytes, except for a single statement that is longer.
    """

    def encoded(batch: Sequence[Statement]) -> bytes:
        return Triples(chunk.metadata, [_triple(*statement) for statement in batch]).encode()

    return _messages(statements, MOST_TRIPLES if batched else None, encoded, limit)


def entity_contexts(
    contexts: Iterable[Context], chunk: Chunk, limit: int, *, batched: bool = True
) -> Iterator[bytes]:
    """Encode `EntityContexts` with the contexts that a chunk gave, as `triples` does it."""
    id = chunk.document_id or chunk.metadata.id

    def encoded(batch: Sequence[Context]) -> bytes:
        entities = [
            EntityContext(_term(context.entity), context.text, id, context.types) for context in batch
        ]
        return EntityContexts(chunk.metadata, entities).encode()

    return _messages(contexts, MOST_CONTEXTS if batched else None, encoded, limit)


def _messages(
    values: Iterable[T], most: int | None, encoded: Callable[[Sequence[T]], bytes], limit: int
) -> Iterator[bytes]:
    rest = iter(values)
    while batch := list(islice(rest, most)):
        yield from _fitting(batch, encoded, limit)


def _fitting(batch: Sequence[T], encoded: Callable[[Sequence[T]], bytes], limit: int) -> Iterator[bytes]:
    data = encoded(batch)
    if len(data) <= limit or len(batch) == 1:
        yield data
    else:
        half = len(batch) // 2
        yield from _fitting(batch[:half], encoded, limit)
        yield from _fitting(batch[half:], encoded, limit)


def _triple(subject: Iri, predicate: Iri, object: Iri | Literal | Quoted, graph: str = "") -> Triple:
    return Triple(_term(subject), _term(predicate), _term(object), graph or None)


@lru_cache(_MOST_KEPT)
def _iri_term(iri: Iri) -> Term:
    return Term(IRI, iri=str(iri))


def _term(term: Iri | Literal | Quoted) -> Term:
    if isinstance(term, Iri):
        return _iri_term(term)
    if isinstance(term, Literal):
        return Term(LITERAL, value=term.value, datatype=str(term.datatype), language=term.language)
    return Term(TRIPLE, triple=_triple(*term))
