"""How long chunks take whose completions are lost on non-persistent topics: TrustGraph mode, one real Pulsar.

`python benchmarks/lost_messages.py [COMPLETIONS] [LOST]`: of 6,000 completions none is lost, and then one of
200. Exits with 1 if the slowest chunk takes more than three times the 99th percentile of the undisturbed.

The worker replaces two of TrustGraph's extractors, each with 64 chunks in progress; the model takes 6 to 8
seconds. A completion is lost once: the next request for it is answered. It makes no difference to the worker
whether the request or the response is lost. A chunk is timed for each extractor, from its receipt to its
acknowledgement.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import sys
import threading
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import Synchronized
from typing import Final
from uuid import uuid4

import orjson

from benchmarks.graph import ANSWERS, EXTRACTORS, TEXT, Place, configured
from benchmarks.worker import machine, real_pulsar, spawned
from tests.support import prompt_load
from trustgraph_prompt.broker import Broker, Consumer, Message, connect
from trustgraph_prompt.broker.wrapper import BrokerWrapper
from trustgraph_prompt.llm import Limits, Provider
from trustgraph_prompt.trustgraph.extractors import extractors
from trustgraph_prompt.trustgraph.flow_definitions import Processor
from trustgraph_prompt.trustgraph.origin import TrustGraphOrigin
from trustgraph_prompt.worker import Prompts, Service
from trustgraph_prompt.worker.telemetry.metrics import Metrics

COMPLETIONS, LOST = 6000, 200
IN_PROGRESS: Final = 64
SECONDS: Final = (6.0, 8.0)
SLOWEST: Final = 3.0  # times the 99th percentile of the undisturbed


class Timed(BrokerWrapper):
    """Notes how long chunks take; `all_done` is set when so many were acknowledged."""

    def __init__(self, broker: Broker, chunks: int) -> None:
        super().__init__(broker)
        self.seconds: list[float] = []
        self.all_done = asyncio.Event()
        self._chunks = chunks

    def _consumer(self, consumer: Consumer) -> Consumer:
        if "chunks" not in consumer.topic:
            return consumer
        received: dict[str, float] = {}
        receive, acknowledge = consumer.receive, consumer.acknowledge

        async def timed_receive() -> Message | None:
            if message := await receive():
                received[message.id] = time.monotonic()
            return message

        async def timed_acknowledge(message: Message) -> None:
            await acknowledge(message)
            self.seconds.append(time.monotonic() - received.pop(message.id))
            if len(self.seconds) == self._chunks:
                self.all_done.set()

        consumer.receive, consumer.acknowledge = timed_receive, timed_acknowledge  # type: ignore[method-assign]
        return consumer


def work(url: str, chunks: int, done: Connection) -> None:
    """The worker in the place of the extractors; sends the seconds of each chunk."""

    def nobody(model: str | None) -> Provider:
        raise AssertionError("every flow has topics to ask")

    async def main() -> None:
        async with await connect(url) as broker:
            timed = Timed(broker, chunks)
            prompt_service = Processor(concurrency=IN_PROGRESS)
            metrics = Metrics()
            service = Service(
                timed,
                [],
                Prompts(None, ()),
                nobody,
                limits=Limits(in_flight=2 * IN_PROGRESS),
                metrics=metrics,
                origin=TrustGraphOrigin(extractors(EXTRACTORS, prompt_service, None), metrics),
            )
            running = asyncio.create_task(service.run())
            await timed.all_done.wait()
            done.send(timed.seconds)
            service.stop()
            await running

    asyncio.run(main())


def answer(url: str, place: Place, lost: int, requests: Synchronized[int], ready: Connection) -> None:
    """The model, which counts its requests, and loses one of so many completions, each only once."""
    client, topics = prompt_load.client(url), place.prompts
    answers = {
        kind: "\n".join(orjson.dumps(each).decode() for each in said) for kind, said in ANSWERS.items()
    }
    producer = client.create_producer(topics.completion_response, batching_enabled=False)
    consumer = client.subscribe(topics.completion_request, "model", receiver_queue_size=5000)
    chance, asked_again = random.Random(0), set[bytes]()

    def respond(id: str, text: str) -> None:
        response = {"error": None, "response": text, "in_token": 300, "out_token": 400, "end_of_stream": True}
        producer.send_async(orjson.dumps(response), lambda *_: None, properties={"id": id})

    ready.send(True)
    while message := consumer.receive():
        requests.value += 1
        if lost and not requests.value % lost and message.data() not in asked_again:
            asked_again.add(message.data())
        else:
            kind = "relationships" if b"predicate" in message.data() else "definitions"
            said = message.properties()["id"], answers[kind]
            threading.Timer(chance.uniform(*SECONDS), respond, said).start()


def measure(url: str, completions: int, lost: int) -> list[float]:
    """The seconds of each chunk, the slowest last."""
    chunks = completions // len(EXTRACTORS)
    place = Place(f"lost-{uuid4().hex[:8]}")
    context = multiprocessing.get_context("spawn")
    (ready, model), (times, worker) = context.Pipe(False), context.Pipe(False)
    requests: Synchronized[int] = context.Value("i", 0)
    with (
        spawned(answer, url, place, lost, requests, model),
        configured(url, place),
        spawned(work, url, completions, worker),
    ):
        ready.recv()
        client = prompt_load.client(url)
        producer = client.create_producer(place.topic("chunks"), block_if_queue_full=True)
        for number in range(chunks):
            id = f"urn:chunk:{number}"
            metadata = {"id": id, "root": "urn:doc:bench", "collection": "default"}
            producer.send(
                orjson.dumps({"metadata": metadata, "chunk": f"{number}: {TEXT}", "document_id": id})
            )
        client.close()
        seconds: list[float] = times.recv()
    which = f"one of {lost}" if lost else "none"
    print(f"  {which:12}{requests.value:10}", *map("{:9.1f}".format, summary(seconds)), flush=True)
    return sorted(seconds)


def summary(seconds: Sequence[float]) -> list[float]:
    """Median, 99th percentile, and the slowest."""
    ordered = sorted(seconds)
    return [ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100], ordered[-1]]


def main(completions: int = COMPLETIONS, lost: int = LOST) -> None:
    with real_pulsar() as server:
        print(f"{machine()}\n  lost          requests   p50 [s]   p99 [s]   slowest")
        usual = measure(server.url, completions, 0)
        disturbed = measure(server.url, completions, lost)
    ratio = disturbed[-1] / summary(usual)[1]
    print(f"  the slowest took {ratio:.2f} times the 99th percentile of the undisturbed")
    sys.exit(ratio > SLOWEST)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
