"""A process in the place of TrustGraph's extractors; TrustGraph's own classes read what it publishes."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest

from tests.support.requirements import unavailable
from tests.support.trustgraph_services import extractor_topics
from tests.support.trustgraph_site import TrustGraphSite
from tests.support.workers import listening
from trustgraph_prompt.broker.topics import resolve

pytestmark = [pytest.mark.pulsar, pytest.mark.upstream]

IDS = ("kg-extract-definitions", "kg-extract-relationships")
E = "http://trustgraph.ai/e/"


def answer(request: dict[str, Any]) -> str:
    if request["prompt"].startswith("Define"):
        return '{"entity": "Mount Etna", "definition": "A volcano."}'
    return '{"subject": "Mount Etna", "predicate": "lies in", "object": "Sicily", "object-entity": true}'


def read(name: str, data: bytes) -> Any:
    """A message as TrustGraph's stores read it."""
    try:
        schema = importlib.import_module("trustgraph.schema")
    except ModuleNotFoundError:
        unavailable("no trustgraph-base: pip install trustgraph-prompt[upstream]")
    serialization = importlib.import_module("trustgraph.base.serialization")
    return serialization.dict_to_dataclass(json.loads(data), getattr(schema, name))


async def test_chunks_become_the_graph_in_their_place_and_beside_it(trustgraph: TrustGraphSite) -> None:
    topics = extractor_topics(trustgraph.space, "default", "default")
    for id in IDS:
        await trustgraph.config.start_flow("default", topics, processor=id)
    await trustgraph.start_flow()
    jsonl = {"response-type": "jsonl"}
    await trustgraph.prompts(
        extract_definitions={"prompt": "Define: {{ text }}", **jsonl},
        extract_relationships={"prompt": "Relate: {{ text }}", **jsonl},
    )
    model = await trustgraph.model(answer)
    options = [word for id in IDS for word in ("--extractor", id)]
    await trustgraph.work(*options)
    await trustgraph.work(*options, "--into", "trial")
    chunk = {
        "metadata": {"id": "urn:chunk:1", "root": "urn:doc:1", "collection": "default"},
        "chunk": "Mount Etna lies in Sicily.",
        "document_id": "urn:chunk:1",
        "attributes": {},
    }
    producer = await trustgraph.broker.producer(resolve(topics["input"]))
    await producer.send(json.dumps(chunk).encode())

    for prefix in ("", "trial-"):
        triples, contexts = (
            resolve(topics[spec].replace(f":{trustgraph.space}:", f":{trustgraph.space}:{prefix}"))
            for spec in ("triples", "entity-contexts")
        )
        async with listening(trustgraph.broker, triples) as heard:
            messages = [read("Triples", message.data) for message in await heard.until(2)]
        facts = {
            (each.s.iri, each.p.iri, each.o.iri or each.o.value)
            for message in messages
            for each in message.triples
            if each.g is None and each.p.iri != "http://www.w3.org/2000/01/rdf-schema#label"
        }
        assert facts == {
            (E + "mount-etna", "http://www.w3.org/2004/02/skos/core#definition", "A volcano."),
            (E + "mount-etna", E + "lies-in", E + "sicily"),
        }
        assert {message.metadata.id for message in messages} == {"urn:chunk:1"}
        async with listening(trustgraph.broker, contexts) as heard:
            [message] = [read("EntityContexts", message.data) for message in await heard.until(1)]
        assert [each.context for each in message.entities] == ["Mount Etna", "A volcano."]
    assert sum(model.asked.values()) == 4
    await producer.close()
