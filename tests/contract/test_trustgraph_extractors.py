"""The worker in the place of TrustGraph's extractors: chunks in, triples and contexts out."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.graph_records import EntityContexts, ExtractedObject, Triple, Triples
from tests.support.trustgraph_place import AtWork, Place, template, until
from tests.support.trustgraph_services import Completion, CompletionWorker, extractor_topics
from tests.support.workers import Heard, listening
from trustgraph_prompt.broker.topics import resolve
from trustgraph_prompt.trustgraph import config_client
from trustgraph_prompt.trustgraph.extractors import extractors
from trustgraph_prompt.trustgraph.flow_definitions import Processor
from trustgraph_prompt.wire import Chunk, Metadata
from trustgraph_prompt.worker.flow import Flow, TopicChoice

DEFINITIONS, RELATIONSHIPS, AGENT, ROWS, ONTOLOGY = (
    f"kg-extract-{name}" for name in ("definitions", "relationships", "agent", "rows", "ontology")
)
E = "http://trustgraph.ai/e/"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
DEFINITION = "http://www.w3.org/2004/02/skos/core#definition"

#: TrustGraph's prompts of these names are jsonl; the stock ones have no clause `graph`.
PROMPTS = {
    "template.extract-definitions": template("Define: {{ text }}", **{"response-type": "jsonl"}),
    "template.extract-relationships": template("Relate: {{ text }}", **{"response-type": "jsonl"}),
    "template.agent-kg-extract": template("Both: {{ text }}", **{"response-type": "jsonl"}),
    "template.extract-with-ontologies": template(
        "{% for id, c in classes.items() %}{{ id }} {% endfor %}in: {{ text }}", **{"response-type": "jsonl"}
    ),
    "template.extract-rows": template("{{ schema.name }} in: {{ text }}", **{"response-type": "jsonl"}),
}

Script = Callable[[dict[str, Any]], Completion]


def lines(*objects: object) -> Completion:
    return Completion("\n".join(map(json.dumps, objects)))


def about(request: dict[str, Any]) -> Completion:
    """A definition of what the chunk names, or that it is one, or both."""
    kind, _, name = request["prompt"].partition(": ")
    definition = {"entity": name, "definition": f"Some {name}."}
    relationship = {"subject": name, "predicate": "Is a", "object": "Rock", "object-entity": True}
    match kind:
        case "Define":
            return lines(definition)
        case "Relate":
            return lines(relationship)
    del relationship["object-entity"]
    return lines({"type": "definition", **definition}, {"type": "relationship", **relationship})


@dataclass
class Trial:
    """TrustGraph around the extractors, its chunks and its stores."""

    place: Place

    def topics(self, flow: str = "f", workspace: str = "default") -> dict[str, str]:
        return extractor_topics(self.place.space, workspace, flow)

    async def start_flow(self, *ids: str, flow: str = "f", workspace: str = "default") -> None:
        for id in ids:
            await self.place.config.start_flow(flow, self.topics(flow, workspace), workspace, processor=id)

    async def start_prompt_service(self, flow: str = "f", workspace: str = "default") -> None:
        await self.place.config.start_flow(flow, self.place.topics(flow, workspace), workspace)

    async def open(
        self, *ids: str, flow: str = "f", workspace: str = "default", script: Script = about
    ) -> CompletionWorker:
        """A flow of these extractors, with prompts, and a text-completion service for it."""
        await self.place.config.put(workspace, {("prompt", id): entry for id, entry in PROMPTS.items()})
        await self.start_prompt_service(flow, workspace)
        await self.start_flow(*ids, flow=flow, workspace=workspace)
        return await self.place.answer(flow, workspace, script=script)

    async def work(self, *ids: str, into: str | None = None, **settings: Any) -> AtWork:
        return await self.place.work(processors=extractors(ids, Processor(), into), **settings)

    async def put(self, text: str, id: str = "", flow: str = "f", workspace: str = "default") -> None:
        """Publish a chunk as TrustGraph's chunker does."""
        id = id or f"urn:chunk:{text}"
        chunk = {
            "metadata": {"id": id, "root": "urn:doc:1", "collection": "rocks"},
            "chunk": text,
            "document_id": id,
            "attributes": {},
        }
        producer = await self.place.broker.producer(resolve(self.topics(flow, workspace)["input"]))
        await producer.send(json.dumps(chunk).encode())
        await producer.close()

    async def hear(self, spec: str, flow: str = "f", workspace: str = "default", prefix: str = "") -> Heard:
        place, _, name = resolve(self.topics(flow, workspace)[spec]).rpartition("/")
        return await self.place.stack.enter_async_context(
            listening(self.place.broker, f"{place}/{prefix}{name}")
        )


@pytest.fixture
def trial(place: Place) -> Trial:
    return Trial(place)


def triples(heard: Heard) -> list[Triple]:
    return [triple for message in heard.messages for triple in Triples.decode(message.data).triples]


def facts(heard: Heard) -> Counter[tuple[str, str, str]]:
    """The statements that are no provenance, and how often each was published."""
    return Counter(
        (each.s.iri, each.p.iri, each.o.iri or each.o.value)
        for each in triples(heard)
        if each.s and each.p and each.o and each.g is None
    )


async def changed(working: AtWork, is_changed: Callable[[Flow], bool]) -> None:
    """Returns when its only flow has changed, and the old version has ended."""

    def has_ended() -> bool:
        return not any(task.get_name().startswith("end of flow") for task in asyncio.all_tasks())

    await until(lambda: all(map(is_changed, working.flow_set.flows)) and has_ended())


def of_definition(name: str) -> Counter[tuple[str, str, str]]:
    iri = E + name.lower()
    return Counter([(iri, LABEL, name), (iri, DEFINITION, f"Some {name}.")])


def of_relationship(name: str) -> Counter[tuple[str, str, str]]:
    iri = E + name.lower()
    return Counter(
        [
            (iri, E + "is-a", E + "rock"),
            (iri, LABEL, name),
            (E + "is-a", LABEL, "Is a"),
            (E + "rock", LABEL, "Rock"),
        ]
    )


async def test_two_extractors_both_get_each_chunk_and_ask_without_a_prompt_service(trial: Trial) -> None:
    worker = await trial.open(DEFINITIONS, RELATIONSHIPS)
    published, contexts = await trial.hear("triples"), await trial.hear("entity-contexts")
    await trial.work(DEFINITIONS, RELATIONSHIPS)

    await trial.put("Chalk")

    await published.until(2)
    [message] = await contexts.until(1)
    assert facts(published) == of_definition("Chalk") + of_relationship("Chalk")
    decoded = EntityContexts.decode(message.data)
    assert [(each.context, each.chunk_id) for each in decoded.entities] == [
        ("Chalk", "urn:chunk:Chalk"),
        ("Some Chalk.", "urn:chunk:Chalk"),
    ]
    source = Metadata("urn:chunk:Chalk", "urn:doc:1", "rocks")
    assert {Triples.decode(each.data).metadata for each in published.messages} == {source}
    assert decoded.metadata == source
    assert worker.asked == {"Define: Chalk": 1, "Relate: Chalk": 1}
    agents = {each.s.iri for each in triples(published) if each.s and "/agent/" in each.s.iri}
    assert agents == {f"https://trustgraph.ai/agent/{id}" for id in (DEFINITIONS, RELATIONSHIPS)}


async def test_workspaces_and_variants_are_served_separately(trial: Trial) -> None:
    places = [(workspace, flow) for workspace in ("one", "two") for flow in ("f", "g")]
    heard, workers = {}, {}
    for workspace, flow in places:
        workers[workspace, flow] = await trial.open(RELATIONSHIPS, flow=flow, workspace=workspace)
        heard[workspace, flow] = await trial.hear("triples", flow, workspace)
    working = await trial.work(DEFINITIONS, RELATIONSHIPS)
    inputs = {place: resolve(trial.topics(place[1], place[0])["input"]) for place in places}
    await working.serves({f"{w}/{f}/{RELATIONSHIPS}": topic for (w, f), topic in inputs.items()})

    for workspace, flow in places:
        await trial.put(f"{workspace}{flow}", flow=flow, workspace=workspace)

    for (workspace, flow), published in heard.items():
        await published.until(1)
        assert facts(published) == of_relationship(f"{workspace}{flow}")
        assert workers[workspace, flow].asked == {f"Relate: {workspace}{flow}": 1}


async def test_the_agent_extractor_has_its_own_iris_and_one_message_a_chunk(trial: Trial) -> None:
    def script(request: dict[str, Any]) -> Completion:
        definitions = [{"type": "definition", "entity": f"Rock {n}", "definition": "x"} for n in range(60)]
        fact = {"type": "relationship", "subject": "Rock 1", "predicate": "Is", "object": "Old Rock"}
        return lines(*definitions, fact)

    await trial.open(AGENT, script=script)
    published, contexts = await trial.hear("triples"), await trial.hear("entity-contexts")
    await trial.work(AGENT)

    await trial.put("Rocks")

    await published.until(1)
    [message] = await contexts.until(1)
    assert {each.context for each in EntityContexts.decode(message.data).entities} > {"x"}
    assert facts(published)[E + "Rock%201", E + "Is", E + "Old%20Rock"] == 1
    assert len(await published.all()) == 1


async def test_rows_are_those_of_the_tables_that_the_workspace_has_now(trial: Trial) -> None:
    def table(name: str) -> str:
        return json.dumps({"name": name, "fields": [{"name": "name", "type": "string", "required": True}]})

    config, published = trial.place.config, await trial.hear("output")
    await config.set("schema", "default", "hills", table("Hill"))
    worker = await trial.open(ROWS, script=lambda request: lines({"name": "Etna"}))
    working = await trial.work(ROWS)
    await trial.put("Etna")
    await published.until(1)

    await config.set("schema", "default", "rivers", "{}")
    await until(lambda: "schema 'rivers'" in "".join(working.worker.health.notes().values()))
    await trial.put("Alcantara")
    await published.until(2)

    await config.put("default", {("schema", key): table(key) for key in ("hills", "rivers")})
    await changed(working, lambda flow: [*flow.tables] == ["hills", "rivers"])
    await trial.put("Simeto")
    rows = [ExtractedObject.decode(message.data) for message in await published.until(4)]
    assert [(row.schema_name, row.metadata.id) for row in rows] == [
        ("hills", "urn:chunk:Etna:hills"),
        ("hills", "urn:chunk:Alcantara:hills"),
        ("hills", "urn:chunk:Simeto:hills"),
        ("rivers", "urn:chunk:Simeto:rivers"),
    ]
    assert [row.values for row in rows] == [[{"name": "Etna"}]] * 4
    assert [*worker.asked] == ["Hill in: Etna", "Hill in: Alcantara", "hills in: Simeto", "rivers in: Simeto"]


async def test_the_ontology_is_that_of_the_workspace_now(trial: Trial) -> None:
    config, published = trial.place.config, await trial.hear("triples")
    etna = {"type": "entity", "entity": "Etna", "entity_type": "Hill"}
    worker = await trial.open(ONTOLOGY, script=lambda request: lines(etna))
    await config.set("ontology", "default", "land", json.dumps({"classes": {"Hill": {}}}))
    working = await trial.work(ONTOLOGY)
    await trial.put("Etna")
    await published.until(1)

    worker.script = lambda request: lines({**etna, "entity_type": "Volcano"})
    await config.set("ontology", "default", "land", json.dumps({"classes": {"Volcano": {}}}))
    await changed(
        working, lambda flow: flow.ontology is not None and "Volcano" in flow.ontology.ontology.classes
    )
    await trial.put("Etna erupts")
    await published.until(2)

    assert [*worker.asked] == ["Hill in: Etna", "Volcano in: Etna erupts"]
    entities = {subject for subject, _, _ in facts(published) if "etna" in subject}
    assert entities == {f"https://trustgraph.ai/land/{name}-etna" for name in ("hill", "volcano")}


async def test_a_prompt_of_the_workspace_and_its_clause_are_in_force_at_once(trial: Trial) -> None:
    worker = await trial.open(DEFINITIONS)
    published = await trial.hear("triples")
    working = await trial.work(DEFINITIONS)
    [flow] = working.flow_set.flows
    clause = [{"entity": {"subject": "entity", "class": "Stone"}}]
    schema = {"type": "object", "properties": {"entity": {"type": "string"}}, "required": ["entity"]}
    settings = {"dialect": "ibis", "response-type": "jsonl", "object-schema": schema, "graph": clause}

    def in_force() -> str:
        return working.worker.prompts["default"].prompts["extract-definitions"].version

    before = in_force()
    entry = template("Name: {{ text }}", **settings)
    await trial.place.config.set("prompt", "default", "template.extract-definitions", entry)
    await until(lambda: in_force() != before)
    worker.script = lambda request: lines({"entity": "Chalk"})
    await trial.put("Chalk")

    await published.until(1)
    [question] = worker.asked
    assert question.startswith("Name: Chalk")
    assert (E + "chalk", "http://www.w3.org/1999/02/22-rdf-syntax-ns#type", E + "stone") in facts(published)
    assert working.flow_set.flows == [flow]


async def test_chunks_wait_until_the_prompt_service_has_a_flow_and_ask_where_it_asks(trial: Trial) -> None:
    place, published = trial.place, await trial.hear("triples")
    first = await trial.open(DEFINITIONS)
    await place.config.stop_flow("f")
    working = await trial.work(DEFINITIONS)
    noted = f"config entry processor:{DEFINITIONS} default/f"
    assert "processor:prompt default/f" in working.worker.health.notes()[noted]
    assert working.flows == {}
    await trial.put("Chalk")

    await trial.start_prompt_service()

    await published.until(1)
    await until(lambda: working.worker.health.notes() == {})
    second = await place.answer("g", script=about)
    await place.config.start_flow("f", place.topics("g"))  # the same name, other topics
    asked = resolve(place.topics("g")["text-completion-request"])
    await changed(
        working, lambda flow: isinstance(flow.provider, TopicChoice) and flow.provider.request == asked
    )
    await trial.put("Flint")

    await published.until(2)
    assert facts(published) == of_definition("Chalk") + of_definition("Flint")
    assert (set(first.asked), set(second.asked)) == ({"Define: Chalk"}, {"Define: Flint"})


async def test_a_flow_of_one_extractor_starts_and_stops_without_the_others(trial: Trial) -> None:
    await trial.open(DEFINITIONS)
    working = await trial.work(DEFINITIONS, RELATIONSHIPS)
    input = trial.topics()["input"]
    await working.serves({f"default/f/{DEFINITIONS}": input})

    await trial.start_flow(RELATIONSHIPS)
    await working.serves({f"default/f/{id}": input for id in (DEFINITIONS, RELATIONSHIPS)})
    await trial.place.config.stop_flow("f", processor=DEFINITIONS)
    await working.serves({f"default/f/{RELATIONSHIPS}": input})
    await trial.place.config.stop_flow("f", processor=RELATIONSHIPS)
    await working.serves({})


async def test_each_type_of_config_is_fetched_once_for_a_workspace(trial: Trial) -> None:
    await trial.open(DEFINITIONS, RELATIONSHIPS, AGENT)
    await trial.work(DEFINITIONS, RELATIONSHIPS, AGENT)

    fetched = Counter(
        request["type"] for request in trial.place.config.requests if request["operation"] == "getvalues"
    )
    types = [f"processor:{id}" for id in (DEFINITIONS, RELATIONSHIPS, AGENT, "prompt")]
    assert fetched == dict.fromkeys([*types, "prompt"], 1)


async def test_a_type_that_cannot_be_fetched_holds_up_its_workspace_only(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config_client, "SECONDS_FOR_AN_ANSWER", 0.3)
    for workspace in ("bad", "good"):
        await trial.open(DEFINITIONS, RELATIONSHIPS, workspace=workspace)
    held = trial.place.config.held
    held["bad", "processor:prompt"] = asyncio.Event()
    working = await trial.work(DEFINITIONS, RELATIONSHIPS)
    expected = {
        f"{workspace}/f/{id}": trial.topics(workspace=workspace)["input"]
        for workspace in ("bad", "good")
        for id in (DEFINITIONS, RELATIONSHIPS)
    }
    await working.serves({name: topic for name, topic in expected.items() if name.startswith("good")})
    assert "processor:prompt of workspace bad" in working.worker.health.notes()

    held["bad", "processor:prompt"].set()

    await working.serves(expected)
    await until(lambda: working.worker.health.notes() == {})


async def test_a_trial_gets_all_chunks_and_publishes_beside_theirs(trial: Trial) -> None:
    await trial.open(DEFINITIONS)
    theirs = await trial.place.broker.consumer(
        resolve(trial.topics()["input"]), f"{DEFINITIONS}--default--f--input"
    )
    published, beside = await trial.hear("triples"), await trial.hear("triples", prefix="trial-")
    contexts = await trial.hear("entity-contexts", prefix="trial-")
    await trial.work(DEFINITIONS, into="trial")

    for name in ("Chalk", "Flint"):
        await trial.put(name)
    for _ in range(2):
        message = await theirs.receive()
        assert message is not None
        await theirs.acknowledge(message)

    await beside.until(2)
    await contexts.until(2)
    assert facts(beside) == of_definition("Chalk") + of_definition("Flint")
    assert await published.all() == []
    await theirs.close()


async def test_a_chunk_that_cannot_be_served_becomes_a_dead_letter_and_no_other(trial: Trial) -> None:
    def script(request: dict[str, Any]) -> Completion:
        return Completion("I am sorry.") if "Slate" in request["prompt"] else about(request)

    await trial.open(DEFINITIONS, RELATIONSHIPS, script=script)
    published = await trial.hear("triples")
    input = resolve(trial.topics()["input"])
    letters = [
        await trial.place.stack.enter_async_context(
            listening(trial.place.broker, f"{input}-{id}--default--f--input-DLQ")
        )
        for id in (DEFINITIONS, RELATIONSHIPS)
    ]
    await trial.work(DEFINITIONS, RELATIONSHIPS)

    for name in ("Chalk", "Slate", "Flint"):
        await trial.put(name)

    await published.until(4)
    for heard in letters:
        [letter] = await heard.until(1)
        assert Chunk.decode(letter.data).chunk == "Slate"
    said = [of(name) for of in (of_definition, of_relationship) for name in ("Chalk", "Flint")]
    assert facts(published) == sum(said, Counter())


async def test_trustgraphs_metrics_are_labelled_by_extractor(trial: Trial) -> None:
    await trial.open(DEFINITIONS, RELATIONSHIPS)
    published = await trial.hear("triples")
    metrics = (await trial.work(DEFINITIONS, RELATIONSHIPS)).worker.metrics
    await trial.put("Chalk")
    await published.until(2)

    input, both = trial.topics()["input"], f"{DEFINITIONS},{RELATIONSHIPS}"
    expected = [
        f'tg_consumer_processing_total{{consumer="{input}",processor="{id}",status="ok"}} 1.0'
        for id in (DEFINITIONS, RELATIONSHIPS)
    ]
    expected.append(
        f'tg_producer_messages_total{{processor="{both}",producer="{trial.topics()["triples"]}"}} 2.0'
    )
    await until(lambda: all(line in metrics.text().decode() for line in expected))
