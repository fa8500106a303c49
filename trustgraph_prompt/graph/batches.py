"""The messages that carry a graph to TrustGraph's stores.

They are joined from encoded terms, which takes a third of the time that encoding whole records would take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final, TypeVar

import orjson

from trustgraph_prompt.graph.statements import Context, Iri, Literal, Statement, TripleTerm
from trustgraph_prompt.json_text.encoding import encode
from trustgraph_prompt.wire.chunk import Chunk

MOST_TRIPLES: Final = 50
MOST_CONTEXTS: Final = 5
"""The triples, and the contexts, of one message: those of TrustGraph's extractors."""

_MOST_KEPT, _LONGEST_KEPT = 10_000, 300  # IRIs whose encoded terms are cached, and characters of each

T = TypeVar("T")


def triples(
    statements: Iterable[Statement], chunk: Chunk, limit: int, *, batched: bool = True
) -> Iterator[bytes]:
    """Encode `Triples` with the statements that a chunk gave, unless `batched` as few as possible.

    Each has at most `limit` bytes, except for a single statement that is longer.
    """

    metadata = encode(chunk.metadata)

    def encoded(batch: Sequence[Statement]) -> bytes:
        return b'{"metadata":%b,"triples":[%b]}' % (metadata, b",".join([_triple(*each) for each in batch]))

    return messages(statements, MOST_TRIPLES if batched else None, encoded, limit)


def entity_contexts(
    contexts: Iterable[Context], chunk: Chunk, limit: int, *, batched: bool = True
) -> Iterator[bytes]:
    """Encode `EntityContexts` with the contexts that a chunk gave, as `triples` does it."""
    metadata, id = encode(chunk.metadata), encode(chunk.document_id or chunk.metadata.id)

    def encoded(batch: Sequence[Context]) -> bytes:
        entities = [
            _CONTEXT % (_iri(each.entity), _string(each.text), id, encode(each.types)) for each in batch
        ]
        return b'{"metadata":%b,"entities":[%b]}' % (metadata, b",".join(entities))

    return messages(contexts, MOST_CONTEXTS if batched else None, encoded, limit)


def messages(
    values: Iterable[T], most: int | None, encoded: Callable[[Sequence[T]], bytes], limit: int
) -> Iterator[bytes]:
    """Encode values, at most so many to a message, and of at most `limit` bytes unless one alone has more."""
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


_TRIPLE = b'{"s":%b,"p":%b,"o":%b,"g":%b}'
_TERM = b'{"type":"%b","iri":%b,"id":"","value":%b,"datatype":%b,"language":"","triple":%b}'
_CONTEXT = b'{"entity":%b,"context":%b,"chunk_id":%b,"rdf_type":%b,"attributes":{}}'


def _triple(subject: Iri, predicate: Iri, object: Iri | Literal | TripleTerm, graph: str = "") -> bytes:
    named = encode(graph) if graph else b"null"
    return _TRIPLE % (_iri(subject), _iri(predicate), _term(object), named)


def _iri(iri: Iri) -> bytes:
    return _short_iri(iri) if len(iri) <= _LONGEST_KEPT else _short_iri.__wrapped__(iri)


@lru_cache(_MOST_KEPT)
def _short_iri(iri: Iri) -> bytes:
    return _TERM % (b"i", encode(str(iri)), b'""', b'""', b"null")


def _term(term: Iri | Literal | TripleTerm) -> bytes:
    if isinstance(term, Iri):
        return _iri(term)
    if isinstance(term, Literal):
        return _TERM % (b"l", b'""', _string(term.value), encode(str(term.datatype)), b"null")
    return _TERM % (b"t", b'""', b'""', b'""', _triple(*term))


def _string(text: str) -> bytes:
    """A text as JSON in UTF-8, which has no lone surrogates: a reader would refuse the whole message."""
    try:
        return orjson.dumps(text)
    except orjson.JSONEncodeError:
        return orjson.dumps(text.encode(errors="replace").decode())
