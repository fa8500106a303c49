"""A provider wrapper for a run: knows its calls in progress, and ends those that take too long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from math import inf
from typing import Any, TypeVar

from trustgraph_prompt.errors import ProviderError, ProviderUnavailable
from trustgraph_prompt.llm.provider import ProviderWrapper
from trustgraph_prompt.llm.records import Call, Delta
from trustgraph_prompt.llm.token_estimates import BYTES_PER_TOKEN

T = TypeVar("T")

#: Answers, one after the other, that show that a server answers one call at a time.
_ANSWERS = 3

#: The part of the time that these answers must have been written in: a server that sends answers whole says
#: nothing about how it writes them. And the part of an answer in which another may be written as well.
_BUSY, _OVERLAP = 0.5, 0.1

#: Calls that a server with one slot gets at a time: one to answer, and one for when it has.
_CALLS_FOR_ONE_SLOT = 2

#: Seconds between two looks at how long others have waited for a silent server.
_LOOK = 1.0


class AnswerTookTooLong(ProviderError):
    """The answer was ended after the seconds that it may take. What came is kept."""

    category = "answer_seconds"


class RunIsEnding(ProviderError):
    """No call was made: the run only waits for the calls in progress."""

    category = "run_is_ending"


def is_first(call: Call) -> bool:
    """Whether a call is the first of its question."""
    return call.labels.get("call") == "1"


@dataclass(eq=False, slots=True)
class _InProgress:
    """A call: when it `began`, when its answer did, how much of it has come, and what ends it until then."""

    began: float
    limit: asyncio.Timeout | None = None
    answered: float = inf
    characters: int = 0


@dataclass(eq=False, repr=False)
class CallsInProgress(ProviderWrapper):
    """Limits the time of calls to one server, and how many it gets at a time if it has one slot only.

    An answer may take `answer_seconds` from its first piece. A call whose answer has not begun is ended once
    the server has sent nothing for `begin_seconds`, to this call and to others: it may wait in the server's
    queue behind them. `on_one_slot` is called when the server turns out to answer one call after the other.
    `clock` is in seconds.
    """

    begin_seconds: float = inf
    answer_seconds: float = inf
    on_one_slot: Callable[[], None] = lambda: None
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        super().__post_init__()
        self._calls: list[_InProgress] = []
        self._most = inf
        self._ended = asyncio.Event()
        self._ending = asyncio.Event()
        self._last_piece = -inf
        self._slots = _SlotCount()

    @property
    def seconds(self) -> list[float]:
        """How long each call has been in progress, the longest first."""
        now = self.clock()
        return sorted((now - call.began for call in list(self._calls)), reverse=True)

    @property
    def tokens(self) -> int:
        """About how many tokens the answers in progress have by now."""
        return sum(call.characters for call in list(self._calls)) // BYTES_PER_TOKEN

    def end(self) -> None:
        """Make no first call of a question any more."""
        self._ending.set()
        self._ended.set()

    async def unless_ending(self, waiting: Coroutine[Any, Any, T]) -> T:
        """Wait for what a first call needs. Raises `RunIsEnding` if the run ends before."""
        tasks = waited, ending = asyncio.create_task(waiting), asyncio.create_task(self._ending.wait())
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if waited.done():
                return waited.result()
            raise RunIsEnding("the question was not asked")
        finally:
            waited.cancel()
            ending.cancel()

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        """Stream the answer. Raises `ProviderUnavailable`, `AnswerTookTooLong` and `RunIsEnding`."""
        while len(self._calls) >= self._most and not self._ending.is_set():
            self._ended.clear()
            await self._ended.wait()
        if self._ending.is_set() and is_first(call):
            raise RunIsEnding("the question was not asked")
        self._calls.append(current := _InProgress(self.clock()))
        try:
            async with aclosing(self.provider.stream(call)) as deltas:
                first = await self._first(deltas, current)
                if first is None:
                    return
                self._came(first, current)
                yield first
                async for delta in deltas:
                    self._came(delta, current)
                    yield delta
        finally:
            self._calls.remove(current)
            self._count_slots(current)
            self._ended.set()

    async def _first(self, deltas: AsyncGenerator[Delta, None], call: _InProgress) -> Delta | None:
        try:
            async with asyncio.timeout(self.begin_seconds) as call.limit:
                return await anext(deltas, None)
        except TimeoutError:
            if call.limit is None or not call.limit.expired():
                raise
        finally:
            call.limit = None
        message = f"the server sent nothing for {self.begin_seconds:g} seconds (--begin-seconds)"
        raise ProviderUnavailable(message, loggable=message)

    def _came(self, delta: Delta, call: _InProgress) -> None:
        """Note a piece of an answer, after which calls that wait for theirs may wait longer."""
        now = self.clock()
        call.characters += len(delta.text) + len(delta.thinking)
        call.answered = min(call.answered, now)
        if now - self._last_piece >= _LOOK:
            self._last_piece = now
            ends = asyncio.get_running_loop().time() + self.begin_seconds
            for each in self._calls:
                if each.limit is not None and not each.limit.expired():
                    each.limit.reschedule(ends)
        if now - call.answered > self.answer_seconds and not delta.finish_reason:
            limit = f"{self.answer_seconds:g} seconds (--answer-seconds)"
            raise AnswerTookTooLong(f"the answer took more than {limit}; the next run asks again")

    def _count_slots(self, ended: _InProgress) -> None:
        others = [call.answered for call in self._calls]
        if self._most == inf and self._slots.is_one_after(ended.answered, self.clock(), others):
            self._most = _CALLS_FOR_ONE_SLOT
            self.on_one_slot()


@dataclass(slots=True)
class _SlotCount:
    """Finds out whether a server answers one call after the other, though several wait."""

    answers: int = 0
    since: float = inf
    writing: float = 0.0

    def is_one_after(self, answered: float, ended: float, others: list[float]) -> bool:
        """Whether this is so after an answer from `answered` to `ended`, with what `others` have by then."""
        writing = ended - answered
        overlap = max((ended - max(answered, other) for other in others), default=0.0)
        if writing < 0 or len(others) < _CALLS_FOR_ONE_SLOT or overlap > writing * _OVERLAP:
            self.answers, self.since, self.writing = 0, inf, 0.0
            return False
        self.answers += 1
        self.since = min(self.since, answered)
        self.writing += writing
        return self.answers >= _ANSWERS and self.writing > _BUSY * (ended - self.since)
