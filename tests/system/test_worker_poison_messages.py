"""Messages that cannot be served, among good ones, on a real Pulsar: what becomes of either."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from pulsar.asyncio import Client

from tests.support.command import run
from tests.support.pulsar_server import PulsarServer
from tests.support.worker_processes import Site
from tests.support.workers import Heard, entry, listening
from trustgraph_prompt.broker import Broker, Message, Producer, connect
from trustgraph_prompt.wire import PromptRequest
from trustgraph_prompt.worker.config import config_topic

pytestmark = pytest.mark.pulsar

GOOD = 150
SECONDS_BETWEEN = 0.04
EACH = 4
CONCURRENCY = 4

FLOW = """
name: f
workspace: {space}
input: {{topic: "persistent://{space}/flow/in"}}
outputs:
  response: persistent://{space}/flow/out
  answers: persistent://{space}/flow/answers
concurrency: {concurrency}
"""

TEMPLATES = {
    "system": json.dumps("Be careful."),
    "template.say": entry("Say {{ text }}"),
    "template.fail": entry("Fail {{ text }}"),
    "template.endless": entry(
        "{% for a in text %}{% for b in text %}{% for c in text %}x{% endfor %}{% endfor %}{% endfor %}"
    ),
}

SAID = {"prompt": "say", "answer": "said", "delay": 0.02}
FAILED = {"prompt": "fail", "error": {"category": "provider_authentication", "message": "no such key"}}

HUGE = 5_100_000
"""Bytes: what Pulsar takes, and a dead letter cannot hold beside what explains it."""


def asking(prompt: str, **terms: object) -> bytes:
    return PromptRequest.asking(prompt, terms).encode()


#: What is put on the topic, and the error that it dies of.
POISON: Mapping[str, tuple[bytes, str]] = {
    "not-json": (b"{no json", "invalid-request"),
    "no-id": (asking("say", text="chalk"), "invalid-request"),
    "unknown": (asking("later", text="chalk"), "unknown-prompt"),
    "term-no-json": (b'{"id": "say", "terms": {"text": "no json"}}', "invalid-request"),
    "term-missing": (asking("say", txt="chalk"), "missing-term"),
    "endless": (asking("endless", text="x" * 400), "template-error"),
    "huge": (b"x" * HUGE, "invalid-request"),
    "fail": (asking("fail", text="chalk"), "llm-error"),
}


@dataclass
class Topic:
    """The request topic of a flow, and who is heard on its response topic."""

    space: str
    site: Site
    admin_url: str
    broker: Broker
    requests: Producer
    responses: Heard
    waiting: int = 0
    """Good requests without an answer when the last of them had been sent."""

    async def good(self, prefix: str) -> list[float]:
        """Good requests at a steady rate; how many seconds each waited for its answer."""
        sent: dict[str, float] = {}
        for n in range(GOOD):
            id = f"{prefix}{n}"
            sent[id] = time.time()
            await self.requests.send(asking("say", text=id), properties={"id": id})
            await asyncio.sleep(SECONDS_BETWEEN)
        self.waiting = len(sent.keys() - {message.properties["id"] for message in self.responses.messages})
        await self.answered(sent)
        heard = {m.properties["id"]: m for m in self.responses.messages}
        assert not [id for id in sent if json.loads(heard[id].data)["error"]]
        return [heard[id].published - at for id, at in sent.items()]

    async def poison(self, kinds: Iterable[str]) -> None:
        """Some of each kind."""
        client = Client(self.site.url)
        raw = await client.create_producer(self.requests.topic, batching_enabled=False)
        for n in range(EACH):
            for kind in kinds:
                data, _ = POISON[kind]
                properties = {} if kind == "no-id" else {"id": f"{kind}-{n}"}
                if kind == "huge":
                    await raw.send(data, properties=properties)  # ours takes nothing of this size
                else:
                    await self.requests.send(data, properties=properties)
                await asyncio.sleep(SECONDS_BETWEEN)
        await client.close()

    async def answered(self, ids: Mapping[str, object] | set[str]) -> None:
        async with asyncio.timeout(120):
            while set(ids) - {message.properties["id"] for message in self.responses.messages}:
                await asyncio.sleep(0.02)

    async def last(self, id: str) -> Any:
        await self.answered({id})
        return [json.loads(m.data) for m in self.responses.messages if m.properties["id"] == id][-1]

    async def command(self, *arguments: str) -> str:
        """What `dead …` prints about the flow."""
        result = await asyncio.to_thread(
            run,
            "dead",
            *arguments,
            "--flows",
            "flow.yaml",
            "--broker",
            self.site.url,
            folder=self.site.folder,
            TRUSTGRAPH_PROMPT_ADMIN_URL=self.admin_url,
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    async def dead(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (await self.command("list", "--json")).splitlines()]

    async def buried(self, count: int) -> list[dict[str, Any]]:
        """The dead letters, once there are so many."""
        async with asyncio.timeout(120):
            while len(letters := await self.dead()) < count:
                await asyncio.sleep(0.1)
        return letters


@pytest.fixture
async def topic(pulsar: PulsarServer, pulsar_site: Site, pulsar_space: str) -> AsyncIterator[Topic]:
    pulsar_site.serves(FLOW.format(space=pulsar_space, concurrency=CONCURRENCY), TEMPLATES)
    pulsar_site.answers(SAID, FAILED)
    prefix = f"persistent://{pulsar_space}/flow"
    async with (
        await connect(pulsar_site.url) as broker,
        listening(broker, f"{prefix}/out") as responses,
    ):
        requests = await broker.producer(f"{prefix}/in")
        yield Topic(pulsar_space, pulsar_site, pulsar.admin_url, broker, requests, responses)


def overtaken(responses: Sequence[Message], prefix: str) -> int:
    """By how many good requests that came later one of these was overtaken, at the most."""
    ids = [message.properties["id"] for message in responses]
    order = [int(id.removeprefix(prefix)) for id in ids if id.startswith(prefix)]
    return max(sum(later > n for later in order[:place]) for place, n in enumerate(order))


@pytest.mark.alone  # good requests come at a fixed pace, and other tests would delay them, too
async def test_poison_becomes_dead_letters_delays_no_request_and_is_replayable(
    topic: Topic, record_counts: Callable[..., None]
) -> None:
    worker = await topic.site.run()
    alone = await topic.good("alone")
    among, _ = await asyncio.gather(topic.good("among"), topic.poison(POISON))

    letters = await topic.buried(EACH * len(POISON))
    assert Counter((letter["error"], letter["deliveries"]) for letter in letters) == Counter(
        (error, 1) for _, error in POISON.values() for _ in range(EACH)
    )
    assert all(letter["reason"] for letter in letters)
    for letter in letters:
        if letter["request"] is not None:
            assert (await topic.last(letter["request"]))["error"]["type"] == letter["error"]
    [huge, *_] = [letter for letter in letters if letter["cut"]]
    assert huge["bytes"] == HUGE
    unknown = json.loads(await topic.command("show", "unknown-0", "--json"))
    assert unknown["content"]["terms"] == {"text": "chalk"}

    said_later = {**SAID, "prompt": "later"}
    changes = {"template.later": entry("Say {{ text }}, later")}
    await config_topic.push(topic.broker, topic.space, changes, topic=str(topic.site.config_topic))
    worker.send_signal(15)
    await worker.wait()
    topic.site.answers(SAID, said_later, {**SAID, "prompt": "fail"})
    await topic.site.run()
    before = len(topic.responses.messages)
    printed = [
        await topic.command("replay", "--all", "--error", error) for error in ("unknown-prompt", "llm-error")
    ]
    assert printed == [f"replayed {EACH} dead letters\n"] * 2
    async with asyncio.timeout(120):
        await topic.responses.until(before + 2 * EACH)
    mended = [f"{kind}-{n}" for kind in ("unknown", "fail") for n in range(EACH)]
    served = [id for id in mended if (await topic.last(id))["text"] == "said"]
    left = await topic.dead()

    record_counts(
        good=len(alone) + len(among),
        poison=EACH * len(POISON),
        dead_letters=len(letters),
        served_after_the_mend=len(served),
        still_dead=len(left),
        median_ms_alone=round(1000 * statistics.median(alone)),
        median_ms_among_poison=round(1000 * statistics.median(among)),
        waiting_at_the_end=topic.waiting,
        most_overtaken=overtaken(topic.responses.messages, "among"),
        p99_ms_alone=round(1000 * statistics.quantiles(alone, n=100)[98]),
        p99_ms_among_poison=round(1000 * statistics.quantiles(among, n=100)[98]),
    )
    assert served == mended
    assert len(left) == EACH * (len(POISON) - 2)
    assert overtaken(topic.responses.messages, "among") <= 2 * CONCURRENCY
    assert topic.waiting <= GOOD // 2  # a worker that poison stops is far behind by then
