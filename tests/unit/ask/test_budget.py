"""What asking may cost: seconds, tokens and money, over all calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from typing import Any

import pytest

from tests.support import virtual_time
from tests.support.asking import Asked, Script, cut, lines, numbers, why
from trustgraph_prompt import errors
from trustgraph_prompt.cost import Budget, Price, Usage
from trustgraph_prompt.errors import Reason
from trustgraph_prompt.llm import Call, Delta, RetryPolicy, RuntimeConfig, ScriptedAnswer, ScriptedProvider


class TestBudgets:
    async def test_expired_request_makes_no_call_and_says_when_its_seconds_ended(self, asked: Asked) -> None:
        outcome = await asked(
            Script(ScriptedAnswer(lines([1]))), budget=Budget(seconds=60), published=asked.clock.now - 121
        )

        assert outcome.reason is Reason.BUDGET_SPENT
        assert outcome.calls == ()
        assert outcome.explain() == "the 60 seconds of the budget ended 61 seconds ago"

    async def test_request_that_expires_just_now_is_said_to_be_over(self, asked: Asked) -> None:
        outcome = await asked(
            Script(ScriptedAnswer(lines([1]))), budget=Budget(seconds=0.3), published=asked.clock.now - 0.301
        )

        assert outcome.explain() == "the 0.3 seconds of the budget are over"

    async def test_spent_money_is_named_in_the_issue(self, asked: Asked) -> None:
        cut_off = cut(lines([1]), usage=Usage(0, 1000, 1000))
        outcome = await asked(Script(cut_off), budget=Budget(money=0.001), price=Price(0, 1.25))

        assert outcome.issues[-1].message == "0.00125 of 0.001 in money are spent"

    async def test_money_without_a_price_is_refused(self, asked: Asked) -> None:
        with pytest.raises(ValueError, match="needs a price"):
            await asked(Script(ScriptedAnswer(lines([1]))), budget=Budget(money=1))

    async def test_continuation_ends_when_the_tokens_are_spent(self, asked: Asked) -> None:
        parts = [cut(lines(range(n, n + 10)), usage=Usage(50, 50, 100)) for n in range(0, 100, 10)]
        outcome = await asked(Script(*parts), budget=Budget(tokens=350))

        assert outcome.value == numbers(range(30))
        assert outcome.truncated is True
        assert len(outcome.calls) == 3
        assert outcome.issues[-1].reason is Reason.BUDGET_SPENT

    async def test_call_is_not_given_more_tokens_than_are_left(self, asked: Asked) -> None:
        script = Script(cut(lines([1]), usage=Usage(50, 50, 100)), ScriptedAnswer(lines([2])))
        await asked(script, budget=Budget(tokens=250))

        first, second = (call.config.max_tokens for call in script.calls)
        assert first is not None
        assert second is not None
        assert second < 150 < first < 250

    async def test_tokens_that_nobody_reports_are_estimated(self, asked: Asked) -> None:
        def silent(call: Call) -> Iterable[Delta]:
            number = int(call.labels["call"])
            return [Delta(lines(range(number * 100, number * 100 + 100))), Delta(finish_reason="length")]

        outcome = await asked(ScriptedProvider(silent), budget=Budget(tokens=1000))

        assert 2 <= len(outcome.calls) <= 5
        assert outcome.usage == Usage()

    async def test_thinking_is_estimated_where_nobody_reports_it(self, asked: Asked) -> None:
        def silent(call: Call) -> Iterable[Delta]:
            thought = [Delta(thinking="0123" * 1000)] * 10
            return [*thought, Delta(lines([int(call.labels["call"])])), Delta(finish_reason="length")]

        outcome = await asked(ScriptedProvider(silent), budget=Budget(tokens=5_000))

        assert len(outcome.calls) == 1
        assert outcome.issues[-1].reason is Reason.BUDGET_SPENT

    async def test_thinking_before_a_broken_stream_counts_towards_the_budget(self, asked: Asked) -> None:
        broken = ScriptedAnswer(thinking="hm, " * 6000, error=errors.ProviderUnavailable("gone"))
        outcome = await asked(Script(broken), budget=Budget(tokens=5_000))

        assert outcome.reason is Reason.BUDGET_SPENT
        assert why(outcome) == ["first"]

    async def test_missing_half_of_a_usage_report_is_estimated(self, asked: Asked) -> None:
        parts = [cut("\n" * 4000 + lines([n]), usage=Usage(prompt_tokens=1)) for n in range(9)]
        outcome = await asked(Script(*parts), budget=Budget(tokens=1500))

        assert len(outcome.calls) == 2

    @pytest.mark.parametrize("budget", [Budget(tokens=5), Budget(money=5 / 1_000_000)])
    async def test_question_that_takes_all_of_the_budget_is_not_sent(
        self, asked: Asked, budget: Budget
    ) -> None:
        script = Script(ScriptedAnswer(lines([1])))
        outcome = await asked(script, budget=budget, price=Price(1, 1))

        assert outcome.reason is Reason.BUDGET_SPENT
        assert script.calls == []

    async def test_continuation_without_room_for_its_answer_is_not_sent(self, asked: Asked) -> None:
        script = Script(cut(lines([1]), usage=Usage(50, 50, 100)))
        outcome = await asked(script, budget=Budget(tokens=110))

        assert outcome.value == numbers([1])
        assert (len(script.calls), outcome.truncated) == (1, True)

    async def test_answer_may_have_as_many_tokens_as_the_money_buys(self, asked: Asked) -> None:
        script = Script(ScriptedAnswer(lines([1])))
        await asked(script, budget=Budget(money=0.01), price=Price(prompt=1, completion=10))

        limit = script.calls[0].config.max_tokens
        assert limit is not None
        assert 900 < limit < 1000

    @pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
    async def test_token_limit_among_the_extras_is_lowered_there(self, asked: Asked, name: str) -> None:
        script = Script(ScriptedAnswer(lines([1])))
        await asked(script, config=RuntimeConfig(extras={name: 900}), budget=Budget(tokens=100))

        config = script.calls[0].config
        assert config.max_tokens is None
        assert 50 < config.extras[name] < 100

    @pytest.mark.parametrize(
        "usage",
        [Usage(total_tokens=1000), Usage(prompt_tokens=0, completion_tokens=100, total_tokens=1000)],
    )
    async def test_tokens_that_a_total_does_not_split_cost_the_dearer_price(
        self, asked: Asked, usage: Usage
    ) -> None:
        parts = [cut(lines([n]), usage=usage) for n in range(9)]
        outcome = await asked(Script(*parts), budget=Budget(money=0.006), price=Price(prompt=1, completion=5))

        assert len(outcome.calls) == 2

    @pytest.mark.parametrize(("cached", "cost"), [(None, 12.0), (0.5, 7.0), (0.0, 2.0)])
    async def test_cached_tokens_have_a_price_of_their_own(
        self, asked: Asked, cached: float | None, cost: float
    ) -> None:
        usage = Usage(prompt_tokens=10_000_000, completion_tokens=1_000_000, cached_tokens=10_000_000)
        price = Price(prompt=1, completion=2, cached=cached)
        outcome = await asked(Script(ScriptedAnswer(lines([1]), usage=usage)), price=price)

        assert outcome.cost == pytest.approx(cost)

    async def test_cached_tokens_count_up_to_the_tokens_of_the_prompt(self, asked: Asked) -> None:
        usage = Usage(prompt_tokens=10, completion_tokens=0, cached_tokens=10_000_000)
        price = Price(prompt=1, completion=2, cached=0)

        assert (await asked(Script(ScriptedAnswer(lines([1]), usage=usage)), price=price)).cost == 0

    @pytest.mark.parametrize("retry", [RetryPolicy(deadline=1), RetryPolicy(tokens=9)])
    async def test_deadline_and_tokens_of_a_retry_policy_are_refused(
        self, asked: Asked, retry: RetryPolicy
    ) -> None:
        with pytest.raises(ValueError, match="takes both from the budget"):
            await asked(Script(ScriptedAnswer(lines([1]))), retry=retry)

    async def test_continuation_ends_when_the_money_is_spent(self, asked: Asked) -> None:
        parts = [cut(lines([n]), usage=Usage(0, 1000, 1000)) for n in range(9)]
        outcome = await asked(Script(*parts), budget=Budget(money=0.01), price=Price(prompt=1, completion=5))

        assert len(outcome.calls) == 2
        assert outcome.truncated is True

    async def test_request_that_waited_for_days_has_all_its_seconds_of_work(self, asked: Asked) -> None:
        outcome = await asked(
            Script(ScriptedAnswer(lines([1]))),
            budget=Budget(work_seconds=60),
            published=asked.clock.now - 1_000_000,
        )

        assert outcome.value == numbers([1])

    async def test_rate_limit_longer_than_the_seconds_of_work_is_a_provider_error(self, asked: Asked) -> None:
        limit = errors.ProviderRateLimit("slow down", retry_after=45)
        outcome = await asked(Script(ScriptedAnswer(error=limit)), budget=Budget(work_seconds=30))

        assert asked.clock.slept == []
        assert outcome.reason is Reason.PROVIDER_ERROR

    def test_slow_answer_is_cut_when_the_seconds_of_work_end(self, asked: Asked) -> None:
        class Trickles:
            async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
                for number in range(100_000):
                    asked.clock.now += 1
                    await asyncio.sleep(1)
                    yield Delta(lines([number]))

        outcome = virtual_time.run(asked(Trickles(), budget=Budget(work_seconds=600)))

        assert 590 <= len(outcome.value) <= 600
        assert outcome.truncated is True
        assert len(outcome.calls) == 1

    async def test_wait_longer_than_the_seconds_left_is_not_begun(self, asked: Asked) -> None:
        limit = errors.ProviderRateLimit("slow down", retry_after=45)
        outcome = await asked(Script(ScriptedAnswer(error=limit)), budget=Budget(seconds=30))

        assert asked.clock.slept == []
        assert outcome.reason is Reason.PROVIDER_ERROR

    @pytest.mark.parametrize(
        ("budget", "before", "reason", "value"),
        [
            (Budget(seconds=30), "", Reason.BUDGET_SPENT, []),
            (Budget(work_seconds=30), "", Reason.PROVIDER_ERROR, []),
            (Budget(seconds=30), lines([1, 2]), Reason.SUCCESS, numbers([1, 2])),
            (Budget(work_seconds=30, seconds=90), lines([1, 2]), Reason.SUCCESS, numbers([1, 2])),
        ],
    )
    def test_call_that_hangs_ends_with_the_seconds_of_the_budget(
        self, asked: Asked, budget: Budget, before: str, reason: Reason, value: list[Any]
    ) -> None:
        class Hangs:
            async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
                asked.clock.now += 29.95
                yield Delta(before)
                asked.clock.now += 0.04
                try:
                    await asyncio.Event().wait()
                finally:
                    asked.clock.now += 1

        outcome = virtual_time.run(asked(Hangs(), budget=budget))

        assert outcome.reason is reason
        assert outcome.value == value
        assert len(outcome.calls) == 1
