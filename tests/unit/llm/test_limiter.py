"""Limits that calls share: how many at a time, how many and how much in a minute, and who goes first."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing, suppress
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.deltas import CALL, text
from tests.support.virtual_time import now, run
from trustgraph_prompt.cost import Usage
from trustgraph_prompt.errors import ProviderError, ProviderRateLimit, ProviderUnavailable
from trustgraph_prompt.llm import (
    Call,
    Completer,
    Delta,
    Identity,
    Limiter,
    Limits,
    Message,
    RuntimeConfig,
    ScriptedAnswer,
    ScriptedProvider,
    ToolCall,
)


class Model(Completer):
    """Answers with 40 characters after a second, unless told otherwise; knows when who began, and how many
    it is answering."""

    def __init__(self, *answers: ScriptedAnswer, place: str = "here") -> None:
        self.began: list[tuple[float, str]] = []
        self.answering = self.most = 0
        self._answers = iter(answers)
        self._provider = ScriptedProvider(self._answer)
        self.identity = Identity("test", place=place)
        self.prefill = False
        self.closed = False

    def _answer(self, call: Call) -> ScriptedAnswer:
        return next(self._answers, ScriptedAnswer("x" * 40, delay=1))

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        self.began.append((now(), call.labels.get("name", "")))
        self.answering += 1
        self.most = max(self.most, self.answering)
        try:
            async for delta in self._provider.stream(call):
                yield delta
        finally:
            self.answering -= 1

    async def close(self) -> None:
        self.closed = True

    @property
    def times(self) -> list[float]:
        """When each call began."""
        return [when for when, _ in self.began]


def limits(**limit: int | None) -> Limits:
    return Limits(**limit, clock=now)  # type: ignore[arg-type]


def question(tokens: int, answer: int | None = None, name: str = "") -> Call:
    """A call whose question has so many tokens, and its answer at most so many."""
    config = RuntimeConfig(max_tokens=answer)
    return Call([Message("user", "word" * tokens)], config=config, labels={"name": name})


def used(tokens: int, **more: float) -> ScriptedAnswer:
    return ScriptedAnswer("x", usage=Usage(1, tokens - 1, tokens), delay=more.get("delay", 0))


async def category(provider: Limiter, call: Call = CALL) -> str:
    """How a call went: answered, or the category of its error."""
    try:
        await text(provider, call)
    except ProviderError as error:
        return error.category
    return "answered"


async def at_once(provider: Limiter, calls: Iterable[Call]) -> list[str]:
    return await asyncio.gather(*(category(provider, call) for call in calls))


class TestInFlight:
    def test_calls_in_flight_stay_within_the_limit(self) -> None:
        async def main() -> None:
            shared, model = limits(in_flight=3), Model()
            providers = [Limiter(model, shared), Limiter(model, shared)]
            answers = await asyncio.gather(*(text(providers[n % 2]) for n in range(10)))

            assert answers == ["x" * 40] * 10
            assert model.most == 3
            assert now() == 4

        run(main())

    def test_abandoned_call_gives_its_place_back(self) -> None:
        async def main() -> None:
            provider = Limiter(Model(), limits(in_flight=1))
            for _ in range(3):
                async with aclosing(provider.stream(CALL)) as deltas:
                    await anext(deltas)

        run(main())

    def test_abandoned_call_is_abandoned_by_the_provider_within(self) -> None:
        async def main() -> None:
            model = Model()
            async with aclosing(Limiter(model, limits(in_flight=1)).stream(CALL)) as deltas:
                await anext(deltas)
                assert model.answering == 1
            assert model.answering == 0

        run(main())

    def test_closing_the_limiter_closes_the_provider_within(self) -> None:
        model = Model()

        run(Limiter(model, limits(in_flight=1)).close())

        assert model.closed

    def test_places_that_become_free_together_are_taken_at_once(self) -> None:
        async def main() -> None:
            shared = limits(in_flight=100)
            places = [await shared.enter() for _ in range(100)]
            waiting = [asyncio.create_task(shared.enter()) for _ in range(200)]
            await asyncio.sleep(1)
            for place in places:
                shared.leave(place)

            assert (shared.in_flight, shared.waiting) == (100, 100)  # and nobody has woken up yet
            for each in waiting:
                each.cancel()

        run(main())

    def test_place_given_to_a_cancelled_call_goes_to_the_next(self) -> None:
        async def main() -> None:
            shared = limits(in_flight=1)
            place = await shared.enter()
            hasty, patient = (asyncio.create_task(shared.enter()) for _ in range(2))
            await asyncio.sleep(1)
            shared.leave(place)
            hasty.cancel()
            await patient

            assert (shared.in_flight, shared.waiting) == (1, 0)

        run(main())

    def test_newcomer_begins_after_those_that_have_just_been_let_in(self) -> None:
        async def main() -> None:
            shared = limits(in_flight=2)
            places = [await shared.enter() for _ in range(2)]
            began = []

            async def begin(name: str) -> None:
                await shared.enter()
                began.append(name)

            first = asyncio.create_task(begin("first"))
            await asyncio.sleep(1)
            for place in places:
                shared.leave(place)
            await begin("second")
            await first

            assert began == ["first", "second"]

        run(main())

    def test_cancelled_call_is_given_no_place(self) -> None:
        async def main() -> None:
            shared = limits(in_flight=1)
            place = await shared.enter()
            hasty, patient = (asyncio.create_task(shared.enter()) for _ in range(2))
            await asyncio.sleep(1)
            hasty.cancel()
            shared.leave(place)
            await patient

            assert (shared.in_flight, shared.waiting) == (1, 0)

        run(main())

    def test_limit_that_lets_nothing_through_is_refused(self) -> None:
        for name in ("in_flight", "requests_per_minute", "tokens_per_minute"):
            with pytest.raises(ValueError):
                limits(**{name: 0})


class TestRequests:
    def test_calls_started_in_any_minute_stay_within_the_limit(self) -> None:
        async def main() -> None:
            model = Model()
            provider = Limiter(model, limits(requests_per_minute=3))
            await text(provider)
            await asyncio.sleep(29)  # 30 seconds after the first
            await at_once(provider, [CALL] * 7)

            assert model.times == [0, 30, 30, 60, 90, 90, 120, 150]

        run(main())

    def test_failed_call_counts_towards_the_requests_per_minute(self) -> None:
        async def main() -> None:
            model = Model(ScriptedAnswer(error=ProviderUnavailable("down")))
            provider = Limiter(model, limits(requests_per_minute=1))

            assert await category(provider) == "provider_unavailable"
            assert await category(provider) == "answered"
            assert model.times == [0, 60]

        run(main())


class TestTokens:
    def test_call_reserves_its_question_and_the_longest_answer(self) -> None:
        async def main() -> None:
            model = Model(*(used(50, delay=70) for _ in range(4)))
            provider = Limiter(model, limits(tokens_per_minute=100))
            await at_once(provider, [question(10, answer=40)] * 4)

            assert model.times == [0, 0, 60, 60]

        run(main())

    def test_max_completion_tokens_limits_the_reserved_answer_too(self) -> None:
        async def main() -> None:
            model = Model(*(used(50, delay=70) for _ in range(4)))
            config = RuntimeConfig(extras={"max_completion_tokens": 40})
            call = Call(question(10).messages, config=config)
            await at_once(Limiter(model, limits(tokens_per_minute=100)), [call] * 4)

            assert model.times == [0, 0, 60, 60]

        run(main())

    def test_reserved_tokens_that_were_not_used_are_free_at_once(self) -> None:
        async def main() -> None:
            model = Model(*(used(20, delay=1) for _ in range(4)))
            provider = Limiter(model, limits(tokens_per_minute=100))
            await at_once(provider, [question(10, answer=50)] * 4)

            assert model.times == [0, 1, 2, 60]  # 20 + 20 + 20 + 60 are too many

        run(main())

    def test_tokens_used_beyond_the_reserve_count_when_they_are_known(self) -> None:
        async def main() -> None:
            model = Model(used(90, delay=30))
            provider = Limiter(model, limits(tokens_per_minute=100))
            await text(provider, question(10))
            await text(provider, question(30))

            assert model.times == [0, 90]  # of the first, 10 were taken at 0, and 80 at 30

        run(main())

    def test_tokens_are_estimated_from_the_text_without_a_report(self) -> None:
        async def main() -> None:
            model = Model(ScriptedAnswer("x" * 360, usage=Usage(), delay=30))
            provider = Limiter(model, limits(tokens_per_minute=100))
            await text(provider, question(10))
            await text(provider, question(30))

            assert model.times == [0, 90]

        run(main())

    def test_tokens_of_tool_calls_are_estimated_too(self) -> None:
        async def main() -> None:
            call = ToolCall("1", "look", {}, "x" * 360)
            model = ScriptedProvider(lambda _: [Delta(tool_calls=(call,))])
            provider = Limiter(model, limits(tokens_per_minute=100))
            await text(provider, question(10))
            assert now() == 0

            await text(provider, question(1))
            assert now() == 60

        run(main())

    def test_failed_call_without_an_answer_takes_no_tokens(self) -> None:
        async def main() -> None:
            model = Model(ScriptedAnswer(error=ProviderUnavailable("down")))
            provider = Limiter(model, limits(tokens_per_minute=100))

            assert await category(provider, question(100)) == "provider_unavailable"
            assert await category(provider, question(100)) == "answered"
            assert model.times == [0, 0]

        run(main())

    def test_abandoned_call_takes_the_tokens_of_its_text_so_far(self) -> None:
        async def main() -> None:
            model = Model(ScriptedAnswer("x" * 400, chunk=4), ScriptedAnswer("x"))
            provider = Limiter(model, limits(tokens_per_minute=100))
            async with aclosing(provider.stream(question(10, answer=90))) as deltas:
                for _ in range(20):
                    await anext(deltas)
            await text(provider, question(70))
            await text(provider, question(1))

            assert model.times == [0, 0, 60]

        run(main())

    def test_call_of_more_than_a_minutes_tokens_runs_alone(self) -> None:
        async def main() -> None:
            model = Model(used(1), used(500), used(1))
            provider = Limiter(model, limits(tokens_per_minute=100))
            await at_once(provider, [question(1), question(400, answer=100), question(1)])

            assert model.times == [0, 60, 120]

        run(main())

    @pytest.mark.parametrize(("said", "times"), [(-(10**12), [0, 0, 60, 120]), (10**12, [0, 60, 120, 180])])
    def test_absurd_answer_limit_delays_others_by_a_minute_at_most(
        self, said: int, times: list[float]
    ) -> None:
        async def main() -> None:
            model = Model(used(1, delay=200), *(used(70, delay=1) for _ in range(3)))
            provider = Limiter(model, limits(tokens_per_minute=100))
            calls = [question(10, answer=said), *([question(70)] * 3)]
            await at_once(provider, calls)

            assert model.times == times

        run(main())

    def test_absurd_usage_report_delays_others_by_a_minute(self) -> None:
        async def main() -> None:
            model = Model(used(10**12, delay=5), used(1))
            provider = Limiter(model, limits(tokens_per_minute=100))
            await text(provider, question(10))
            await text(provider, question(10))

            assert model.times == [0, 65]

        run(main())


class TestTurns:
    def test_no_call_overtakes_one_that_waits_for_tokens(self) -> None:
        async def main() -> None:
            model = Model(*(used(90) for _ in range(2)))
            provider = Limiter(model, limits(tokens_per_minute=100))
            await at_once(provider, [question(n, name=f"{n}") for n in (90, 80, 1, 2)])

            assert [name for _, name in model.began] == ["90", "80", "1", "2"]
            assert model.times[1] == 60

        run(main())

    def test_large_call_and_small_ones_behind_it_wait_for_a_minute_at_most(self) -> None:
        async def main() -> None:
            model = Model(*(used(10) for _ in range(50)))
            provider = Limiter(model, limits(tokens_per_minute=1000))

            async def arrive(seconds: int) -> None:
                await asyncio.sleep(seconds)
                answer = 990 if seconds == 5 else None
                await text(provider, question(10, answer, name=f"{seconds}"))

            await asyncio.gather(*(arrive(seconds) for seconds in (*range(0, 120, 3), 5)))
            waited = {name: when - int(name) for when, name in model.began}

            assert waited["5"] == 58  # until what was taken at 3 has come back
            assert max(waited.values()) <= 60

        run(main())

    def test_cancelling_a_waiting_call_lets_the_next_go(self) -> None:
        async def main() -> None:
            model, shared = Model(), limits(tokens_per_minute=100)
            provider = Limiter(model, shared)
            await text(provider, question(10, name="first"))
            large = asyncio.create_task(text(provider, question(95, name="large")))
            small = asyncio.create_task(text(provider, question(5, name="small")))
            await asyncio.sleep(10)
            assert shared.waiting == 2
            large.cancel()
            with suppress(asyncio.CancelledError):
                await large
            await small

            assert model.began == [(0, "first"), (11, "small")]
            assert (shared.waiting, shared.in_flight) == (0, 0)

        run(main())

    def test_number_of_waiting_and_running_calls_can_be_seen(self) -> None:
        async def main() -> None:
            shared = limits(in_flight=2)
            calls = asyncio.gather(*(text(Limiter(Model(), shared)) for _ in range(5)))
            await asyncio.sleep(0.5)
            assert (shared.in_flight, shared.waiting) == (2, 3)
            await calls
            assert (shared.in_flight, shared.waiting) == (0, 0)

        run(main())


def refusal(retry_after: float | None = None, *, delay: float = 0, text: str = "") -> ScriptedAnswer:
    return ScriptedAnswer(text, delay=delay, error=ProviderRateLimit("slow down", retry_after=retry_after))


def watched(model: Model) -> tuple[Limiter, list[float]]:
    """A limiter, and the pauses it tells of."""
    pauses = list[float]()
    return Limiter(model, limits(), on_pause=lambda _, seconds: pauses.append(seconds)), pauses


class TestRefusals:
    def test_rate_limit_pauses_all_calls_for_its_retry_after(self) -> None:
        async def main() -> None:
            model, shared = Model(refusal(30)), limits()
            providers = [Limiter(model, shared), Limiter(model, shared)]
            assert await category(providers[0]) == "provider_rate_limit"
            assert shared.pause == 30
            await asyncio.sleep(10)
            assert shared.pause == 20
            await asyncio.gather(*(text(provider) for provider in providers))

            assert model.times == [0, 30, 31]  # one, and when it has been answered the next

        run(main())

    def test_rate_limit_within_an_answer_pauses_calls_too(self) -> None:
        async def main() -> None:
            model = Model(refusal(30, text="The sea"))
            provider = Limiter(model, limits())
            await category(provider)
            await text(provider)

            assert model.times == [0, 30]

        run(main())

    def test_rate_limits_of_calls_in_flight_do_not_add_up(self) -> None:
        async def main() -> None:
            model = Model(refusal(30), *(refusal(30, delay=n) for n in range(1, 10)))
            provider, pauses = watched(model)
            await at_once(provider, [CALL] * 10)
            assert now() == 9
            await text(provider)

            assert model.times == [0] * 10 + [30]
            assert pauses == [30]

        run(main())

    @pytest.mark.parametrize(("first", "second"), [(5, 40), (40, 5)])
    def test_longest_retry_after_of_calls_in_flight_counts(self, first: float, second: float) -> None:
        async def main() -> None:
            model = Model(refusal(first), refusal(second, delay=3))
            provider = Limiter(model, limits())
            await at_once(provider, [CALL] * 2)
            await text(provider)

            assert model.times == [0, 0, 40]

        run(main())

    def test_pause_without_a_retry_after_grows_until_an_answer_comes(self) -> None:
        async def main() -> None:
            model = Model(*(refusal() for _ in range(8)), used(1), refusal(0), used(1))
            provider, pauses = watched(model)
            for _ in range(11):
                await category(provider)

            assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 1]

        run(main())

    def test_answer_of_a_call_that_was_in_flight_resets_the_pause(self) -> None:
        async def main() -> None:
            model = Model(used(1, delay=2), refusal(), refusal())
            provider, pauses = watched(model)
            await at_once(provider, [CALL] * 2)  # the answer comes after the refusal
            await category(provider)

            assert pauses == [1, 1]

        run(main())

    def test_pause_that_takes_too_long_is_not_waited_for(self) -> None:
        async def main() -> None:
            model = Model(refusal(300, delay=1))
            provider = Limiter(model, limits(in_flight=1))
            results = await asyncio.gather(*(text(provider) for _ in range(3)), return_exceptions=True)

            assert [getattr(error, "retry_after", None) for error in results] == [300] * 3
            assert model.times == [0]
            await asyncio.sleep(200)
            await text(provider)
            assert model.times == [0, 301]

        run(main())

    def test_pause_lasts_five_minutes_at_most(self) -> None:
        async def main() -> None:
            model = Model(refusal(1e9))
            provider = Limiter(model, limits())
            await category(provider)
            await asyncio.sleep(300)
            await text(provider)

            assert model.times == [0, 300]

        run(main())

    @pytest.mark.parametrize("seconds", [-5.0, float("nan")])
    def test_absurd_retry_after_counts_as_none(self, seconds: float) -> None:
        async def main() -> None:
            provider, pauses = watched(Model(refusal(seconds)))
            await category(provider)

            assert pauses == [1]

        run(main())

    def test_cancelled_wait_leaves_no_task_behind(self) -> None:
        async def main() -> None:
            provider = Limiter(Model(refusal(30)), limits())
            await category(provider)
            waiting = asyncio.create_task(text(provider))
            await asyncio.sleep(1)
            waiting.cancel()
            await asyncio.wait([waiting])
            await asyncio.sleep(0)

            assert asyncio.all_tasks() == {asyncio.current_task()}

        run(main())

    def test_other_errors_pause_nothing(self) -> None:
        async def main() -> None:
            model = Model(ScriptedAnswer(error=ProviderUnavailable("down", retry_after=30)))
            provider = Limiter(model, limits())
            await category(provider)
            await text(provider)

            assert model.times == [0, 0]

        run(main())


class TestServers:
    """Counts are shared by all; a refusal is the matter of the server that refused."""

    def test_rate_limit_of_one_server_does_not_pause_another(self) -> None:
        async def main() -> None:
            shared, told = limits(), list[tuple[str, float]]()
            busy, idle = Model(refusal(300), place="busy"), Model(place="idle")
            limiter_of_busy = Limiter(busy, shared, on_pause=lambda *pause: told.append(pause))
            assert await category(limiter_of_busy) == "provider_rate_limit"
            assert await category(Limiter(idle, shared)) == "answered"
            assert await category(limiter_of_busy) == "provider_rate_limit"

            assert (busy.times, idle.times) == ([0], [0])
            assert told == [("busy", 300)]
            assert shared.pause == 299

        run(main())

    def test_longest_pause_of_all_servers_can_be_seen(self) -> None:
        async def main() -> None:
            shared = limits()
            for place, seconds in (("one", 30), ("other", 90), ("third", 10)):
                await category(Limiter(Model(refusal(seconds), place=place), shared))
            assert shared.pause == 90
            await asyncio.sleep(80)
            assert shared.pause == 10
            await asyncio.sleep(11)
            assert shared.pause == 0

        run(main())

    def test_calls_waiting_for_a_paused_server_do_not_hold_up_another(self) -> None:
        async def main() -> None:
            shared = limits(in_flight=1)
            busy, idle = Model(refusal(60), place="busy"), Model(place="idle")
            await category(Limiter(busy, shared))
            waiting = [asyncio.create_task(text(Limiter(busy, shared))) for _ in range(3)]
            await asyncio.sleep(1)
            await at_once(Limiter(idle, shared), [CALL] * 3)
            await asyncio.gather(*waiting)

            assert idle.times == [1, 2, 3]
            assert busy.times == [0, 60, 61, 62]

        run(main())

    def test_next_call_lets_other_servers_go_first_when_its_server_pauses(self) -> None:
        async def main() -> None:
            shared = limits(in_flight=1)
            busy, idle = Model(refusal(60, delay=5), place="busy"), Model(place="idle")
            calls = [question(1, name=name) for name in "abcd"]
            await asyncio.gather(
                *(category(Limiter(busy, shared), call) for call in calls),
                category(Limiter(idle, shared)),
            )

            assert idle.times == [5]
            assert busy.began == [(0, "a"), (65, "b"), (66, "c"), (67, "d")]

        run(main())

    def test_servers_take_turns(self) -> None:
        async def main() -> None:
            shared = limits(in_flight=1)
            much, little = Model(place="much"), Model(place="little")
            calls = asyncio.gather(*(text(Limiter(much, shared)) for _ in range(100)))
            await asyncio.sleep(0.5)
            await at_once(Limiter(little, shared), [CALL] * 2)
            await calls

            assert little.times == [2, 4]
            assert len(much.times) == 100

        run(main())

    def test_call_cancelled_in_a_pause_is_not_waited_for(self) -> None:
        async def main() -> None:
            shared = limits()
            model = Model(refusal(60))
            provider = Limiter(model, shared)
            await category(provider)
            hasty = asyncio.create_task(text(provider, question(1, name="hasty")))
            patient = asyncio.create_task(text(provider, question(1, name="patient")))
            await asyncio.sleep(10)
            hasty.cancel()
            await patient

            assert model.began == [(0, ""), (60, "patient")]
            assert (shared.waiting, shared.in_flight) == (0, 0)

        run(main())


@dataclass(frozen=True)
class Arrival:
    """A call that comes so many seconds after the last, and is left after so many, or ends before."""

    after: float
    question: int
    answer: int
    spent: int  # of question and answer; nothing is reported where it is 0
    takes: float
    deadline: float
    server: str
    fails: ProviderError | None

    @property
    def reply(self) -> ScriptedAnswer:
        if self.fails:
            return ScriptedAnswer(delay=self.takes, error=self.fails)
        return used(self.spent, delay=self.takes)


@st.composite
def arrivals(draw: st.DrawFn) -> Arrival:
    asked, answered = draw(st.integers(1, 60)), draw(st.integers(0, 60))
    return Arrival(
        # eighths, so that a sum is as exact as a difference
        after=draw(st.sampled_from([0.0, 0.0, 0.0, 0.125, 1.0, 7.0, 59.875, 60.0])),
        question=asked,
        answer=answered,
        spent=draw(st.integers(1, asked + answered)),
        takes=draw(st.sampled_from([0.0, 0.375, 5.0, 61.0, 130.0])),
        deadline=draw(st.sampled_from([0.25, 30.0, 1e6, 1e6])),
        server=draw(st.sampled_from("ab")),
        fails=draw(
            st.sampled_from([None, None, ProviderUnavailable("down"), ProviderRateLimit("slow down")])
        ),
    )


class Ledger:
    """Sees every call that is let in, with what it may take at most from then on."""

    def __init__(self, plan: list[Arrival]) -> None:
        self.plan = plan
        self.order: dict[str, list[int]] = {"a": [], "b": []}
        self.entries: list[list[float]] = []  # when, tokens
        self.answering = self.most = 0

    async def answer(self, call: Call) -> AsyncGenerator[Delta, None]:
        number = int(call.labels["name"])
        arrival = self.plan[number]
        entry = [now(), float(arrival.question + arrival.answer)]
        self.order[arrival.server].append(number)
        self.entries.append(entry)
        self.answering += 1
        self.most = max(self.most, self.answering)
        brought = 0.0
        try:
            async for delta in ScriptedProvider([arrival.reply]).stream(call):
                brought = float(delta.usage.tokens) if delta.usage else brought
                yield delta
        finally:
            self.answering -= 1
            entry[1] = brought


class Server(Completer):
    """One of those that a ledger sees."""

    prefill = False

    def __init__(self, ledger: Ledger, place: str) -> None:
        self.identity = Identity("test", place=place)
        self.ledger = ledger

    def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        return self.ledger.answer(call)

    async def close(self) -> None: ...


@given(
    st.lists(arrivals(), min_size=1, max_size=30),
    st.none() | st.integers(1, 4),
    st.none() | st.integers(1, 6),
    st.none() | st.integers(20, 200),
)
def test_no_limit_is_ever_passed(
    plan: list[Arrival], in_flight: int | None, requests: int | None, tokens: int | None
) -> None:
    async def main() -> None:
        shared = limits(in_flight=in_flight, requests_per_minute=requests, tokens_per_minute=tokens)
        ledger = Ledger(plan)
        providers = {place: Limiter(Server(ledger, place), shared) for place in "ab"}

        async def arrive(number: int) -> None:
            arrival = plan[number]
            call = question(arrival.question, arrival.answer or None, str(number))
            with suppress(TimeoutError):
                async with asyncio.timeout(arrival.deadline):
                    await category(providers[arrival.server], call)

        async with asyncio.TaskGroup() as calls:
            for number, arrival in enumerate(plan):
                await asyncio.sleep(arrival.after)
                calls.create_task(arrive(number))

        assert (shared.in_flight, shared.waiting) == (0, 0)
        assert ledger.most <= (in_flight or len(plan))
        for order in ledger.order.values():
            assert order == sorted(order)
        patient = {n for n, each in enumerate(plan) if each.deadline == 1e6}
        assert patient <= {n for order in ledger.order.values() for n in order}
        for start, _ in ledger.entries:
            window = [entry for entry in ledger.entries if start <= entry[0] < start + 60]
            assert len(window) <= (requests or len(plan))
            taken = sum(entry[1] for entry in window)
            assert tokens is None or taken <= tokens or sum(1 for entry in window if entry[1]) == 1

    run(main())


def test_memory_does_not_grow_with_the_calls() -> None:
    async def main() -> None:
        shared = limits(in_flight=50, requests_per_minute=100, tokens_per_minute=100_000)

        async def some(calls: int) -> int:
            for _ in range(calls):
                place = await shared.enter(10)
                shared.leave(place, 20)
            return tracemalloc.get_traced_memory()[0]

        tracemalloc.start()
        try:
            before, after = await some(500), await some(5_000)
        finally:
            tracemalloc.stop()
        assert after - before < 10_000

    run(main())
