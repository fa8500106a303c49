"""The same chunks and answers make the same graph as in TrustGraph's own extractors, on one real Pulsar."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pytest

from tests.support import trustgraph_extractors
from tests.support.graph_cases import JOBS, TEXT, Job, cases_of
from tests.support.parallel import shared_pulsar
from tests.support.published_graph import (
    OWN_FLOWS,
    Found,
    Published,
    Serving,
    extractors,
    own_flows,
    published,
    upstream,
)
from tests.support.pulsar_server import PulsarServer
from tests.support.requirements import unavailable

pytestmark = [pytest.mark.pulsar, pytest.mark.upstream, pytest.mark.xdist_group("trustgraph-extractors")]

AGENT, ROWS = "kg-extract-agent", "kg-extract-rows"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
OA = "http://www.w3.org/ns/oa#"
REIFIES = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies>"
OF_POSITIONS = re.compile(r"<https://trustgraph\.ai/(statement|target)/|\S+ <https://schema\.org/sha256>")
UNLIKE = (
    (r"<https://trustgraph\.ai/(subgraph|activity)/[0-9a-f-]+>", r"<\1>"),
    (r'(<\S+#startedAtTime>) "\d{4}-\d\d-\d\dT[\d:.]+Z"', r'\1 "time"'),
    (r'(<\S+/componentVersion>) "[\d.]+"', r'\1 "version"'),
    (r"<urn:chunk:[a-z-]+>", "<urn:chunk>"),
)
"""What is not the same of two graphs, and by what it is replaced."""


WAYS: Final = {"flows": (own_flows, OWN_FLOWS), "extractors": (extractors, JOBS)}
"""How a worker of ours serves which jobs."""

every_job = pytest.mark.parametrize(
    ("way", "job"),
    [pytest.param(way, job, id=f"{way}-{job.name}") for way, (_, jobs) in WAYS.items() for job in jobs],
)


@dataclass(frozen=True)
class Bench:
    """What is published of each case, by everybody."""

    upstream: Found
    ways: Mapping[str, Found]

    def theirs(self, job: Job) -> dict[str, Published]:
        """By case."""
        return {case.name: self.upstream[job.name, case.name] for case in cases_of(job)}

    def alike(self, way: str, job: Job) -> dict[str, Published]:
        """What TrustGraph publishes where the model says in a clean answer what ours finds in a case."""
        return {
            case.name: self.upstream[job.name, case.like if way == "flows" else case.like_once]
            for case in cases_of(job)
        }

    def ours(self, way: str, job: Job) -> dict[str, Published]:
        return {case.name: self.ways[way][job.name, case.name] for case in cases_of(job)}


@pytest.fixture(scope="module")
def bench(
    request: pytest.FixtureRequest, pulsar: PulsarServer, tmp_path_factory: pytest.TempPathFactory
) -> Bench:
    if not trustgraph_extractors.installed() or importlib.util.find_spec("trustgraph") is None:
        unavailable(trustgraph_extractors.MISSING)

    def found(serving: Serving, jobs: Sequence[Job]) -> Found:
        space, folder = shared_pulsar(request.config).take_space(), tmp_path_factory.mktemp("site")
        return asyncio.run(published(pulsar.url, space, folder, serving, jobs))

    return Bench(found(upstream, JOBS), {way: found(*served) for way, served in WAYS.items()})


@every_job
def test_the_same_objects_make_the_same_graph(way: str, job: Job, bench: Bench) -> None:
    made, alike = bench.ours(way, job), bench.alike(way, job)

    statements = {name: sorted(set(each.statements)) for name, each in alike.items()}
    assert {name: sorted(each.statements) for name, each in made.items()} == statements
    rows = {name: sorted(set(each.rows)) for name, each in alike.items()}
    assert {name: sorted(set(each.rows)) for name, each in made.items()} == rows  # both keep repeated ones
    contexts = {name: sorted(set(each.contexts)) for name, each in alike.items()}
    assert {name: sorted(contexts_like_theirs(job, each)) for name, each in made.items()} == contexts


@every_job
def test_all_that_trustgraph_publishes_is_in_our_graph(way: str, job: Job, bench: Bench) -> None:
    """Except what is against the schema, where TrustGraph does not check it."""
    made, theirs = bench.ours(way, job), bench.theirs(job)

    missing = [name for name, each in theirs.items() if not all_of(each) <= all_of(made[name])]
    unchecked = [case.name for case in cases_of(job) if case.against_the_schema]
    assert missing == (unchecked if job.workspace == "default" else [])


@every_job
def test_the_provenance_is_the_same_apart_from_ids_and_times(way: str, job: Job, bench: Bench) -> None:
    made, alike = bench.ours(way, job), bench.alike(way, job)

    expected = {name: sorted(set(comparable(each.provenance))) for name, each in alike.items()}
    assert {name: sorted(comparable(each.provenance)) for name, each in made.items()} == expected


@pytest.mark.parametrize("job", OWN_FLOWS, ids=lambda job: str(job.name))
def test_each_fact_says_where_it_stands(job: Job, bench: Bench) -> None:
    made = bench.ours("flows", job)
    for case in cases_of(job):
        lines = made[case.name].provenance
        facts = {line.partition("contains> ")[2] for line in lines if "/contains> " in line}
        assert {line.partition(f"{REIFIES} ")[2] for line in lines if f" {REIFIES} " in line} == facts
        digest = hashlib.sha256(case.text.encode()).hexdigest()
        assert (f'<{case.id}> <https://schema.org/sha256> "{digest}"' in lines) == bool(facts)
        quotes = dict(line.split(f" <{OA}exact> ") for line in lines if f" <{OA}exact> " in line)
        assert bool(quotes) == bool(facts)
        for quote, exact in quotes.items():
            position = quote.replace("#quote>", "#position>")
            start, end = (number(lines, f"{position} <{OA}{name}> ") for name in ("start", "end"))
            assert json.loads(exact) == case.text[start:end]


@every_job
def test_messages_have_metadata_and_sizes_like_trustgraphs(way: str, job: Job, bench: Bench) -> None:
    for by_case in bench.ours(way, job), bench.theirs(job):
        for name, each in by_case.items():
            id = f"urn:chunk:{name}" + (":volcanoes" if job.extractor == ROWS else "")
            metadata = f"Metadata(id={id!r}, root='urn:doc:1', collection='books')"
            assert {repr(message.metadata) for message in each.messages} <= {metadata}
            assert {(message.confidence, message.source_span) for message in each.output} <= {
                (0.8, TEXT[:100])
            }
            sizes = [len(message.triples) for message in each.triples]
            counts = [len(message.entities) for message in each.entity_contexts]
            if job.extractor == AGENT:
                assert (len(sizes), len(counts)) <= (1, 1)
            else:
                assert all(0 < size <= 50 for size in sizes)
                assert all(0 < count <= 5 for count in counts)
    for name, each in bench.ours(way, job).items():
        contexts = [context for message in each.entity_contexts for context in message.entities]
        assert {context.chunk_id for context in contexts} <= {f"urn:chunk:{name}"}


def all_of(published: Published) -> set[object]:
    return {*published.statements, *published.contexts, *published.rows}


def contexts_like_theirs(job: Job, made: Published) -> list[tuple[str, str]]:
    """The contexts; without those of names for TrustGraph's agent extractor, which publishes none of them."""
    if job.extractor != AGENT:
        return made.contexts
    statements = {*made.statements}
    return [
        (entity, text)
        for entity, text in made.contexts
        if f"<{entity}> <{LABEL}> {json.dumps(text, ensure_ascii=False)}" not in statements
    ]


def comparable(lines: list[str]) -> list[str]:
    """Statements about facts without those about positions, with names for what is different."""
    lines = [line for line in lines if not OF_POSITIONS.match(line)]
    for pattern, replacement in UNLIKE:
        lines = [re.sub(pattern, replacement, line) for line in lines]
    return lines


def number(lines: list[str], begins: str) -> int:
    [line] = [line for line in lines if line.startswith(begins)]
    return int(line[len(begins) :].split('"')[1])
