"""When a request over topics counts as lost and is sent again, in virtual time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from itertools import count
from math import inf

import pytest

from tests.support.deltas import CALL, text_of
from tests.support.virtual_time import now, run
from trustgraph_prompt.broker import Message
from trustgraph_prompt.broker.caller import TopicCaller
from trustgraph_prompt.cost import Usage
from trustgraph_prompt.errors import ProviderError, ProviderRateLimit, ProviderUnavailable
from trustgraph_prompt.llm import Call, Delta, LostMessages, TopicProvider

WHOLE = replace(CALL, stream=False)


class Clock:
    time = 1000.5

    def __call__(self) -> float:
        return self.time


def answered(lost: LostMessages, *seconds: float) -> None:
    """Answers arrive now, after so many seconds each."""
    for each in seconds:
        lost.answered(lost.now() - each)


def experienced(clock: Clock, seconds: float) -> LostMessages:
    """What knows many such answers; the newest is to a request of just now."""
    lost = LostMessages(latest=240, clock=clock)
    answered(lost, *[seconds] * 1000, 0)
    return lost


def resent(lost: LostMessages, silent: float, *, of: int = 1) -> int:
    """How many of so many silent requests are sent again now."""
    return sum(lost.wait(silent, lambda: False) == 0 for _ in range(of))


def test_request_waits_for_the_latest_time_without_experience() -> None:
    lost = LostMessages(latest=240, clock=Clock())
    answered(lost, *[1] * 19)

    assert lost.patience == 240
    assert resent(lost, 239) == 0
    assert resent(lost, 240, of=9) == 9

    answered(lost, 1)
    assert lost.patience == 5


def test_patience_is_one_and_a_half_times_the_99th_percentile() -> None:
    lost = LostMessages(latest=240, clock=Clock())
    answered(lost, *[20] * 10, *[10] * 990)
    assert lost.patience == 15  # ten of a thousand are slower than that percentile

    answered(lost, 20)
    assert lost.patience == 15  # the first slow one is forgotten
    answered(lost, *[20] * 10)
    assert lost.patience == 30


@pytest.mark.parametrize(("seconds", "patience"), [(0.1, 5), (3, 5), (4, 6), (150, 225), (170, 240)])
def test_patience_is_never_below_five_seconds_nor_above_the_latest(seconds: float, patience: float) -> None:
    assert experienced(Clock(), seconds).patience == patience


def test_topics_that_lose_nothing_have_no_early_sending() -> None:
    lost = LostMessages(least=inf, clock=Clock())
    answered(lost, *[1] * 100)

    assert lost.patience == inf
    assert lost.wait(10_000, lambda: False) == inf
    assert LostMessages(latest=240, least=inf).wait(200, lambda: False) == 40


@pytest.mark.parametrize(("requests", "early"), [(0, 1), (1, 1), (99, 1), (149, 2), (1000, 20)])
def test_two_percent_of_a_minutes_requests_may_be_sent_again_early(requests: int, early: int) -> None:
    clock = Clock()
    lost = experienced(clock, 4)
    for _ in range(requests):
        clock.time += 59 / 1000
        lost.sent()
    answered(lost, 4)

    assert resent(lost, 5.9, of=100) == 0
    assert resent(lost, 6, of=100) == early
    assert resent(lost, 239, of=100) == 0
    assert resent(lost, 240, of=100) == 100


def test_share_of_early_sendings_is_that_of_the_last_minute() -> None:
    clock = Clock()
    lost = experienced(clock, 4)
    times: list[float] = []
    for _ in range(20_000):  # 50 requests a second, every one of them silent
        clock.time += 0.02
        lost.sent()
        answered(lost, 4)
        times += [clock.time] * resent(lost, 6)

    for time in times:
        assert sum(time - 60 < other <= time for other in times) <= 60
    assert len(times) > 300


def test_minute_with_fewer_requests_has_a_smaller_share() -> None:
    clock = Clock()
    lost = experienced(clock, 4)
    for _ in range(1000):
        lost.sent()
    clock.time += 61

    assert resent(lost, 6, of=100) == 1


def test_nothing_is_sent_again_early_within_a_minute_after_a_rate_limit() -> None:
    clock = Clock()
    lost = experienced(clock, 4)
    lost.rate_limited()

    clock.time += 59.9
    assert resent(lost, 100) == 0
    assert resent(lost, 240) == 1
    clock.time += 0.1
    assert resent(lost, 100) == 1


def test_nothing_is_sent_again_early_while_the_model_is_away() -> None:
    lost = experienced(Clock(), 4)

    assert lost.wait(100, lambda: True) > 0
    assert lost.wait(240, lambda: True) == 0


@pytest.mark.parametrize(("silent", "wait"), [(0, 5), (5, 10), (13, 2), (17, 5), (238, 2)])
def test_silent_request_is_checked_when_it_is_due_and_every_five_seconds_then(
    silent: float, wait: float
) -> None:
    assert experienced(Clock(), 10).wait(silent, lambda: True) == wait


def test_only_one_request_is_sent_again_early_where_no_newer_one_was_answered() -> None:
    clock = Clock()
    lost = experienced(clock, 4)
    for _ in range(1000):
        lost.sent()
    clock.time += 7

    assert resent(lost, 6.5, of=100) == 1
    answered(lost, 7)
    assert resent(lost, 6.5, of=100) == 0
    answered(lost, 6)
    assert resent(lost, 6.5, of=100) == 19


@dataclass
class Said:
    """What a service does with a request: nothing where it is lost, else it answers after `seconds`.

    An answer that is streamed has `pieces`, so many seconds for each, and no end where that is lost. One that
    is `repeated` comes once more ten seconds later.
    """

    seconds: float = 1.0
    text: str = "yes"
    lost: bool = False
    pieces: int = 1
    error: str | None = None
    repeated: bool = False

    def responses(self) -> Iterator[dict[str, object]]:
        if self.error is not None:
            yield {"error": {"type": self.error, "message": "no"}, "end_of_stream": True}
            return
        size = -(-len(self.text) // self.pieces)
        for start in range(0, len(self.text), size):
            last = start + size >= len(self.text)
            usage = {"in_token": 10, "out_token": 5} if last else {}
            piece = self.text[start : start + size]
            yield {"response": piece, "at": start, "end_of_stream": last, **usage}


@dataclass
class Service:
    """A completion worker and the topics before and behind it, which lose what the script says."""

    script: Callable[[int], Said]
    topic: str = "requests"
    asked: list[float] = field(default_factory=list)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    answers: asyncio.Queue[Message] = field(default_factory=asyncio.Queue)

    async def send(self, data: bytes, *, properties: Mapping[str, str] | None = None, **how: object) -> str:
        assert properties is not None
        said = self.script(len(self.asked))
        self.asked.append(now())
        if not (said.lost and said.pieces == 1):
            task = asyncio.create_task(self.answer(said, properties["id"]))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        return ""

    async def answer(self, said: Said, id: str) -> None:
        for response in said.responses():
            await asyncio.sleep(said.seconds)
            if said.lost and response["end_of_stream"]:
                return
            data = json.dumps(response).encode()
            self.answers.put_nowait(message := Message(data, "responses", "1", properties={"id": id}))
            if said.repeated:
                await asyncio.sleep(10)
                self.answers.put_nowait(message)

    async def receive(self) -> Message | None:
        return await self.answers.get()

    async def behind(self) -> bool:
        return False

    async def check(self) -> None: ...

    async def close(self) -> None: ...


def asking(service: Service, *, is_away: bool = False) -> TopicProvider:
    lost = LostMessages(latest=240, clock=now)
    caller = TopicCaller(service, service, "virtual:")
    return TopicProvider(caller, timeout=540, lost=lost, is_away=lambda place, model: is_away)


async def hear(provider: TopicProvider, call: Call = WHOLE, *, pause: float = 0.0) -> tuple[str, float]:
    """The answer, and how long it took, with so many seconds for each piece."""
    began, deltas = now(), list[Delta]()
    async with aclosing(provider.stream(call)) as stream:
        async for delta in stream:
            deltas.append(delta)
            await asyncio.sleep(pause)
    return text_of(deltas), now() - began


async def learn(provider: TopicProvider, calls: int = 100) -> None:
    """Make calls that are answered, all at once."""
    await asyncio.gather(*(hear(provider) for _ in range(calls)))


def after_learning(*said: Said, learned: float = 2.0, calls: int = 100) -> Service:
    """A service that answers so many requests, and does with those that follow what is said."""
    return Service(lambda number: said[number - calls] if number >= calls else Said(learned))


def test_lost_request_is_sent_again_when_its_answer_is_late() -> None:
    async def main() -> None:
        service = after_learning(Said(lost=True), Said(2.0, "found"), learned=10.0)
        provider = asking(service)
        await learn(provider)

        assert await hear(provider) == ("found", 17)
        assert len(service.asked) == 102

    run(main())


def test_requests_lost_before_any_answer_are_sent_again_once_others_have_one() -> None:
    async def main() -> None:
        service = Service(lambda number: Said(10.0, lost=number in (3, 70)))
        provider = asking(service)

        took = [seconds for _, seconds in await asyncio.gather(*(hear(provider) for _ in range(128)))]

        assert sorted(took)[-3:] == [10, 25, 25]

    run(main())


def test_lost_request_is_sent_again_after_four_minutes_without_experience() -> None:
    async def main() -> None:
        provider = asking(Service(lambda number: Said(lost=number == 0)))

        assert await hear(provider) == ("yes", 241)

    run(main())


@pytest.mark.parametrize(
    ("first", "second", "answer"), [(20.0, 20.0, ("first", 20)), (40.0, 10.0, ("second", 25))]
)
def test_answer_that_comes_first_is_used_and_the_other_counts_as_paid(
    first: float, second: float, answer: tuple[str, float]
) -> None:
    async def main() -> None:
        discarded: list[tuple[Usage, str]] = []
        provider = asking(after_learning(Said(first, "first"), Said(second, "second"), learned=10.0))
        await learn(provider)
        call = replace(WHOLE, discarded=lambda usage, model: discarded.append((usage, model)))

        assert await hear(provider, call) == answer
        assert discarded == []

        await asyncio.sleep(60)
        assert discarded == [(Usage(10, 5, 15), "")]

    run(main())


def test_answer_that_was_used_and_comes_once_more_is_not_paid_for() -> None:
    async def main() -> None:
        discarded: list[tuple[Usage, str]] = []
        service = after_learning(Said(lost=True), Said(1.0, repeated=True))
        provider = asking(service)
        await learn(provider)

        await hear(provider, replace(WHOLE, discarded=lambda usage, model: discarded.append((usage, model))))
        await asyncio.sleep(60)

        assert discarded == []

    run(main())


def test_time_of_a_second_sending_is_no_experience() -> None:
    async def main() -> None:
        provider = asking(after_learning(Said(lost=True), Said(50.0), Said(3.0), calls=20))
        await learn(provider, 20)

        assert await hear(provider) == ("yes", 55)
        assert provider.lost.patience == 5
        await hear(provider)
        assert provider.lost.patience == 5

    run(main())


def test_model_that_becomes_slower_is_not_asked_twice_for_long() -> None:
    async def main() -> None:
        provider = asking(service := Service(lambda number: Said(2.0 if number < 100 else 20.0)))
        await learn(provider)

        for _ in range(50):  # one after the other, so that each might be sent again
            await hear(provider)
            await asyncio.sleep(60)

        assert len(service.asked) < 155
        assert provider.lost.patience == 30

    run(main())


@pytest.mark.parametrize(("second", "heard"), [(Said(4.0, "found"), True), (Said(lost=True), False)])
def test_other_sending_is_awaited_once_more_after_an_error_of_one(second: Said, heard: bool) -> None:
    async def main() -> None:
        service = after_learning(Said(6.0, error="llm-error"), second)
        provider = asking(service)
        await learn(provider)

        began = now()
        if heard:
            assert await hear(provider) == ("found", 9)
        else:
            with pytest.raises(ProviderError, match="llm-error: no"):
                await hear(provider)
            assert now() - began == 11  # five seconds after the error

    run(main())


def test_rate_limit_prevents_early_sendings_for_a_minute() -> None:
    async def main() -> None:
        service = after_learning(Said(1.0, error="too-many-requests"), Said(lost=True), Said(2.0, "found"))
        provider = asking(service)
        await learn(provider)
        with pytest.raises(ProviderRateLimit):
            await hear(provider)

        text, seconds = await hear(provider)

        assert text == "found"
        assert 60 <= seconds <= 67

    run(main())


def test_model_that_is_away_gets_no_early_sendings() -> None:
    async def main() -> None:
        provider = asking(after_learning(Said(lost=True), Said(2.0)), is_away=True)
        await learn(provider)

        assert await hear(provider) == ("yes", 242)

    run(main())


def test_lost_end_of_a_stream_is_an_error_when_it_is_late() -> None:
    async def main() -> None:
        service = after_learning(Said(1.0, "Hello, world.", lost=True, pieces=4))
        provider = asking(service)
        await learn(provider)

        began = now()
        with pytest.raises(ProviderUnavailable, match="the end of the answer was lost: nothing came for 5 s"):
            await hear(provider, CALL)
        assert now() - began == 3 + 5
        assert len(service.asked) == 101

    run(main())


def test_stream_whose_pieces_are_used_slowly_has_lost_nothing() -> None:
    async def main() -> None:
        provider = asking(after_learning(Said(1.0, "Hello, world.", pieces=4)))
        await learn(provider)

        assert await hear(provider, CALL, pause=10) == ("Hello, world.", 41)

    run(main())


@pytest.mark.parametrize(
    "second", [Said(60.0, "Goodbye."), Said(3.0, "Goodbye."), Said(3.0, error="llm-error")]
)
def test_stream_that_began_is_not_mixed_with_its_second_sending(second: Said) -> None:
    async def main() -> None:
        discarded: list[Usage] = []
        provider = asking(after_learning(Said(6.0, "Hello, world.", pieces=2), second))
        await learn(provider)
        call = replace(CALL, discarded=lambda usage, model: discarded.append(usage))

        assert await hear(provider, call) == ("Hello, world.", 12)

        await asyncio.sleep(60)
        assert discarded == [Usage(10, 5, 15)] * (second.error is None)

    run(main())


def test_end_of_a_stream_that_comes_after_it_was_given_up_counts_as_paid() -> None:
    async def main() -> None:
        discarded: list[Usage] = []
        provider = asking(after_learning(Said(70.0, pieces=2), Said(lost=True)))
        await learn(provider)

        with pytest.raises(ProviderUnavailable, match="the end of the answer was lost"):
            await hear(provider, replace(CALL, discarded=lambda usage, model: discarded.append(usage)))
        await asyncio.sleep(100)

        assert discarded == [Usage(10, 5, 15)]

    run(main())


def test_answer_that_comes_after_the_timeout_counts_as_paid() -> None:
    async def main() -> None:
        discarded: list[Usage] = []
        service = Service(lambda number: Said(60.0))
        provider = TopicProvider(TopicCaller(service, service, "virtual:"), timeout=50)

        with pytest.raises(ProviderUnavailable, match="no response"):
            await hear(provider, replace(WHOLE, discarded=lambda usage, model: discarded.append(usage)))
        await asyncio.sleep(20)

        assert discarded == [Usage(10, 5, 15)]

    run(main())


@pytest.mark.parametrize(("learned", "second"), [(0, 240), (100, 5)])
def test_request_is_sent_twice_at_most(learned: int, second: float) -> None:
    async def main() -> None:
        service = after_learning(*[Said(lost=True)] * 3, calls=learned)
        provider = asking(service)
        await learn(provider, learned)

        began = now()
        with pytest.raises(ProviderUnavailable, match="no response"):
            await hear(provider)
        assert [time - began for time in service.asked[learned:]] == [0, second]

    run(main())


def test_model_that_slows_down_ten_times_is_asked_twice_for_few_requests() -> None:
    async def main() -> None:
        service = Service(lambda number: Said(2.0 if now() < 60 else 20.0 + number % 5))
        provider = asking(service)
        answers = count()

        async def work() -> None:
            while now() < 100:
                await hear(provider)
                next(answers)

        await asyncio.gather(*(work() for _ in range(60)))

        assert len(service.asked) - next(answers) < 5  # 2 % of a minute's requests are 36

    run(main())


def test_lost_requests_take_less_than_three_times_as_long_as_the_others() -> None:
    async def main() -> None:
        lost = range(11, 6000, 200)
        service = Service(lambda number: Said(10.0 + number % 7, lost=number in lost))
        provider, took, numbers = asking(service), list[float](), count()

        async def work() -> None:
            while next(numbers) < 6000:
                took.append((await hear(provider))[1])

        await asyncio.gather(*(work() for _ in range(128)))

        assert max(took) < 3 * 16
        assert len(took) == 6000
        assert len(service.asked) == 6000 + len(lost)

    run(main())
