"""Listening to one call: what came, what of it stands already, and how it ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any

from trustgraph_prompt.ask.deadline import Deadline, DeadlinePassed
from trustgraph_prompt.ask.step import Reply, Step
from trustgraph_prompt.background import AT_ONCE, beside
from trustgraph_prompt.contract import Contract, Grounded
from trustgraph_prompt.cost import Usage
from trustgraph_prompt.errors import ProviderError, ProviderInvalidResponse, ProviderUnavailable
from trustgraph_prompt.json_text.encoding import canonical
from trustgraph_prompt.llm import Delta
from trustgraph_prompt.llm.delta_accumulator import DeltaAccumulator
from trustgraph_prompt.reader import CallReport, Outcome, ReadReport, Stage, StreamReader
from trustgraph_prompt.reader.reading import steps
from trustgraph_prompt.reader.scanner import SLICE

#: The part of its room that an answer takes which filled it: servers do not count all alike.
_FULL = 0.9

_UNLIMITED = 2**62


@dataclass(frozen=True, slots=True)
class Piece:
    """Something of an answer that stands: text as it comes where text was asked for, else valid values.

    `grounding` says of each of the `objects` where it stands, as `Outcome.grounding`.
    """

    text: str = ""
    objects: tuple[Any, ...] = ()
    grounding: Grounded | None = None


Listen = Callable[[Piece], Awaitable[None]]
"""Awaited with each piece of an answer that stands, in order."""


class CallStream:
    """One call while it is under way. `new` gives those objects that no earlier call brought.

    What `step` goes on from has been heard before, and is only read. What takes long to read is read beside
    the event loop, a slice at a time. Of more than so many `characters` the first are heard, and no more.
    """

    def __init__(
        self,
        step: Step,
        contract: Contract,
        new: Callable[[Iterable[Any]], list[Any]],
        listen: Listen | None,
        characters: int | None = None,
    ) -> None:
        self._step = step
        self._contract = contract
        self._new = new
        self._listen = listen
        self._reader = StreamReader(contract)
        self._heard = DeltaAccumulator()
        self._most = _UNLIMITED if characters is None else characters
        self._characters = len(step.begun)
        # so many never take long to read
        self._few = min(AT_ONCE // max(steps(1, contract), 1), self._most)
        self._given: list[Any] = []
        self._read_seconds = 0.0

    @property
    def text(self) -> str:
        """What the call has brought so far, byte for byte."""
        return self._heard.text

    @property
    def written(self) -> str:
        """All that the model has written so far, its thinking first."""
        return self._heard.thinking + self.text

    async def hear(self, deltas: AsyncGenerator[Delta, None], seconds: float | None = None) -> None:
        """Take in the whole stream.

        Raises the provider's errors, one too when the seconds end before it, or it has too many characters.
        """
        self._given = await self._feed_slices(self._step.begun)
        if not await self._hear_out(deltas, seconds):
            raise ProviderUnavailable("the seconds of the budget ended before the answer")
        if self._heard.finish_reason == "error" and not self.text:
            raise ProviderUnavailable("the provider ended the answer with an error before it began")

    async def _hear_out(self, deltas: AsyncGenerator[Delta, None], seconds: float | None) -> bool:
        """Whether the stream ended in time. Waiting is what time ends: the listener is not interrupted."""
        with Deadline(seconds) as alarm:
            async with aclosing(deltas):
                while not alarm.has_rung:
                    try:
                        delta = await alarm.wait(anext(deltas))
                    except StopAsyncIteration:
                        return True
                    except DeadlinePassed:
                        break
                    await self._take(delta)
        return False

    async def reply(self, report: CallReport, broken: ProviderError | None, *, room: int | None) -> Reply:
        """What the text as a whole says, once the stream has ended; what stands only now is given now.

        `room` is how many tokens the prompt had left the answer, None where something else limited it.
        """
        effort = steps(self._characters, self._contract)
        outcome = self._native(await beside(self._close, effort))
        if self._contract.format != "text":
            report = replace(report, read=ReadReport(outcome.stage, outcome.reason, self._read_seconds))
        if self._contract.format == "jsonl":
            missing = partial(_missing, outcome.value, self._given, outcome.retracted)
            await self._give(await beside(missing, effort))
        return Reply(
            self._step,
            outcome,
            report,
            self._step.begun + self.text,
            None if self._heard.has_ended else broken,
            filled=self._heard.finish_reason == "length" and self._fills(room),
        )

    def report(self, why: str, error: ProviderError | None, cost: float | None) -> CallReport:
        """The call as it stands in an outcome."""
        return self._heard.report(why, f"{error.category}: {error}" if error else None, cost)

    @property
    def usage(self) -> Usage:
        """What the provider reported."""
        return self._heard.usage

    def _native(self, outcome: Outcome) -> Outcome:
        held = self._heard.schema_path in ("strict", "native") and not self._step.begun
        if held and outcome.ok and outcome.stage is Stage.DIRECT:
            return replace(outcome, stage=Stage.NATIVE)
        return outcome

    def _fills(self, room: int | None) -> bool:
        """Whether the answer took `room`; one that is much shorter was cut by a limit of the server's own."""
        reported = self._heard.usage.completion_tokens
        return room is not None and (reported is None or reported >= room * _FULL)

    async def _take(self, delta: Delta) -> None:
        self._characters += len(delta.text) + len(delta.thinking)
        is_long = self._characters > self._few
        if is_long and self._characters > self._most:
            delta = _cut(delta, self._characters - self._most)
        self._heard.take(delta)
        if text := delta.text:
            if is_long and not self._is_short(text):
                objects = await self._feed_slices(text)
            else:
                objects = self._feed(text)
            if self._contract.format == "text":
                await self._tell(Piece(text=text))
            elif objects and self._contract.format == "jsonl":
                self._given += objects
                await self._give(objects)
        if is_long and self._characters > self._most:
            raise ProviderInvalidResponse(
                f"the answer has more than the {self._most:,} characters that the budget allows"
            )

    def _is_short(self, text: str) -> bool:
        return len(text) <= SLICE and self._reader.due(text) <= AT_ONCE

    def _feed(self, text: str) -> list[Any]:
        began = perf_counter()
        objects = self._reader.feed(text)
        self._read_seconds += perf_counter() - began
        return objects

    async def _feed_slices(self, text: str) -> list[Any]:
        """The objects that stand now, read in slices, so that others have their turn between two."""
        objects: list[Any] = []
        for start in range(0, len(text), SLICE):
            part = text[start : start + SLICE]
            objects += await beside(partial(self._feed, part), self._reader.due(part))
        return objects

    def _close(self) -> Outcome:
        began = perf_counter()
        outcome = self._reader.close(self._heard.finish_reason)
        self._read_seconds += perf_counter() - began
        return outcome

    async def _give(self, objects: list[Any]) -> None:
        if new := self._new(objects):
            await self._tell(Piece(objects=tuple(new), grounding=self._contract.grounding(new)))

    async def _tell(self, piece: Piece) -> None:
        if self._listen is not None:
            await self._listen(piece)


def _cut(delta: Delta, characters: int) -> Delta:
    """A delta without its last characters; its thinking came before its text."""
    text = delta.text[: max(len(delta.text) - characters, 0)]
    left = max(characters - len(delta.text), 0)
    return replace(delta, text=text, thinking=delta.thinking[: len(delta.thinking) - left])


def _missing(final: list[Any], given: list[Any], retracted: tuple[Any, ...]) -> list[Any]:
    """What the whole text says and the stream has not given yet."""
    if len(final) == len(given) and not retracted:
        return []
    standing = Counter(map(canonical, given)) - Counter(map(canonical, retracted))
    missing = []
    for value in final:
        if standing[canonical(value)] > 0:
            standing[canonical(value)] -= 1
        else:
            missing.append(value)
    return missing
