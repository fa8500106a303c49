"""The calls of a run, in virtual time: how long each may take, and how many a server with one slot gets."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import suppress

import pytest

from tests.support.deltas import CALL
from tests.support.virtual_time import now, run
from tests.unit.cli.test_extract_summary import JOB
from trustgraph_prompt.cli.extract_summary import ExtractSummary
from trustgraph_prompt.cli.progress import RunProgress
from trustgraph_prompt.errors import ProviderUnavailable
from trustgraph_prompt.llm import Call, Completer, Delta, Identity, Limiter, Limits
from trustgraph_prompt.llm.calls_in_progress import AnswerTookTooLong, CallsInProgress, RunIsEnding

FIRST = Call(CALL.messages, labels={"call": "1"})


class Server(Completer):
    """Has some slots, and takes `seconds` for each answer, in pieces of ten characters or at once."""

    prefill = False
    identity = Identity("test", "small", "here")

    def __init__(self, slots: int = 1, seconds: float = 10, pieces: int = 20, begin: float = 0.1) -> None:
        self.most = self.running = self.answered = 0
        self._slots = asyncio.Semaphore(slots)
        self._seconds, self._pieces, self._begin = seconds, pieces, begin

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            async with self._slots:
                await asyncio.sleep(self._begin)
                for _ in range(self._pieces):
                    await asyncio.sleep(self._seconds / self._pieces)
                    yield Delta("ten more, ")
                yield Delta(finish_reason="stop")
                self.answered += 1
        finally:
            self.running -= 1

    async def close(self) -> None: ...


async def take(calls: Completer, call: Call = FIRST) -> None:
    async for _ in calls.stream(call):
        pass


async def take_all(calls: CallsInProgress, count: int) -> list[BaseException | None]:
    return await asyncio.gather(*(take(calls) for _ in range(count)), return_exceptions=True)


def test_call_to_a_silent_server_is_given_up() -> None:
    async def main() -> None:
        calls = CallsInProgress(Server(begin=1_000), begin_seconds=300, clock=now)
        with pytest.raises(ProviderUnavailable, match=r"sent nothing for 300 seconds \(--begin-seconds\)"):
            await take(calls)
        assert now() == 300
        assert calls.seconds == []

    run(main())


def test_call_in_the_queue_behind_others_is_not_given_up() -> None:
    async def main() -> None:
        calls = CallsInProgress(Server(seconds=250), begin_seconds=300, answer_seconds=600, clock=now)
        assert await take_all(calls, 8) == [None] * 8
        assert now() == pytest.approx(8 * 250.1)

    run(main())


def test_limit_of_an_answer_runs_from_its_first_piece() -> None:
    async def main() -> None:
        quick = CallsInProgress(Server(seconds=590), begin_seconds=600, answer_seconds=600, clock=now)
        assert await take_all(quick, 3) == [None] * 3
        slow = CallsInProgress(Server(seconds=1_000, begin=500), answer_seconds=600, clock=now)
        began = now()
        with pytest.raises(AnswerTookTooLong, match=r"more than 600 seconds \(--answer-seconds\)"):
            await take(slow)
        assert 1_100 < now() - began < 1_250

    run(main())


def test_server_with_one_slot_gets_two_calls_at_a_time() -> None:
    async def main() -> None:
        noticed: list[float] = []
        server = Server()
        calls = CallsInProgress(server, on_one_slot=lambda: noticed.append(now()), clock=now)
        first = asyncio.create_task(take_all(calls, 8))
        await asyncio.sleep(35)
        assert [round(when) for when in noticed] == [30]
        more = asyncio.create_task(take_all(calls, 8))
        await first
        server.most = server.running
        await more
        assert (server.most, server.answered) == (2, 16)

    run(main())


@pytest.mark.parametrize("server", [(4, 10, 20), (2, 10, 20), (8, 10, 1), (1, 10, 1)])
def test_server_that_answers_side_by_side_or_whole_gets_all_calls(server: tuple[int, float, int]) -> None:
    async def main() -> None:
        noticed: list[float] = []
        calls = CallsInProgress(Server(*server), on_one_slot=lambda: noticed.append(now()), clock=now)
        await take_all(calls, 40)
        assert noticed == []

    run(main())


def test_run_that_ends_makes_no_first_call_and_finishes_those_it_has_begun() -> None:
    async def main() -> None:
        calls = CallsInProgress(Server(), clock=now)
        going_on = asyncio.create_task(take(calls))
        await asyncio.sleep(1)
        calls.end()
        with pytest.raises(RunIsEnding):
            await take(calls)
        await take(calls, Call(CALL.messages, labels={"call": "2"}))
        await going_on

    run(main())


def test_run_that_ends_waits_for_no_limit_on_calls_per_minute() -> None:
    async def main() -> None:
        calls = CallsInProgress(Server(seconds=20), clock=now)
        limiter = Limiter(calls, Limits(None, 1, clock=now), calls)
        asked = asyncio.gather(*(take(limiter) for _ in range(3)), return_exceptions=True)
        await asyncio.sleep(5)
        calls.end()
        first, *others = await asked
        assert first is None
        assert [type(each) for each in others] == [RunIsEnding] * 2
        assert now() == pytest.approx(20.1)
        await take(limiter, Call(CALL.messages, labels={"call": "2"}))
        assert now() > 60

    run(main())


def test_progress_shows_the_calls_and_what_is_left_until_the_run_ends() -> None:
    async def main() -> None:
        calls = CallsInProgress(Server(slots=2), clock=now)
        progress = RunProgress(ExtractSummary([JOB] * 9, counts=Counter(questions=5)), calls)
        assert progress.calls == ""
        asking = asyncio.create_task(take_all(calls, 2))
        await asyncio.sleep(5.5)
        assert progress.calls == "2 calls in progress (the longest for 6 s, 50 tokens)"
        assert progress.line.split("; ")[1] == progress.calls
        assert " to go" in progress.line
        progress.is_ending = True
        assert " to go" not in progress.line
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking

    run(main())
