"""Load for a prompt service on a real Pulsar: who asks, who answers for the model, and what the service uses.

Both are plain `pulsar-client` with callbacks, several times as fast as any service that they measure; each
runs in a process of its own. Nothing is sent in batches: of a non-persistent topic the broker drops what
comes while more than 64 kB are still to be written to the connection of who receives it.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import resource
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path
from uuid import uuid4

import orjson
import pulsar

#: Seconds until a service that was started answers its first request.
_PATIENCE = 120.0

#: Seconds in which what is in flight after a measurement may still be answered.
_SETTLING = 2.0

PROMPT = "extract-definitions"
OBJECTS = 20
ANSWER = "\n".join(
    orjson.dumps(
        {
            "entity": f"Entity {number}",
            "definition": f"What entity {number} of the text is, said in a sentence of the usual length.",
        }
    ).decode()
    for number in range(OBJECTS)
)
ANSWERS = {"": ANSWER}
DEFINITION = {
    "prompt": "Define the entities of this text, one JSON object a line.\n\n{{ text }}",
    "response-type": "jsonl",
    "schema": {
        "type": "object",
        "properties": {"entity": {"type": "string"}, "definition": {"type": "string"}},
        "required": ["entity", "definition"],
    },
}
TEXT = "It is a truth universally acknowledged, that nobody reads a text which a benchmark was fed. " * 11


@dataclass(frozen=True)
class Topics:
    """Where a service is asked, and where it asks: full names of topics."""

    request: str
    response: str
    completion_request: str
    completion_response: str


@dataclass(frozen=True)
class Usage:
    """Of a process: seconds of CPU since its start, and megabytes that are resident."""

    cpu: float
    resident: float

    @classmethod
    def of(cls, pid: int) -> Usage:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return cls(cpu, resident * resource.getpagesize() / 1e6)


@dataclass
class Measured:
    """What a service did in `seconds`: latencies of its answers, wrong ones, and what it used meanwhile."""

    seconds: float = 0.0
    cpu: float = 0.0
    resident: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    wrong: int = 0
    lost: int = 0

    @property
    def rate(self) -> float:
        """Prompts a second."""
        return len(self.latencies) / self.seconds

    @property
    def cpu_each(self) -> float:
        """Seconds of CPU of the service for a prompt."""
        return self.cpu / len(self.latencies) if self.latencies else math.nan

    def percentile(self, part: float) -> float:
        """The seconds within which that part of the answers came."""
        ordered = sorted(self.latencies) or [math.nan]
        return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


class Asker:
    """Keeps a number of requests in flight, every text another one; checks each answer."""

    def __init__(self, url: str, topics: Topics) -> None:
        self._client = client(url)
        self._lock = threading.Lock()
        self._began: dict[str, tuple[int, float]] = {}
        self._numbers = count()
        self._asking = False
        self._in_flight = 0
        self._measured = Measured()
        self._last_answer = 0.0
        name = f"asker-{uuid4().hex[:12]}"
        self._responses = self._client.subscribe(
            topics.response, name, message_listener=self._take, receiver_queue_size=2000
        )
        self._producer = self._client.create_producer(
            topics.request, batching_enabled=False, block_if_queue_full=True
        )

    def wait_for_service(self) -> None:
        """Ask until there is an answer. Raises `TimeoutError`."""
        deadline = time.monotonic() + _PATIENCE
        while not self._last_answer:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no answer within {_PATIENCE:.0f} s")
            self._ask()
            time.sleep(0.5)
        time.sleep(1.0)
        self._began.clear()

    def measure(
        self, pid: int, in_flight: int, *, warm: float, seconds: float, prompts: float = math.inf
    ) -> Measured:
        """Keep so many in flight; what the process does in `seconds`, or until so many `prompts`.

        The `warm` seconds before that are not counted.
        """
        self._asking, self._in_flight = True, in_flight
        for _ in range(in_flight):
            self._ask()
            time.sleep(0.01)
        time.sleep(warm)
        with self._lock:
            measured = self._measured = Measured()
        before, began = Usage.of(pid), time.monotonic()
        while (left := began + seconds - time.monotonic()) > 0 and len(measured.latencies) < prompts:
            time.sleep(min(0.5, left))
            measured.resident.append(Usage.of(pid).resident)
        after = Usage.of(pid)
        with self._lock:
            self._measured = Measured()
            measured.seconds = time.monotonic() - began
        measured.cpu = after.cpu - before.cpu
        self._asking = False
        self._settle()
        self._began.clear()
        return measured

    def close(self) -> None:
        self._client.close()

    def _settle(self) -> None:
        """Until all is answered; not long, for one of these services may be seconds behind."""
        deadline = time.monotonic() + _SETTLING
        while self._began and time.monotonic() < deadline:
            time.sleep(0.05)

    def _ask(self) -> None:
        number = next(self._numbers)
        id = uuid4().hex
        text = orjson.dumps(f"{number}: {TEXT}").decode()
        request = orjson.dumps({"id": PROMPT, "terms": {"text": text}, "streaming": False})
        self._began[id] = number, time.monotonic()
        self._producer.send_async(request, _sent, properties={"id": id})

    def _take(self, consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        now = time.monotonic()
        consumer.acknowledge(message)
        asked = self._began.pop(message.properties().get("id", ""), None)
        if asked is None:
            return
        number, began = asked
        response = orjson.loads(message.data())
        right = response["error"] is None and len(orjson.loads(response["object"] or "[]")) == OBJECTS
        with self._lock:
            self._last_answer = now
            self._measured.latencies.append(now - began)
            self._measured.wrong += not right
        if self._asking:
            self._ask()
            self._replace_lost(number)

    def _replace_lost(self, number: int) -> None:
        """What so many have overtaken does not come any more."""
        while self._began:
            oldest = next(iter(self._began))
            if self._began[oldest][0] > number - 4 * self._in_flight:
                return
            del self._began[oldest]
            self._measured.lost += 1
            self._ask()


@contextmanager
def model(url: str, topics: Topics, seconds: float, answers: Mapping[str, str] = ANSWERS) -> Iterator[None]:
    """A completion worker that takes so long for each answer, for the time of the block.

    `answers` are its answers by a part of the question.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    over = context.Event()
    process = context.Process(target=_answer, args=(url, topics, seconds, answers, theirs, over), daemon=True)
    process.start()
    try:
        ours.recv()
        yield
    finally:
        over.set()
        process.join(20)
        process.kill()


def _answer(
    url: str, topics: Topics, seconds: float, answers: Mapping[str, str], ready: Connection, over: Event
) -> None:
    completion = {
        "error": None,
        "in_token": 300,
        "out_token": 400,
        "model": "stand-in",
        "end_of_stream": True,
    }
    responses = {
        part.encode(): orjson.dumps({**completion, "response": text}) for part, text in answers.items()
    }
    connection = client(url)
    producer = connection.create_producer(
        topics.completion_response, block_if_queue_full=True, batching_enabled=False
    )
    due: deque[tuple[float, bytes, str]] = deque()

    def send(answer: bytes, id: str) -> None:
        producer.send_async(answer, _sent, properties={"id": id})

    def take(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        question, id = message.data(), message.properties()["id"]
        answer = next(answer for part, answer in responses.items() if part in question)
        if seconds:
            due.append((time.monotonic() + seconds, answer, id))
        else:
            send(answer, id)

    connection.subscribe(
        topics.completion_request,
        "stand-in",
        consumer_type=pulsar.ConsumerType.Shared,
        message_listener=take,
        receiver_queue_size=2000,
    )
    ready.send(True)
    while not over.wait(0.002 if seconds else 0.2):
        while due and due[0][0] <= time.monotonic():
            send(*due.popleft()[1:])
    connection.close()


def client(url: str) -> pulsar.Client:
    """A client that says nothing."""
    return pulsar.Client(url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull))


def _sent(result: pulsar.Result, id: pulsar.MessageId) -> None:
    """What was not sent is counted as lost, in the end."""
