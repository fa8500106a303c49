"""What production puts around a worker, seen from the program that runs it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.workers import ENTRIES, House, Working
from trustgraph_prompt.ask import MemoryCache
from trustgraph_prompt.broker import Broker, connect
from trustgraph_prompt.errors import BrokerUnavailable, FlowError
from trustgraph_prompt.llm import Limits, Provider, ScriptedAnswer, ScriptedProvider
from trustgraph_prompt.worker import Prompts, Service
from trustgraph_prompt.worker.flow import ProviderChoice
from trustgraph_prompt.worker.telemetry.tracing_interface import Tracing


@pytest.fixture
def broker_kind() -> str:
    """One is as good as another here."""
    return "memory"


class Closings:
    """The parts of a service, which write down when they are closed."""

    def __init__(self) -> None:
        self.closed: list[str] = []
        self.provider = self._noting("provider", ScriptedProvider(lambda call: "said"))
        self.cache = self._noting("cache", MemoryCache())
        self.tracing = self._noting("tracing", Tracing())

    async def connect(self, url: str) -> Broker:
        broker: Broker = self._noting("broker", await connect(url))
        return broker

    def _noting(self, name: str, part: Any) -> Any:
        close = part.close

        async def noted() -> None:
            self.closed.append(name)
            await close()

        part.close = noted
        return part

    def service(self, broker: Broker | str, house: House) -> Service:
        return Service(
            broker,
            [house.flow()],
            Prompts(ENTRIES),
            lambda model: self.provider,
            cache=self.cache,
            tracing=self.tracing,
            connect=self.connect,
        )


async def test_service_closes_provider_broker_cache_and_tracing_in_this_order(house: House) -> None:
    parts = Closings()
    working = Working(parts.service("embedded:", house))
    await working.ready()

    await working.stop()

    assert list(dict.fromkeys(parts.closed)) == ["provider", "broker", "cache", "tracing"]


async def test_a_broker_that_a_service_was_given_stays_open(house: House) -> None:
    parts = Closings()
    working = Working(parts.service(house.broker, house))
    await working.ready()

    await working.stop()

    assert "broker" not in parts.closed
    await house.send(house.flow(), "say", text="x")


async def test_a_broker_that_is_away_is_tried_until_the_service_is_stopped(house: House) -> None:
    parts = Closings()
    service = parts.service("embedded:", house)

    async def away(url: str) -> Broker:
        raise BrokerUnavailable("nobody there")

    service.connect = away
    working = Working(service)
    async with asyncio.timeout(60):
        while "nobody there" not in service.health.waiting.get("broker", ""):
            await asyncio.sleep(0.01)

    await working.stop()

    assert parts.closed == ["cache", "provider", "tracing"]


async def test_calls_keep_to_the_limits_and_waiting_ones_are_not_in_flight(house: House) -> None:
    limits, flow = Limits(in_flight=1), house.flow(concurrency=3)
    never = ScriptedAnswer("said", delay=3600)
    working = await house.work(flow, lambda call: never, limits=limits, drain_timeout=0.1)
    for _ in range(3):
        await house.send(flow, "say", text="x")

    async with asyncio.timeout(60):
        while limits.waiting < 2:
            await asyncio.sleep(0.01)

    exposed = working.worker.metrics.text().decode()
    assert 'trustgraph_prompt_calls_in_flight{model="scripted"} 1.0' in exposed
    assert "trustgraph_prompt_calls_waiting 2.0" in exposed


def test_a_flow_without_the_key_that_it_names_is_refused_before_anything_begins(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    flow = house.flow(provider=ProviderChoice("http://localhost", "m", key_env="NO_SUCH_KEY"))

    def nobody(model: str | None) -> Provider:
        raise AssertionError("the flow names its provider")

    with pytest.raises(FlowError, match="the environment variable is not set"):
        Service("embedded:", [flow], Prompts(ENTRIES), nobody)
