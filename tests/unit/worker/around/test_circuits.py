"""Which flows share a circuit, and which wait for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest

from tests.support.deltas import CALL
from tests.support.virtual_time import now, run
from trustgraph_prompt.errors import ProviderAuthentication
from trustgraph_prompt.llm import Call, Completer, Delta, Identity, Provider, RuntimeConfig
from trustgraph_prompt.llm.circuit import Circuit, ProviderAway
from trustgraph_prompt.worker.around.circuits import Circuits
from trustgraph_prompt.worker.flow import Flow, Input, Outputs
from trustgraph_prompt.worker.telemetry.metrics import Metrics

REQUESTS = Input("persistent://tg/flow/in", "s")
CHUNKS = replace(REQUESTS, kind="chunk")
COMPLETIONS = replace(REQUESTS, kind="text-completion")


class Refuses(Completer):
    """A server that takes no key, or knows no model."""

    prefill = False

    def __init__(self, *, model: str = "small", account: int = 1) -> None:
        self.identity = Identity("test", model, "http://here")
        self.account = account
        self.refuses = True
        self.seconds: list[float] = []

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        await asyncio.sleep(self.seconds.pop() if self.seconds else 0)
        await self.ready()
        yield Delta()

    async def ready(self, model: str | None = None) -> None:
        if self.refuses:
            raise ProviderAuthentication("no", loggable="HTTP 401")

    async def close(self) -> None: ...


def flow(input: Input = REQUESTS) -> Flow:
    return Flow("f", input, Outputs())


async def refused(provider: Provider, model: str | None = None) -> Exception:
    with pytest.raises((ProviderAuthentication, ProviderAway)) as raised:
        _ = [delta async for delta in provider.stream(replace(CALL, config=RuntimeConfig(model=model)))]
    error: Exception = raised.value
    return error


def full(circuits: Circuits, *flows: Flow) -> list[bool]:
    return [circuits.is_blocked(flow) for flow in flows]


async def test_flows_with_the_same_server_model_and_key_share_one_circuit() -> None:
    circuits = Circuits()
    one, same, other_model, other_key = flow(), flow(), flow(), flow()
    for each, provider in (
        (one, Refuses()),
        (same, Refuses()),
        (other_model, Refuses(model="large")),
        (other_key, Refuses(account=2)),
    ):
        breaker = circuits.breaker(each, provider, provider)
        if each is one:
            first = breaker
    assert full(circuits, one, same, other_model, other_key) == [False] * 4

    await refused(first)

    assert full(circuits, one, same, other_model, other_key) == [True, True, False, False]
    assert circuits.blocking("http://here", "small") is not None
    circuits.released(one)
    assert full(circuits, one, same) == [False, True]
    circuits.released(same)
    assert circuits.blocking("http://here", "small") is None


async def test_flow_waits_as_a_whole_only_for_a_model_that_all_its_requests_need() -> None:
    circuits = Circuits()
    requests, chunks = flow(), flow(CHUNKS)
    asks, extracts = (circuits.breaker(each, Refuses(), Refuses()) for each in (requests, chunks))

    away = await refused(asks, "large")
    assert isinstance(away, ProviderAway)
    assert away.suspect  # it makes room
    assert full(circuits, requests, chunks) == [False, False]

    away = await refused(extracts, "large")
    assert isinstance(away, ProviderAway)
    assert not away.suspect
    assert full(circuits, requests, chunks) == [False, True]
    circuits.close()


async def test_request_that_names_a_refused_model_fails_at_once() -> None:
    circuits = Circuits()
    completions = flow(COMPLETIONS)
    breaker = circuits.breaker(completions, Refuses(), Refuses())
    assert isinstance(await refused(breaker, "large"), ProviderAuthentication)
    assert isinstance(await refused(breaker), ProviderAway)
    circuits.close()


async def test_waiting_flow_has_room_when_the_circuit_closes() -> None:
    circuits = Circuits()
    chunks = flow(CHUNKS)
    breaker = circuits.breaker(chunks, Refuses(), Refuses())
    away = await refused(breaker)
    assert isinstance(away, ProviderAway)
    waiting = asyncio.create_task(circuits.until_unblocked(chunks))
    await asyncio.sleep(0)
    assert not waiting.done()
    away.circuit.close()
    await waiting


def test_outage_of_a_model_and_its_end_are_logged_once_each(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="trustgraph_prompt.worker.around.circuits")
    circuits, provider, flows = Circuits(clock=now), Refuses(), [flow(CHUNKS), flow(CHUNKS)]

    async def outage() -> None:
        provider.refuses, provider.seconds = True, [0.1, 0.2]
        breakers = [circuits.breaker(each, provider, provider) for each in flows]
        await asyncio.gather(
            *map(refused, breakers)
        )  # the second fails when the first has opened the circuit
        provider.refuses = False
        await asyncio.sleep(600)  # the model is probed meanwhile

    async def two_outages() -> None:
        await outage()
        await outage()

    run(two_outages())

    assert [record.getMessage() for record in caplog.records] == 2 * [
        "provider http://here small is unavailable, its requests wait: provider_authentication: HTTP 401",
        "provider http://here small is available again",
    ]


async def test_model_is_shown_as_away_while_it_is_with_any_key() -> None:
    metrics = Metrics()

    def shown() -> float | None:
        labels = {"server": "http://here", "model": "small"}
        return metrics.registry.get_sample_value("trustgraph_prompt_model_away", labels)

    def show(circuit: Circuit) -> None:
        metrics.calls.away("http://here", "small", circuits.is_away("http://here", "small"))

    circuits = Circuits(show)
    one, two = flow(), flow()
    for each, account in ((one, 1), (two, 2)):
        provider = Refuses(account=account)
        await refused(circuits.breaker(each, provider, provider))
    assert shown() == 1
    circuits.released(two)
    assert shown() == 1
    circuits.released(one)
    assert shown() is None
