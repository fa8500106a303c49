"""What requesters notice when one of two workers dies: the latency of requests, on a real broker.

`python benchmarks/worker_killed.py [undisturbed|gone|restarted|cut …] [--keep-alive SECONDS]`: one worker is
killed by SIGKILL and `gone`, killed and `restarted` at once as Kubernetes does, or `cut` off from the broker
without a word. The requests are of a persistent topic and come evenly; the model takes 0.5 to 1.5 seconds.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import sys
import tempfile
from argparse import ArgumentParser
from asyncio.subprocess import DEVNULL, Process
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import uuid4

from tests.support import pulsar_server
from tests.support.model_server import ModelServer, Reply, streamed
from tests.support.pulsar_proxy import PulsarProxy
from tests.support.pulsar_server import PulsarServer
from trustgraph_prompt.broker import Broker, Consumer, connect
from trustgraph_prompt.wire import PromptRequest

A_SECOND, SECONDS, CONCURRENCY = 12, 60, 16
KILLED_AT = 15.0
LONGEST = 180.0
PROMPT = "say"
TEMPLATES = {
    "system": '"Be careful."',
    "template.say": json.dumps({"prompt": "{{ text }}", "dialect": "jinja"}),
}
FLOW = """
name: f
workspace: w
input: {{topic: "persistent://{space}/flow/in", subscription: s}}
outputs: {{response: "persistent://{space}/flow/out", answers: "persistent://{space}/flow/answers"}}
concurrency: {concurrency}
"""


class Model:
    """Answers at its leisure, and remembers when it was asked what."""

    def __init__(self) -> None:
        self.asked: dict[str, list[float]] = {}

    def reply(self, body: dict[str, Any]) -> Reply:
        id = body["messages"][-1]["content"].split("\n")[0]
        self.asked.setdefault(id, []).append(monotonic())
        return Reply(
            [random.Random(id).uniform(0.5, 1.5), *streamed(f"Answer to {id}.", piece=99, chunk=999)]
        )


class Measured:
    """When each request was sent and answered."""

    def __init__(self) -> None:
        self.sent: dict[str, float] = {}
        self.answered: dict[str, float] = {}
        self.errors = 0
        self._all = asyncio.Event()

    async def send(self, broker: Broker, space: str) -> None:
        producer = await broker.producer(f"persistent://{space}/flow/in")
        began = monotonic()
        for n in range(A_SECOND * SECONDS):
            await asyncio.sleep(began + n / A_SECOND - monotonic())
            id = f"r{n}"
            self.sent[id] = monotonic()
            request = PromptRequest.asking(PROMPT, {"text": id})
            await producer.send(request.encode(), properties={"id": id})

    async def follow(self, consumer: Consumer) -> None:
        while len(self.answered) < A_SECOND * SECONDS:
            message = await consumer.receive()
            assert message is not None
            self.answered.setdefault(message.properties["id"], monotonic())
            self.errors += bool(json.loads(message.data)["error"])
            await consumer.acknowledge(message)

    def told(self, model: Model, killed: float | None) -> str:
        took = sorted(self.answered[id] - sent for id, sent in self.sent.items() if id in self.answered)
        if not took:
            return "nothing was answered"
        parts = [f"{len(took)} of {len(self.sent)} answered, {self.errors} errors", _percentiles(took)]
        if killed is not None:
            again = {id: asked for id, asked in model.asked.items() if len(asked) > 1}
            waits = sorted(asked[-1] - killed for asked in again.values())
            parts.append(f"{len(again)} asked again, {_percentiles(waits)} after the kill")
        return "; ".join(parts)


def _percentiles(values: list[float]) -> str:
    if not values:
        return "none"
    named = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
    shown = [f"{name} {values[int(share * len(values))]:.1f} s" for name, share in named.items()]
    return ", ".join([*shown, f"slowest {values[-1]:.1f} s"])


class Workers:
    """Two workers, of which one reaches the broker through a proxy."""

    def __init__(self, folder: Path, server: PulsarServer, model: str, space: str) -> None:
        self._config = f"persistent://{space}/config/prompt"
        self._folder = folder
        self._model = model
        self._server = server
        self.running: list[Process] = []
        (folder / "flow.yaml").write_text(FLOW.format(space=space, concurrency=CONCURRENCY))
        (folder / "templates.json").write_text(json.dumps(TEMPLATES))

    async def start(self, url: str) -> Process:
        files = [
            "--flows",
            str(self._folder / "flow.yaml"),
            "--templates",
            str(self._folder / "templates.json"),
        ]
        model = ["--base-url", self._model, "--model", "small"]
        log = (self._folder / f"{len(self.running)}.log").open("wb")
        with log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "trustgraph_prompt", "run", "--broker", url, *files, *model),
                *("--topic", self._config),
                *("--http", "127.0.0.1:0"),
                cwd=self._folder,  # `-m` would import from here
                stdin=DEVNULL,
                stderr=log,
                env={**os.environ, "TRUSTGRAPH_PROMPT_ADMIN_URL": self._server.admin_url},
            )
        self.running.append(process)
        return process

    async def end(self) -> None:
        for process in self.running:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _until_serving(folder: Path, number: int) -> None:
    while b'"serving"' not in (folder / f"{number}.log").read_bytes():  # noqa: ASYNC110
        await asyncio.sleep(0.1)


async def measure(server: PulsarServer, how: str) -> str:
    space = f"t{uuid4().hex[:8]}"
    server.create_space(space)
    model = Model()
    killed: float | None = None
    folder = Path(tempfile.mkdtemp(prefix="killed-"))
    async with ModelServer() as models, PulsarProxy(server.url) as proxy, await connect(server.url) as broker:
        models.reply = model.reply
        workers = Workers(folder, server, models.url, space)
        consumer = await broker.consumer(f"persistent://{space}/flow/out", "test")
        measured = Measured()
        following = asyncio.create_task(measured.follow(consumer))
        try:
            victim = await workers.start(proxy.url)
            await workers.start(server.url)
            for number in range(2):
                await _until_serving(folder, number)
            sending = asyncio.create_task(measured.send(broker, space))
            if how != "undisturbed":
                await asyncio.sleep(KILLED_AT)
                killed = monotonic()
                if how == "cut":
                    proxy.flowing.clear()
                else:
                    victim.kill()
                    await victim.wait()
                if how == "restarted":
                    await workers.start(server.url)
            await sending
            await asyncio.wait([following], timeout=LONGEST)
            return measured.told(model, killed) + f" (logs: {folder})"
        finally:
            following.cancel()
            proxy.flowing.set()
            await workers.end()


def main() -> None:
    logging.disable()
    options = ArgumentParser()
    options.add_argument("ways", nargs="*", default=["undisturbed", "gone", "restarted", "cut"])
    options.add_argument("--keep-alive", default=30, help="the broker's keepAliveIntervalSeconds")
    asked = options.parse_args()
    server = pulsar_server.start_configured({"keepAliveIntervalSeconds": asked.keep_alive})
    try:
        for how in asked.ways:
            print(f"{how:12} {asyncio.run(measure(server, how))}", flush=True)
    finally:
        server.end()


if __name__ == "__main__":
    main()
