"""What is counted of calls to models."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress

import pytest

from tests.support.deltas import CALL
from tests.support.virtual_time import now, run
from trustgraph_prompt.errors import ProviderError, ProviderRateLimit, ProviderUnavailable
from trustgraph_prompt.llm import Limiter, Limits, Provider, ScriptedAnswer, ScriptedProvider
from trustgraph_prompt.worker.telemetry.call_metrics import CountedProvider
from trustgraph_prompt.worker.telemetry.metrics import Metrics


def metered(metrics: Metrics, *answers: ScriptedAnswer) -> CountedProvider:
    turn = iter(answers)
    return CountedProvider(ScriptedProvider(lambda _: next(turn)), metrics.calls, clock=now)


async def hear(provider: Provider) -> None:
    with suppress(ProviderError):
        async with aclosing(provider.stream(CALL)) as deltas:
            async for _ in deltas:
                await asyncio.sleep(1)


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    metrics.text()  # what is shown of the limits is read then
    return metrics.registry.get_sample_value(f"trustgraph_prompt_{name}", labels)


def test_call_is_timed_to_its_first_piece_and_to_its_end() -> None:
    metrics = Metrics()

    run(hear(metered(metrics, ScriptedAnswer("x" * 100, delay=3))))  # in three pieces, a second for each

    assert value(metrics, "call_first_delta_seconds_sum", model="scripted") == 3
    assert value(metrics, "call_seconds_sum", model="scripted") == 6
    assert value(metrics, "call_seconds_count", model="scripted") == 1


def test_call_is_in_flight_until_it_has_ended() -> None:
    async def main() -> None:
        metrics = Metrics()
        provider = metered(metrics, ScriptedAnswer("x"))
        async with aclosing(provider.stream(CALL)) as deltas:
            await anext(deltas)
            assert value(metrics, "calls_in_flight", model="scripted") == 1
        assert value(metrics, "calls_in_flight", model="scripted") == 0

    run(main())


@pytest.mark.parametrize("text", ["", "The sea"])
def test_failed_call_is_counted_by_its_category(text: str) -> None:
    metrics = Metrics()

    run(hear(metered(metrics, ScriptedAnswer(text, error=ProviderUnavailable("down")))))

    assert value(metrics, "call_errors_total", model="scripted", category="provider_unavailable") == 1
    assert value(metrics, "call_seconds_count", model="scripted") == 1
    assert value(metrics, "call_first_delta_seconds_count", model="scripted") == (1 if text else 0)


def test_waiting_calls_and_the_pause_of_a_rate_limit_are_shown() -> None:
    async def main() -> None:
        metrics, limits = Metrics(), Limits(in_flight=1, clock=now)
        metrics.calls.watch(limits)
        refused = ScriptedAnswer(error=ProviderRateLimit("slow down", retry_after=30))
        model = metered(metrics, refused, *[ScriptedAnswer("x")] * 3)
        provider = Limiter(model, limits, on_pause=metrics.calls.paused)
        calls = asyncio.gather(*(hear(provider) for _ in range(4)))
        await asyncio.sleep(10)

        assert value(metrics, "calls_waiting") == 3
        assert value(metrics, "rate_limit_pauses_total") == 1
        assert value(metrics, "rate_limit_pause_seconds") == 20
        await calls
        assert value(metrics, "calls_waiting") == 0
        assert value(metrics, "rate_limit_pause_seconds") == 0
        assert value(metrics, "call_seconds_sum", model="scripted") == 6  # the waiting is not in it

    run(main())
