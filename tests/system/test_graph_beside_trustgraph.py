"""The same chunks and answers make the same graph as in TrustGraph's own extractors, on one real Pulsar."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import json
import re

import pytest

from tests.support import trustgraph_extractors
from tests.support.graph_cases import Case, Job, cases_of
from tests.support.parallel import shared_pulsar
from tests.support.published_graph import OWN_FLOWS, Found, Published, own_flows, published, upstream
from tests.support.pulsar_server import PulsarServer
from tests.support.requirements import unavailable

pytestmark = [pytest.mark.pulsar, pytest.mark.upstream, pytest.mark.xdist_group("trustgraph-extractors")]

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


@pytest.fixture(scope="module")
def theirs(
    request: pytest.FixtureRequest, pulsar: PulsarServer, tmp_path_factory: pytest.TempPathFactory
) -> Found:
    """What TrustGraph's extractors publish."""
    if not trustgraph_extractors.installed() or importlib.util.find_spec("trustgraph") is None:
        unavailable(trustgraph_extractors.MISSING)
    space = shared_pulsar(request.config).take_space()
    return asyncio.run(published(pulsar.url, space, tmp_path_factory.mktemp("theirs"), upstream))


@pytest.fixture(scope="module")
def ours(
    request: pytest.FixtureRequest,
    theirs: Found,
    pulsar: PulsarServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Found:
    """What our worker publishes."""
    space = shared_pulsar(request.config).take_space()
    folder = tmp_path_factory.mktemp("ours")
    return asyncio.run(published(pulsar.url, space, folder, own_flows, OWN_FLOWS))


every_case = pytest.mark.parametrize(
    ("job", "case"),
    [pytest.param(job, case, id=f"{job.name}-{case.name}") for job in OWN_FLOWS for case in cases_of(job)],
)


@every_case
def test_the_same_objects_make_the_same_graph(job: Job, case: Case, theirs: Found, ours: Found) -> None:
    made, alike = ours[job.name, case.name], theirs[job.name, case.like]

    assert sorted(made.statements) == sorted(set(alike.statements))
    assert sorted(made.contexts) == sorted(set(alike.contexts))


@every_case
def test_all_that_trustgraph_publishes_is_in_our_graph(
    job: Job, case: Case, theirs: Found, ours: Found
) -> None:
    made, found = ours[job.name, case.name], theirs[job.name, case.name]

    is_all_there = {*found.statements} <= {*made.statements} and {*found.contexts} <= {*made.contexts}
    assert is_all_there != case.against_the_schema


@every_case
def test_the_provenance_is_the_same_apart_from_ids_and_times(
    job: Job, case: Case, theirs: Found, ours: Found
) -> None:
    made = [line for line in ours[job.name, case.name].provenance if not OF_POSITIONS.match(line)]

    assert sorted(comparable(made)) == sorted(set(comparable(theirs[job.name, case.like].provenance)))


@every_case
def test_each_fact_says_where_it_stands(job: Job, case: Case, ours: Found) -> None:
    made = ours[job.name, case.name]
    about = dict(line.split(" ", 1) for line in made.provenance if f" <{OA}exact> " in line)
    subjects = {line.split(" ")[0]: line for line in made.provenance if f" {REIFIES} " in line}

    facts = {line.partition("contains> ")[2] for line in made.provenance if "/contains> " in line}
    assert {line.partition(f"{REIFIES} ")[2] for line in subjects.values()} == facts
    assert bool(about) == bool(facts)
    for quote, exact in about.items():
        position = quote.replace("#quote>", "#position>")
        start, end = (number(made, f"{position} <{OA}{name}> ") for name in ("start", "end"))
        assert exact == f"<{OA}exact> " + json.dumps(case.text[start:end], ensure_ascii=False)
    if facts:
        digest = hashlib.sha256(case.text.encode()).hexdigest()
        assert f'<{case.id}> <https://schema.org/sha256> "{digest}"' in made.provenance


@every_case
def test_the_messages_are_like_theirs(job: Job, case: Case, theirs: Found, ours: Found) -> None:
    made, found = ours[job.name, case.name], theirs[job.name, case.name]

    assert {repr(message.metadata) for message in found.messages} <= {
        f"Metadata(id={case.id!r}, root='urn:doc:1', collection='books')"
    }
    assert len({repr(message.metadata) for message in [*made.messages, *found.messages]}) <= 1
    for each in (made, found):
        assert all(0 < len(message.triples) <= 50 for message in each.triples)
        assert all(0 < len(message.entities) <= 5 for message in each.entity_contexts)
        assert {each.chunk_id for message in each.entity_contexts for each in message.entities} <= {case.id}


def comparable(lines: list[str]) -> list[str]:
    for pattern, replacement in UNLIKE:
        lines = [re.sub(pattern, replacement, line) for line in lines]
    return lines


def number(made: Published, begins: str) -> int:
    [line] = [line for line in made.provenance if line.startswith(begins)]
    return int(line[len(begins) :].split('"')[1])
