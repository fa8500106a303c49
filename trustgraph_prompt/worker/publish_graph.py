"""Publishes the graph that the objects of a chunk make."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from typing import Final

from trustgraph_prompt import __version__
from trustgraph_prompt.broker.producer_pool import ProducerPool
from trustgraph_prompt.broker.retry_and_dead_letters import MAX_MESSAGE_SIZE
from trustgraph_prompt.compute_thread import beside
from trustgraph_prompt.contract import Grounded
from trustgraph_prompt.graph import batches
from trustgraph_prompt.graph.mapping import Graph, graph_of
from trustgraph_prompt.graph.names import naming
from trustgraph_prompt.graph.ontology_statements import ontology_graph
from trustgraph_prompt.graph.provenance import Origin, provenance
from trustgraph_prompt.graph.statements import Iri
from trustgraph_prompt.json_text.encoding import encode
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.wire import Chunk
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.messages.request import Request

MAX_UNCONFIRMED: Final = 500
"""Messages of one request that the broker has not confirmed yet."""

MAX_OBJECT_SIZE: Final = 400_000
"""Bytes of an object that surely fits into a message as statements or as a row, whatever its encoding."""

_STEPS = 400  # for each byte of the objects, see `compute_thread`

_naming = cache(naming)


async def publish_graph(
    prompt: PromptDefinition,
    objects: Sequence[object],
    grounded: Grounded | None,
    request: Request,
    flow: Flow,
    producers: ProducerPool,
) -> None:
    """Publish the triples and contexts of a chunk; all are durable on return. Raises `BrokerError`.

    The same objects of the same chunk make the same messages, byte for byte.
    """
    chunk = request.chunk
    if chunk is None:
        return

    def make() -> list[tuple[str, bytes]]:
        graph = _graph(prompt, objects, grounded, flow)
        return [*_messages(graph, _origin(prompt, request, chunk, flow), chunk, flow)]

    messages = iter(await beside(make, steps=_STEPS * len(encode(objects))))
    while batch := list(islice(messages, MAX_UNCONFIRMED)):
        await asyncio.gather(
            *(producers.send(topic, data, key=request.id, batch=True) for topic, data in batch)
        )


def _graph(
    prompt: PromptDefinition, objects: Sequence[object], grounded: Grounded | None, flow: Flow
) -> Graph:
    options, clause = flow.graph, prompt.graph or flow.graph.clause
    if flow.ontology is not None:
        derived, quotes = prompt.reading is not None, prompt.contract.quote_keys
        return ontology_graph(flow.ontology.ontology, objects, grounded, quotes, derived=derived)
    if clause is not None:
        named = _naming(options.base, exact=options.exact)
        return graph_of(clause, objects, named, grounded, prompt.contract.quote_keys)
    return Graph()


def _messages(graph: Graph, origin: Origin, chunk: Chunk, flow: Flow) -> Iterator[tuple[str, bytes]]:
    """The messages of a graph, each with its topic."""
    outputs, batched = flow.outputs, flow.graph.batched
    if outputs.triples is not None:
        statements = [
            *graph.labels,
            *graph.facts,
            *provenance(graph, origin, triple_terms=flow.graph.triple_terms),
        ]
        for data in batches.triples(statements, chunk, MAX_MESSAGE_SIZE, batched=batched):
            yield outputs.triples, data
    if outputs.entity_contexts is not None:
        for data in batches.entity_contexts(graph.contexts, chunk, MAX_MESSAGE_SIZE, batched=batched):
            yield outputs.entity_contexts, data


def _origin(prompt: PromptDefinition, request: Request, chunk: Chunk, flow: Flow) -> Origin:
    options = flow.graph
    return Origin(
        chunk=Iri.of(chunk.metadata.id or request.id, "urn:chunk:"),
        text=chunk.chunk,
        prompt=prompt.id,
        version=prompt.version,
        component=options.component or flow.name,
        component_version=__version__,
        published=request.published,
        model=options.model,
        ontology=Iri.of(options.ontology, "urn:ontology:") if options.ontology else None,
    )
