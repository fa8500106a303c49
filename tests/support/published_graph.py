"""What extractors publish of the same chunks and answers, TrustGraph's and ours, on a real broker."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.support.graph_cases import ENTRIES, JOBS, TABLES, Case, Job, cases_of
from tests.support.trustgraph_extractors import MODULES, trustgraph_processor
from tests.support.trustgraph_services import Script, agent
from tests.support.trustgraph_site import TrustGraphSite

SOURCE: Final = "urn:graph:source"
_RECORDS: Final = {"triples": "Triples", "entity-contexts": "EntityContexts", "output": "ExtractedObject"}


@dataclass
class Published:
    """The messages that came of a chunk, by the name of the output, as TrustGraph's classes read them."""

    triples: list[Any] = field(default_factory=list)
    entity_contexts: list[Any] = field(default_factory=list)
    output: list[Any] = field(default_factory=list)

    @property
    def messages(self) -> list[Any]:
        return [*self.triples, *self.entity_contexts, *self.output]

    @property
    def statements(self) -> list[str]:
        """Those of the default graph, as lines."""
        return [_line(each) for message in self.triples for each in message.triples if each.g is None]

    @property
    def provenance(self) -> list[str]:
        """The statements about them."""
        return [_line(each) for message in self.triples for each in message.triples if each.g == SOURCE]

    @property
    def contexts(self) -> list[tuple[str, str]]:
        """Entities and the texts by which they are found."""
        found = [each for message in self.entity_contexts for each in message.entities]
        return [(each.entity.iri, each.context) for each in found]

    @property
    def rows(self) -> list[str]:
        """Each as JSON, after the name of its table."""
        return [
            f"{message.schema_name} {json.dumps(row, sort_keys=True)}"
            for message in self.output
            for row in message.values
        ]


def _line(triple: Any) -> str:
    return " ".join(map(_term, (triple.s, triple.p, triple.o)))


def _term(term: Any) -> str:
    if term.type == "i":
        return f"<{term.iri}>"
    if term.type == "t":
        return f"<<( {_line(term.triple)} )>>"
    return json.dumps(term.value, ensure_ascii=False) + (f"^^<{term.datatype}>" if term.datatype else "")


#: By the names of the job and the case.
Found = dict[tuple[str, str], Published]

Serving = Callable[[TrustGraphSite], AbstractAsyncContextManager[None]]


async def published(
    url: str, space: str, folder: Path, serving: Serving, jobs: Sequence[Job] = JOBS
) -> Found:
    """All that is published of the cases, by whoever serves the jobs for the time of the block."""
    async with AsyncExitStack() as stack:
        site = TrustGraphSite(folder, stack, url, space)
        await site.open()
        await _configure(site, stack)
        await stack.enter_async_context(serving(site))
        found = await asyncio.gather(*(_published(site, job) for job in jobs))
    return {key: value for each in found for key, value in each.items()}


@asynccontextmanager
async def upstream(site: TrustGraphSite) -> AsyncIterator[None]:
    """TrustGraph's extractors and its prompt service."""
    async with AsyncExitStack() as stack:
        started = [
            stack.enter_context(trustgraph_processor(id, site.url, site.space, site.folder)).started()
            for id in MODULES
        ]
        await asyncio.gather(*started)
        yield


#: The bundled prompts as they were without quotes: TrustGraph's answers have none, and a quote moves a fact.
PROMPTS: Final = Path(__file__).parents[1] / "data" / "prompts-without-quotes"

#: Our own flows know the common rule for names only.
OWN_FLOWS: Final = [
    job for job in JOBS if job.workspace == "default" and "triples" in job.outputs and "agent" not in job.name
]


@asynccontextmanager
async def own_flows(site: TrustGraphSite) -> AsyncIterator[None]:
    """A worker of ours with a flow for each of the jobs `OWN_FLOWS`."""
    flows = site.folder / "flows"
    flows.mkdir()
    for job in OWN_FLOWS:
        asked = site.topics(job.name, job.workspace)
        flow = {
            "name": job.extractor,
            "input": {"topic": job.topic(site.space, "input"), "kind": "chunk"},
            "prompt": job.prompt,
            "outputs": {spec: job.topic(site.space, spec) for spec in job.outputs}
            | {"answers": job.topic(site.space, "answers")},
            "provider": {
                "request": asked["text-completion-request"],
                "response": asked["text-completion-response"],
            },
            "concurrency": 1,
        }
        (flows / f"{job.name}.yaml").write_text(json.dumps(flow))
    config = f"persistent://{site.space}/config/prompt"
    where = ("--broker", site.url, "--topic", config, "--templates", PROMPTS, "--flows", flows)
    await site.start("run", *where)
    yield


@asynccontextmanager
async def extractors(site: TrustGraphSite) -> AsyncIterator[None]:
    """A worker of ours in the place of TrustGraph's extractors."""
    ids = dict.fromkeys(job.extractor for job in JOBS)
    await site.work(*(option for id in ids for option in ("--extractor", id)), "--concurrency", 1)
    yield


async def _configure(site: TrustGraphSite, stack: AsyncExitStack) -> None:
    for workspace, entries in ENTRIES.items():
        await site.prompts(workspace, **entries)
    await site.config.put("default", {("schema", name): table for name, table in TABLES.items()})
    for job in JOBS:
        place = job.name, job.workspace
        asked = site.topics(*place)
        topics = {
            "input": job.topic(site.space, "input"),
            "prompt-request": asked["request"],
            "prompt-response": asked["response"],
            "agent-request": f"request:{site.space}:agent:{job.name}",
            "agent-response": f"response:{site.space}:agent:{job.name}",
            **{spec: job.topic(site.space, spec) for spec in job.outputs},
        }
        await site.start_flow(*place)
        await site.config.start_flow(*place[:1], topics, job.workspace, job.extractor)
        await site.model(_script(job, "prompt"), *place)
        if "agent" in job.extractor:
            await stack.enter_async_context(
                agent(
                    site.broker, topics["agent-request"], topics["agent-response"], _script(job, "question")
                )
            )


def _script(job: Job, key: str) -> Script:
    """Says of each chunk what its case says."""
    cases, asked = cases_of(job), Counter[str]()

    def say(request: dict[str, Any]) -> str:
        case = next(case for case in cases if case.mark in request[key])
        asked[case.name] += 1
        return case.answer if case.rest is None or asked[case.name] == 1 else case.rest

    return say


async def _published(site: TrustGraphSite, job: Job) -> Found:
    cases = cases_of(job)
    producer = await site.broker.producer(job.topic(site.space, "input"))
    for case in cases:
        await producer.send(json.dumps(_chunk(case)).encode())
    await producer.close()
    found = {(job.name, case.name): Published() for case in cases}
    for spec in job.outputs:
        for record in await _all_on(site, job.topic(site.space, spec), _RECORDS[spec], cases[-1].id):
            name = record.metadata.id.removeprefix("urn:chunk:").partition(":")[0]
            getattr(found[job.name, name], spec.replace("-", "_")).append(record)
    return found


def _chunk(case: Case) -> dict[str, Any]:
    metadata = {"id": case.id, "root": "urn:doc:1", "collection": "books"}
    return {"metadata": metadata, "chunk": case.text, "document_id": case.id}


async def _all_on(site: TrustGraphSite, topic: str, kind: str, last: str) -> list[Any]:
    """The records of a topic, up to those of the last chunk: one at a time, so in the order of the chunks."""
    reader = await site.broker.reader(topic)
    records: list[Any] = []
    async with asyncio.timeout(150):
        while (message := await reader.receive()) is not None:
            records.append(read(kind, message.data))
            if records[-1].metadata.id.startswith(last):
                break
    await reader.close()
    return records


def read(kind: str, data: bytes) -> Any:
    """A record as TrustGraph's own classes read it."""
    schema = importlib.import_module("trustgraph.schema")
    serialization: Any = importlib.import_module("trustgraph.base.serialization")
    return serialization.dict_to_dataclass(json.loads(data), getattr(schema, kind))
