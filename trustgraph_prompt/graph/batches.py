"""The messages that carry a graph to TrustGraph's stores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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

T = TypeVar("T")


def triples(statements: Iterable[Statement], chunk: Chunk) -> Iterator[Triples]:
    """Make the messages for the statements that a chunk gave."""
    for batch in _batched(statements, MOST_TRIPLES):
        yield Triples(chunk.metadata, [_triple(*statement) for statement in batch])


def entity_contexts(contexts: Iterable[Context], chunk: Chunk) -> Iterator[EntityContexts]:
    """Make the messages for the contexts that a chunk gave."""
    id = chunk.document_id or chunk.metadata.id
    for batch in _batched(contexts, MOST_CONTEXTS):
        entities = [
            EntityContext(_term(context.entity), context.text, id, context.types) for context in batch
        ]
        yield EntityContexts(chunk.metadata, entities)


def _batched(values: Iterable[T], most: int) -> Iterator[Sequence[T]]:
    rest = iter(values)
    while batch := list(islice(rest, most)):
        yield batch


def _triple(subject: Iri, predicate: Iri, object: Iri | Literal | Quoted, graph: str = "") -> Triple:
    return Triple(_term(subject), _term(predicate), _term(object), graph or None)


def _term(term: Iri | Literal | Quoted) -> Term:
    if isinstance(term, Iri):
        return Term(IRI, iri=str(term))
    if isinstance(term, Literal):
        return Term(LITERAL, value=term.value, datatype=str(term.datatype), language=term.language)
    return Term(TRIPLE, triple=_triple(*term))
