"""`SpendingLimit`: no call is made that may cost more than is left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from trustgraph_prompt.cost import Price, Usage
from trustgraph_prompt.errors import ProviderUnavailable
from trustgraph_prompt.llm import Call, Message, RuntimeConfig, ScriptedAnswer, ScriptedProvider
from trustgraph_prompt.llm.spending import CAUTION, LONG_ANSWER, SpendingLimit, SpendingLimitReached
from trustgraph_prompt.llm.token_estimates import estimate_question

PRICE = Price(1_000_000, 1_000_000)  # a token costs 1
ANSWER = ScriptedAnswer("yes", usage=Usage(5, 5))
QUESTION = Call([Message("user", "Is it?")], config=RuntimeConfig(max_tokens=20))
RESERVE = CAUTION * estimate_question(QUESTION) + 20


def limited(limit: float, script: Callable[[Call], ScriptedAnswer] = lambda call: ANSWER) -> SpendingLimit:
    return SpendingLimit(ScriptedProvider(script), PRICE, limit)


async def ask(provider: SpendingLimit, call: Call = QUESTION) -> str:
    return "".join([delta.text async for delta in provider.stream(call)])


async def test_reported_usage_is_spent() -> None:
    provider = limited(1_000)
    assert [await ask(provider) for _ in range(3)] == ["yes"] * 3
    assert (provider.spent, provider.reached) == (30, False)


async def test_call_that_may_cost_more_than_is_left_is_the_end() -> None:
    provider = limited(RESERVE + 9)
    await ask(provider)
    for call in (QUESTION, Call([Message("user", "")], config=RuntimeConfig(max_tokens=1))):
        with pytest.raises(SpendingLimitReached, match="too little for a call"):
            await ask(provider, call)
    assert (provider.spent, provider.reached) == (10, True)


async def test_call_waits_while_others_reserve_what_it_needs() -> None:
    go_on, asked = asyncio.Event(), 0

    class Slow(ScriptedProvider):
        async def stream(self, call: Call):  # type: ignore[no-untyped-def]
            nonlocal asked
            asked += 1
            await go_on.wait()
            async for delta in super().stream(call):
                yield delta

    provider = SpendingLimit(Slow(lambda call: ANSWER), PRICE, RESERVE * 2 - 1)
    calls = [asyncio.create_task(ask(provider)) for _ in range(2)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert asked == 1
    go_on.set()
    assert await asyncio.gather(*calls) == ["yes", "yes"]
    assert (provider.spent, provider.reached) == (20, False)


async def test_call_that_fails_before_its_answer_is_free() -> None:
    def away(call: Call) -> ScriptedAnswer:
        raise ProviderUnavailable("away")

    provider = limited(RESERVE, away)
    for _ in range(2):  # what was reserved is free again
        with pytest.raises(ProviderUnavailable):
            await ask(provider)
    assert provider.spent == 0


async def test_tokens_that_nobody_reports_are_estimated() -> None:
    provider = limited(1_000, lambda call: ScriptedAnswer("word " * 40))
    await ask(provider)
    assert provider.spent > 40


async def test_longest_answer_so_far_is_reserved_where_none_is_limited() -> None:
    unlimited = Call([Message("user", "Is it?")])
    long = ScriptedAnswer("yes", usage=Usage(5, LONG_ANSWER + 100))
    provider = limited(3 * LONG_ANSWER, lambda call: long)
    await ask(provider, unlimited)
    assert provider.spent == LONG_ANSWER + 105
    await ask(provider, unlimited)
    with pytest.raises(SpendingLimitReached):
        await ask(provider, unlimited)
