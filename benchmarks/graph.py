"""What a graph of chunks costs: chunks a second, CPU and memory of ours beside TrustGraph's own extractors.

`python benchmarks/graph.py [SYSTEM…] [--memory CHUNKS]`: of the systems `upstream`, `ours`, `grounded` the
first two, unless named; with `--memory` only ours, and its memory meanwhile. Exits with 1 beyond the bars.

`upstream` is three processes: the extractors of definitions and of relationships, and the prompt service that
they ask. `ours` is one process in their place, `grounded` one with flows and prompts of our own, which also
say where each fact stands. Who feeds them, who answers for the model and for the config service are processes
of their own. Each chunk is another text, of which the model says 10 definitions and 10 relationships at once;
16 are in work. `make LOCK=ci .venv/extractors/.ready` installs TrustGraph's.
"""

from __future__ import annotations

import asyncio
import json
import logging
import multiprocessing
import os
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final
from uuid import uuid4

import orjson
import pulsar

from benchmarks.worker import LeftOut, machine, real_pulsar, run, spawned
from tests.support import prompt_load, trustgraph_extractors
from tests.support.graph_cases import DEFINITION, RELATIONSHIP
from tests.support.prompt_load import Topics, Usage
from tests.support.trustgraph_extractors import trustgraph_processor
from tests.support.trustgraph_services import config_service
from trustgraph_prompt.broker import connect

IN_WORK: Final = 16
SECONDS, WARM = 20.0, 5.0
SETTLED: Final = 2.0  # seconds without a message after which all of a chunk have come
PATIENCE: Final = 120.0
MOST_CPU, LEAST_RATE = 1 / 12, 8  # the bars: ours beside upstream's
BUSY: Final = 0.85  # of a core
LOOKS: Final = 10  # at the memory

OBJECTS: Final = 10
NAMES: Final = [f"Volcano {chr(65 + number)}" for number in range(OBJECTS)]
TEXT: Final = " ".join(
    f"{name} is a volcano of which the text says what is usual, and it stands beside {NAMES[number - 1]}."
    for number, name in enumerate(NAMES)
)
ANSWERS: Final[Mapping[str, list[dict[str, object]]]] = {
    "definitions": [{"entity": name, "definition": "A volcano, as the text says."} for name in NAMES],
    "relationships": [
        {"subject": name, "predicate": "stands beside", "object": NAMES[number - 1], "object-entity": True}
        for number, name in enumerate(NAMES)
    ],
}
EXTRACTORS: Final = [f"kg-extract-{kind}" for kind in ANSWERS]
ENTRIES: Final = {
    f"extract-{kind}": {
        "prompt": f"The {kind} of this text, by {', '.join(schema['required'])}:\n\n{{{{ text }}}}",
        "response-type": "jsonl",
        "schema": schema,
    }
    for kind, schema in (("definitions", DEFINITION), ("relationships", RELATIONSHIP))
}


@dataclass(frozen=True)
class Place:
    """The topics of a system, which nobody has used before."""

    name: str

    def topic(self, spec: str) -> str:
        return f"persistent://tg/flow/{spec}:bench:{self.name}"

    def outputs(self, kind: str) -> dict[str, str]:
        specs = ("triples", "entity-contexts") if kind == "definitions" else ("triples",)
        return {spec: self.topic(f"{kind}-{spec}") for spec in specs}

    @property
    def prompts(self) -> Topics:
        return Topics(
            *(
                f"non-persistent://tg/{way}/{service}:bench:{self.name}"
                for service in ("prompt", "text-completion")
                for way in ("request", "response")
            )
        )


System = Callable[[str, Place, Path], AbstractContextManager[dict[str, int]]]


@contextmanager
def upstream(url: str, place: Place, folder: Path) -> Iterator[dict[str, int]]:
    """TrustGraph's processes, by their names."""
    if not trustgraph_extractors.installed():
        raise LeftOut(trustgraph_extractors.MISSING)
    with configured(url, place), ExitStack() as stack:
        started = {}
        for id in ("prompt", *EXTRACTORS):
            concurrency = IN_WORK * (2 if id == "prompt" else 1)
            processor = trustgraph_processor(id, url, "tg", folder, "--concurrency", concurrency)
            started[id] = stack.enter_context(processor).process.pid
        yield started


@contextmanager
def ours(url: str, place: Place, folder: Path) -> Iterator[dict[str, int]]:
    """Our worker in the place of these processes."""
    options = [option for id in EXTRACTORS for option in ("--extractor", id)]
    with configured(url, place), worker(url, "--trustgraph", *options) as processes:
        yield processes


@contextmanager
def grounded(url: str, place: Place, folder: Path) -> Iterator[dict[str, int]]:
    """Our worker with flows and prompts of our own."""
    asked = place.prompts
    for kind in ANSWERS:
        flow = {
            "name": f"kg-extract-{kind}",
            "input": {"topic": place.topic("chunks"), "kind": "chunk"},
            "prompt": f"extract-{kind}",
            "outputs": {**place.outputs(kind), "answers": place.topic(f"{kind}-answers")},
            "provider": {"request": asked.completion_request, "response": asked.completion_response},
            "concurrency": IN_WORK,
        }
        (folder / f"{kind}.yaml").write_text(json.dumps(flow))
    with worker(url, "--flows", str(folder)) as processes:
        yield processes


@contextmanager
def worker(url: str, *options: str) -> Iterator[dict[str, int]]:
    with run(sys.executable, "-m", "trustgraph_prompt", "run", "--broker", url, *options) as pid:
        yield {"trustgraph-prompt": pid}


@contextmanager
def configured(url: str, place: Place) -> Iterator[None]:
    """TrustGraph's config service, stood in for, with the flows of its processors."""
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    with spawned(configure, url, place, theirs):
        ours.recv()
        yield


def configure(url: str, place: Place, ready: Connection) -> None:
    logging.getLogger("pulsar").setLevel(logging.CRITICAL)  # a place that is asked about is refused, as meant
    asked = place.prompts
    service = {
        "request": asked.request,
        "response": asked.response,
        "text-completion-request": asked.completion_request,
        "text-completion-response": asked.completion_response,
    }

    async def main() -> None:
        async with await connect(url) as broker, config_service(broker) as config:
            entries = {("prompt", f"template.{id}"): json.dumps(entry) for id, entry in ENTRIES.items()}
            await config.put("default", entries)
            await config.start_flow("bench", service)
            for kind in ANSWERS:
                topics = {"input": place.topic("chunks"), **place.outputs(kind)}
                topics |= {"prompt-request": asked.request, "prompt-response": asked.response}
                await config.start_flow("bench", topics, processor=f"kg-extract-{kind}")
            ready.send(True)
            await asyncio.Event().wait()

    asyncio.run(main())


SYSTEMS: Final[Mapping[str, System]] = {"upstream": upstream, "ours": ours, "grounded": grounded}


@dataclass
class Measured:
    """What a system did in `seconds`, and the CPU seconds of each of its processes."""

    chunks: int
    seconds: float
    cpu: dict[str, float]
    machine: float
    resident: float
    lost: int

    @property
    def rate(self) -> float:
        return self.chunks / self.seconds

    @property
    def cpu_each(self) -> float:
        return sum(self.cpu.values()) / max(self.chunks, 1)


@dataclass
class Feeder:
    """Keeps chunks in work, and knows by the messages that came of each when it is done."""

    url: str
    place: Place
    done: int = 0
    lost: int = 0
    each: int = 0
    """How many messages come of a chunk."""
    last: float = 0.0
    feeding: bool = False
    missing: dict[int, int] = field(default_factory=dict)
    """By the number of a chunk how many messages are still to come."""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = count()
        self._client = prompt_load.client(self.url)
        self._producer = self._client.create_producer(self.place.topic("chunks"), block_if_queue_full=True)
        for kind in ANSWERS:
            for topic in self.place.outputs(kind).values():
                self._client.subscribe(topic, f"bench-{uuid4().hex}", message_listener=self._take)

    def close(self) -> None:
        self._client.close()

    def learn(self) -> None:
        """Feed chunks until something comes of one, and count what comes of the next."""
        deadline = time.monotonic() + PATIENCE
        while not self.last:
            if time.monotonic() > deadline:
                raise TimeoutError(f"nothing came of a chunk within {PATIENCE:.0f} s")
            self._feed()
            time.sleep(1.0)
        self._settle()
        self.missing.clear()
        number = self._feed()
        self._settle()
        self.each = -self.missing.pop(number)
        if self.each <= 0:
            raise TimeoutError("nothing came of a chunk")

    def start(self) -> None:
        self.feeding = True
        for _ in range(IN_WORK):
            self._feed()

    def _settle(self) -> None:
        self.last = time.monotonic()
        while time.monotonic() < self.last + SETTLED:
            time.sleep(0.1)

    def _feed(self) -> int:
        number = next(self._numbers)
        self.missing[number] = self.each
        id = f"urn:chunk:{number}"
        metadata = {"id": id, "root": "urn:doc:bench", "collection": "default"}
        chunk = {"metadata": metadata, "chunk": f"{number}: {TEXT}", "document_id": id}
        self._producer.send_async(orjson.dumps(chunk), lambda result, id: None)
        return number

    def _take(self, consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        consumer.acknowledge(message)
        self.last = time.monotonic()
        found = re.search(rb"urn:chunk:(\d+)", message.data())
        assert found is not None
        number = int(found[1])
        with self._lock:
            if number not in self.missing:
                return
            self.missing[number] -= 1
            if self.missing[number] or not self.feeding:
                return
            del self.missing[number]
            self.done += 1
            self._feed()
            oldest = next(iter(self.missing))
            if oldest < number - 8 * IN_WORK:  # so many have overtaken it: the broker lost a message of it
                del self.missing[oldest]
                self.lost += 1
                self._feed()


@contextmanager
def feeding(url: str, name: str, folder: Path) -> Iterator[tuple[Feeder, dict[str, int]]]:
    """Who feeds a system that works, and the processes of the system."""
    place = Place(f"{name}-{uuid4().hex[:8]}")
    definitions, relationships = ("\n".join(json.dumps(each) for each in said) for said in ANSWERS.values())
    answers = {"predicate": relationships, "": definitions}  # only the one prompt asks for predicates
    with prompt_load.model(url, place.prompts, 0.0, answers), SYSTEMS[name](url, place, folder) as processes:
        feeder = Feeder(url, place)
        try:
            feeder.learn()
            feeder.start()
            yield feeder, processes
        finally:
            feeder.close()


def measure(feeder: Feeder, processes: Mapping[str, int], *, seconds: float, chunks: float) -> Measured:
    """What the system does in so many seconds, or until so many chunks are done."""
    before = {name: Usage.of(pid).cpu for name, pid in processes.items()}
    done, lost, began, idle = feeder.done, feeder.lost, time.monotonic(), idle_seconds()
    while time.monotonic() < began + seconds and feeder.done < done + chunks:
        time.sleep(0.1)
    after = {name: Usage.of(pid) for name, pid in processes.items()}
    took = time.monotonic() - began
    return Measured(
        feeder.done - done,
        took,
        {name: after[name].cpu - before[name] for name in processes},
        (os.cpu_count() or 1) - (idle_seconds() - idle) / took,
        sum(each.resident for each in after.values()),
        feeder.lost - lost,
    )


def idle_seconds() -> float:
    """Of all cores since the start."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")


def compare(url: str, names: list[str]) -> bool:
    """Whether ours met the bars, where both were measured."""
    print("  system      chunks/s  CPU a chunk  messages  resident  lost   cores used by")
    measured = {}
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            try:
                with feeding(url, name, Path(folder)) as (feeder, processes):
                    time.sleep(WARM)
                    each = measured[name] = measure(feeder, processes, seconds=SECONDS, chunks=float("inf"))
            except LeftOut as reason:
                print(f"  {name:10} left out: {reason}")
                continue
        cores = {process: cpu / each.seconds for process, cpu in each.cpu.items()}
        used = ", ".join(f"{process} {share:.2f}" for process, share in cores.items())
        print(
            f"  {name:10} {each.rate:9.1f} {each.cpu_each * 1e3:9.2f} ms {feeder.each:9}"
            f" {each.resident:6.0f} MB {each.lost:5}   {used}; all of the machine {each.machine:.2f}"
        )
        print(f"             limit: {limit(cores, each.machine)}", flush=True)
    if not {"upstream", "ours"} <= measured.keys():
        return True
    ratio = measured["ours"].rate / measured["upstream"].rate
    cpu = measured["ours"].cpu_each / measured["upstream"].cpu_each
    print(f"  ours: {ratio:.1f}x the chunks a second, 1/{1 / cpu:.1f} of the CPU a chunk of upstream's")
    print(f"  bars: at least {LEAST_RATE}x, at most 1/{1 / MOST_CPU:.0f}")
    return ratio >= LEAST_RATE and cpu <= MOST_CPU


def limit(cores: Mapping[str, float], machine: float) -> str:
    """Which process took all that it could."""
    process, share = max(cores.items(), key=lambda each: each[1])
    if share >= BUSY:
        return f"{process}"
    if machine >= BUSY * (os.cpu_count() or 1):
        return "all cores were in use, by the broker and the stand-ins too"
    return "no process was busy: messages on their way"


def look_at_memory(url: str, name: str, chunks: int) -> None:
    with tempfile.TemporaryDirectory() as folder, feeding(url, name, Path(folder)) as (feeder, processes):
        print(f"  {name}, {chunks:,} chunks\n     chunks   resident  chunks/s  lost")
        for _ in range(LOOKS):
            each = measure(feeder, processes, seconds=float("inf"), chunks=chunks / LOOKS)
            print(f"    {feeder.done:7,} {each.resident:7.0f} MB {each.rate:9.1f} {each.lost:5}", flush=True)


def main(arguments: list[str]) -> None:
    chunks = None
    if "--memory" in arguments:
        place = arguments.index("--memory")
        chunks = int(arguments.pop(place + 1))
        arguments.pop(place)
    names = arguments or ["upstream", "ours"]
    if not SYSTEMS.keys() >= set(names):
        sys.exit(__doc__)
    with real_pulsar() as server:
        print(f"{machine()}\n{IN_WORK} chunks in work, measured for {SECONDS:.0f} s after {WARM:.0f} s")
        if chunks is not None:
            look_at_memory(server.url, "grounded" if "grounded" in names else "ours", chunks)
        elif not compare(server.url, names):
            sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
