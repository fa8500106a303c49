"""Workers that are stopped and replaced under load, on a real Pulsar: both classes of topics."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from tests.support.model_server import ModelServer
from tests.support.pulsar_traffic import Traffic, traffic
from tests.support.restless_model import RestlessModel
from tests.support.worker_processes import Site
from trustgraph_prompt.worker.worker import SECONDS_TO_GIVE_UP

pytestmark = pytest.mark.pulsar

SECONDS_BETWEEN = 0.02
DRAIN_SECONDS = 2.0


class Load:
    """Request after request, at least so many, until it is ended."""

    def __init__(self, flow: Traffic, least: int) -> None:
        self._least = least
        self._over = False
        self._sending = asyncio.create_task(flow.send_as_trustgraph(self._ids(), SECONDS_BETWEEN))

    def _ids(self) -> Iterator[str]:
        for n in count():
            if n >= self._least and self._over:
                return
            yield f"r{n}"

    async def end(self) -> None:
        self._over = True
        await self._sending


def errors(flow: Traffic) -> Counter[str]:
    """How many responses are errors, by their type; `` for those that are none."""
    return Counter((json.loads(m.data)["error"] or {"type": ""})["type"] for m in flow.responses.messages)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("persistent", "bar"), [(True, 0), (False, 1)], ids=["persistent", "non-persistent"])
async def test_a_rolling_restart_of_two_replicas(
    pulsar_site: Site,
    pulsar_space: str,
    server: ModelServer,
    tell: Callable[..., None],
    persistent: bool,
    bar: int,
) -> None:
    model = RestlessModel(pause=0.05)
    kind = {"persistent": persistent, "concurrency": 16}
    async with traffic(pulsar_site, pulsar_space, server, model, **kind) as flow:
        old = [await pulsar_site.run() for _ in range(2)]
        load = Load(flow, 500)
        await flow.responses.until(20)
        for worker in old:
            await pulsar_site.run()
            worker.send_signal(signal.SIGTERM)
            assert await worker.wait() == 0
        await load.end()
        unanswered = await flow.responses.missing(flow.sent, 20)

    times = Counter(message.properties["id"] for message in flow.responses.messages)
    tell(
        requests=len(flow.sent),
        restarts=len(old),
        unanswered=len(unanswered),
        asked_again=model.paid_twice,
        answered_again=sum(times.values()) - len(times),
    )
    assert len(unanswered) <= bar
    assert model.paid_twice == 0
    assert set(errors(flow)) == {""}


async def test_more_than_is_served_at_once_waits_on_a_topic_that_keeps_nothing(
    pulsar_site: Site, pulsar_space: str, server: ModelServer, tell: Callable[..., None]
) -> None:
    model = RestlessModel(pause=0.01)
    async with traffic(pulsar_site, pulsar_space, server, model, persistent=False, concurrency=8) as flow:
        await pulsar_site.run()
        model.speak.clear()
        await flow.send_as_trustgraph((f"r{n}" for n in range(200)), SECONDS_BETWEEN)
        assert not flow.responses.messages
        model.speak.set()
        unanswered = await flow.responses.missing(flow.sent)
    tell(requests=len(flow.sent), unanswered=len(unanswered))
    assert not unanswered
    assert errors(flow) == {"": len(flow.sent)}


async def test_stopped_under_load_whatever_was_received_of_a_topic_that_keeps_nothing_is_answered(
    pulsar_site: Site, pulsar_space: str, server: ModelServer, tell: Callable[..., None]
) -> None:
    model = RestlessModel(pause=0.01)
    async with traffic(pulsar_site, pulsar_space, server, model, persistent=False, concurrency=8) as flow:
        worker = await pulsar_site.run("--drain-timeout", DRAIN_SECONDS)
        load = Load(flow, 200)
        await flow.responses.until(20)
        model.speak.clear()
        waiting = len(flow.sent)
        while len(flow.sent) < waiting + 50:
            await asyncio.sleep(SECONDS_BETWEEN)
        before, answered = list(flow.sent), len(flow.responses.messages)
        worker.send_signal(signal.SIGTERM)
        began = time.monotonic()
        await worker.shows("/readyz", "stopping")
        ready_first = len(flow.responses.messages) == answered
        assert await worker.wait() == 0
        took = time.monotonic() - began
        await load.end()
        unanswered = await flow.responses.missing(flow.sent, 5)
    tell(
        requests=len(flow.sent),
        before_the_signal=len(before),
        unanswered_of_these=len(unanswered & set(before)),
        unanswered_of_all=len(unanswered),
        errors=dict(errors(flow)),
        seconds=round(took, 2),
    )
    last = max(n for n, id in enumerate(flow.sent) if id not in unanswered)
    print([id for id in flow.sent[:last] if id in unanswered], len(before), last)
    assert not unanswered & set(before)
    assert took < DRAIN_SECONDS + SECONDS_TO_GIVE_UP
