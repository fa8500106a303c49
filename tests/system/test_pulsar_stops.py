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
from tests.support.pulsar_proxy import PulsarProxy
from tests.support.pulsar_traffic import Traffic, traffic
from tests.support.restless_model import RestlessModel
from tests.support.worker_processes import Process, Site

pytestmark = pytest.mark.pulsar

SECONDS_BETWEEN = 0.02

SECONDS_TO_END = 100.0
"""Against hanging: ten times what running.md says that a drain and all that follows it take here."""

SHORT, LONG = 2.0, 30.0
"""Seconds that a drain may take: not enough where the model is silent, and enough where it speaks again."""


class Load:
    """Request after request, at least so many, until it is ended."""

    def __init__(self, flow: Traffic, least: int) -> None:
        self._flow = flow
        self._least = least
        self._over = False
        self._sending = asyncio.create_task(flow.send_as_trustgraph(self._ids(), SECONDS_BETWEEN))

    def _ids(self) -> Iterator[str]:
        for n in count():
            if n >= self._least and self._over:
                return
            yield f"r{n}"

    async def more(self, count: int) -> None:
        """Until so many more have been sent."""
        enough = len(self._flow.sent) + count
        while len(self._flow.sent) < enough:
            await asyncio.sleep(SECONDS_BETWEEN)

    async def end(self) -> None:
        self._over = True
        await self._sending


def errors(flow: Traffic) -> Counter[str]:
    """How many responses are errors, by their type; `` for those that are none."""
    return Counter((json.loads(m.data)["error"] or {"type": ""})["type"] for m in flow.heard.messages)


def given_up(worker: Process) -> bool:
    """Whether it ended what was still in work after the time that it was given, and not after another."""
    return any(f"not finished within {SHORT:.0f} s are cancelled" in line for line in worker.log)


def answered_again(flow: Traffic) -> int:
    """Responses beyond the first to each request."""
    return len(flow.heard.messages) - len({m.properties["id"] for m in flow.heard.messages})


@pytest.mark.parametrize(("persistent", "bar"), [(True, 0), (False, 1)], ids=["persistent", "non-persistent"])
async def test_rolling_restart_of_two_replicas_pays_and_answers_nothing_twice(
    pulsar_site: Site,
    pulsar_space: str,
    server: ModelServer,
    record_counts: Callable[..., None],
    persistent: bool,
    bar: int,
) -> None:
    model = RestlessModel(pause=0.05)
    async with traffic(
        pulsar_site, pulsar_space, server, model, persistent=persistent, concurrency=16
    ) as flow:
        replicas = [await pulsar_site.run() for _ in range(2)]
        load = Load(flow, 500)
        await flow.heard.until(20)
        for worker in replicas:
            await pulsar_site.run()
            worker.send_signal(signal.SIGTERM)
            await worker.ended()
        await load.end()
        unanswered = await flow.heard.missing(flow.sent, 20)

    record_counts(
        requests=len(flow.sent),
        replaced=len(replicas),
        unanswered=len(unanswered),
        asked_again=model.paid_twice,
        answered_again=answered_again(flow),
    )
    assert len(unanswered) <= bar
    assert (model.paid_twice, answered_again(flow)) == (0, 0)
    assert set(errors(flow)) == {""}


async def test_requests_beyond_the_concurrency_wait_on_a_non_persistent_topic(
    pulsar_site: Site, pulsar_space: str, server: ModelServer, record_counts: Callable[..., None]
) -> None:
    model = RestlessModel(pause=0.01)
    async with traffic(pulsar_site, pulsar_space, server, model, persistent=False, concurrency=8) as flow:
        await pulsar_site.run()
        model.speak.clear()
        await flow.send_as_trustgraph((f"r{n}" for n in range(200)), SECONDS_BETWEEN)
        assert not flow.heard.messages
        model.speak.set()
        unanswered = await flow.heard.missing(flow.sent)
    record_counts(requests=len(flow.sent), unanswered=len(unanswered))
    assert not unanswered
    assert errors(flow) == {"": len(flow.sent)}


@pytest.mark.parametrize("in_time", [True, False], ids=["in-time", "too-late"])
async def test_stopped_worker_answers_all_it_received_of_a_non_persistent_topic(
    pulsar_site: Site,
    pulsar_space: str,
    server: ModelServer,
    record_counts: Callable[..., None],
    in_time: bool,
) -> None:
    """The model goes on within the drain time-out, or never."""
    model = RestlessModel(pause=0.01)
    drain_timeout = LONG if in_time else SHORT
    async with traffic(pulsar_site, pulsar_space, server, model, persistent=False, concurrency=8) as flow:
        worker = await pulsar_site.run("--drain-timeout", drain_timeout)
        load = Load(flow, 200)
        await flow.heard.until(20)
        model.speak.clear()
        await load.more(50)
        before = set(flow.sent)
        worker.send_signal(signal.SIGTERM)
        signalled = time.monotonic()
        await worker.shows("/readyz", "stopping")
        if in_time:
            model.speak.set()
        await asyncio.wait_for(worker.ended(), SECONDS_TO_END)
        seconds = time.monotonic() - signalled
        await load.end()
        await flow.hear_out()
        heard = {message.properties["id"] for message in flow.heard.messages}

    in_order = sorted(flow.sent, key=lambda id: int(id[1:]))
    received = in_order[: 1 + max(in_order.index(id) for id in heard)]  # one consumer gets them in order
    record_counts(
        sent=len(flow.sent),
        before_the_signal=len(before),
        received=len(received),
        unanswered_of_these=len({*received, *before} - heard),
        errors=len(flow.heard.messages) - errors(flow)[""],
        seconds=f"{seconds:.1f}",
    )
    assert heard == {*received, *before}
    assert answered_again(flow) == 0
    assert set(errors(flow)) == ({""} if in_time else {"", "shutting-down"})
    assert given_up(worker) is not in_time


async def test_stopped_worker_leaves_unanswered_persistent_requests_to_others(
    pulsar_site: Site, pulsar_space: str, server: ModelServer, record_counts: Callable[..., None]
) -> None:
    model = RestlessModel(pause=0.01)
    async with traffic(pulsar_site, pulsar_space, server, model, concurrency=8) as flow:
        worker = await pulsar_site.run("--drain-timeout", SHORT)
        load = Load(flow, 200)
        await flow.heard.until(20)
        model.speak.clear()
        await load.more(50)
        worker.send_signal(signal.SIGTERM)
        signalled = time.monotonic()
        await worker.shows("/readyz", "stopping")
        await asyncio.wait_for(worker.ended(), SECONDS_TO_END)
        seconds = time.monotonic() - signalled
        left = len(flow.sent) - len(flow.heard.messages)
        model.speak.set()
        await pulsar_site.run()
        await load.end()
        unanswered = await flow.heard.missing(flow.sent)

    record_counts(
        requests=len(flow.sent),
        left_for_others=left,
        unanswered=len(unanswered),
        asked_again=model.paid_twice,
        answered_again=answered_again(flow),
        seconds=f"{seconds:.1f}",
    )
    assert not unanswered
    assert answered_again(flow) == 0
    assert model.paid_twice <= 8
    assert set(errors(flow)) == {""}
    assert given_up(worker)


@pytest.mark.parametrize("dead", [False, True], ids=["frozen", "dead"])
@pytest.mark.parametrize("persistent", [True, False], ids=["persistent", "non-persistent"])
async def test_worker_stopped_while_the_broker_does_not_answer_ends_in_time(
    pulsar_site: Site,
    pulsar_space: str,
    server: ModelServer,
    record_counts: Callable[..., None],
    persistent: bool,
    dead: bool,
) -> None:
    model = RestlessModel(pause=0.01)
    async with (
        traffic(pulsar_site, pulsar_space, server, model, persistent=persistent, concurrency=8) as flow,
        PulsarProxy(pulsar_site.url) as proxy,
    ):
        direct, pulsar_site.url = pulsar_site.url, proxy.url
        worker = await pulsar_site.run("--drain-timeout", SHORT)
        load = Load(flow, 100)
        await flow.heard.until(20)
        model.speak.clear()
        await load.more(20)
        proxy.flowing.clear()
        if dead:
            proxy.refuse()
        model.speak.set()
        worker.send_signal(signal.SIGTERM)
        signalled = time.monotonic()
        await asyncio.wait_for(worker.ended(), SECONDS_TO_END)
        seconds = time.monotonic() - signalled
        await load.end()
        unanswered: set[str] = set()
        if persistent:
            pulsar_site.url = direct
            proxy.cut()
            await pulsar_site.run()
            unanswered = await flow.heard.missing(flow.sent)
    record_counts(seconds=f"{seconds:.1f}", unanswered=len(unanswered))
    assert not unanswered
