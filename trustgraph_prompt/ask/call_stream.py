"""Receives one call: passes on what is final as it comes, and reads the whole text at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any

from trustgraph_prompt.ask.deadline import Deadline, DeadlinePassed
from trustgraph_prompt.ask.repetition import LOOK, LOOP, ObjectLoop, is_loop
from trustgraph_prompt.ask.step import Reply, Step
from trustgraph_prompt.compute_thread import AT_ONCE, beside
from trustgraph_prompt.contract import Contract, Grounded
from trustgraph_prompt.cost import Usage
from trustgraph_prompt.errors import ProviderError, ProviderInvalidResponse, ProviderUnavailable
from trustgraph_prompt.json_text.encoding import canonical
from trustgraph_prompt.json_text.thinking import Notation
from trustgraph_prompt.llm import Call, Delta
from trustgraph_prompt.llm.delta_accumulator import DeltaAccumulator
from trustgraph_prompt.reader import CallReport, Outcome, ReadReport, Stage, StreamReader
from trustgraph_prompt.reader.reading import steps
from trustgraph_prompt.reader.scanner import SLICE

#: The part of the token limit from which an answer counts as having filled it: servers count differently.
_FULL = 0.9

_UNLIMITED = 2**62


@dataclass(frozen=True, slots=True)
class Piece:
    """A final part of an answer: text as it arrives if text was asked for, else valid values.

    `grounding` is that of each of the `objects`, as in `Outcome.grounding`.
    """

    text: str = ""
    objects: tuple[Any, ...] = ()
    grounding: Grounded | None = None


Listen = Callable[[Piece], Awaitable[None]]
"""Awaited with each final piece of an answer, in order."""


class CallStream:
    """One call while it runs. `new` filters out objects that earlier calls brought.

    The prefill of `step` was passed on before, and is only read. What takes long to read is read in a thread,
    a slice at a time. An answer is received up to its limit of `characters`, or until it is a loop.
    `thinking` is a notation of the provider's own.
    """

    def __init__(
        self,
        step: Step,
        contract: Contract,
        new: Callable[[Iterable[Any]], list[Any]],
        listen: Listen | None,
        characters: int | None = None,
        thinking: Notation | None = None,
    ) -> None:
        self._step = step
        self._contract = contract
        self._new = new
        self._listen = listen
        self._reader = StreamReader(contract, thinking=thinking)
        self._answer = DeltaAccumulator()
        self._most = _UNLIMITED if characters is None else characters
        self._characters = len(step.prefill)
        # an answer of up to so many characters is never long
        self._few = min(AT_ONCE // max(steps(1, contract), 1), self._most)
        self._given: list[Any] = []
        self._read_seconds = 0.0
        #: Whether the call was ended because the model only repeated itself.
        self.is_loop = False
        self._object_loop = ObjectLoop(new)
        self._next_look = _UNLIMITED if contract.format == "text" else self._characters + LOOP

    @property
    def text(self) -> str:
        """The text of the answer so far, byte for byte."""
        return self._answer.text

    @property
    def written(self) -> str:
        """The thinking and the text so far."""
        return self._answer.thinking + self.text

    async def receive(self, deltas: AsyncGenerator[Delta, None], seconds: float | None = None) -> None:
        """Receive the whole stream.

        Raises the provider's errors, also on timeout and for an answer with too many characters.
        """
        self._given = await self._feed_slices(self._step.prefill)
        if not await self._receive_within(deltas, seconds):
            raise ProviderUnavailable("the seconds of the budget ended before the answer did")
        if self._answer.finish_reason == "error" and not (self.text or self.is_loop):
            raise ProviderUnavailable("the provider ended the answer with an error before it began")

    async def _receive_within(self, deltas: AsyncGenerator[Delta, None], seconds: float | None) -> bool:
        """Whether the stream ended in time. The timeout does not interrupt the listener."""
        with Deadline(seconds) as deadline:
            async with aclosing(deltas):
                while not (deadline.has_passed or self.is_loop):
                    try:
                        delta = await deadline.wait(anext(deltas))
                    except StopAsyncIteration:
                        return True
                    except DeadlinePassed:
                        break
                    await self._take(delta)
        return self.is_loop

    async def reply(self, report: CallReport, broken: ProviderError | None, *, room: int | None) -> Reply:
        """Read the whole text, once the stream has ended, and pass on what is final only now.

        `room` is the token limit of the prompt, None where something else limited the answer.
        """
        effort = steps(self._characters, self._contract)
        outcome = self._answer.explained(self._native(await beside(self._close, effort)))
        if self._contract.format != "text":
            report = replace(report, read=ReadReport(outcome.stage, outcome.reason, self._read_seconds))
        if self._contract.format == "jsonl":
            missing = partial(_missing, outcome.value, self._given, outcome.retracted)
            await self._pass_on(await beside(missing, effort))
        return Reply(
            self._step,
            outcome,
            report,
            self._step.prefill + self.text,
            None if self._answer.has_ended else broken,
            filled=self._answer.finish_reason == "length" and self._fills(room),
            is_loop=self.is_loop,
        )

    def report(self, call: Call, why: str, error: ProviderError | None, cost: float | None) -> CallReport:
        """The report of the call for the outcome; the tokens of one that was broken off are estimated."""
        report = self._answer.report(why, f"{error.category}: {error}" if error else None, cost)
        return replace(report, usage=self._answer.usage_of(call)) if error or self.is_loop else report

    @property
    def usage(self) -> Usage:
        """The tokens that the provider reported."""
        return self._answer.usage

    def _native(self, outcome: Outcome) -> Outcome:
        was_enforced = self._answer.schema_path in ("strict", "native") and not self._step.prefill
        if was_enforced and outcome.ok and outcome.stage is Stage.DIRECT:
            return replace(outcome, stage=Stage.NATIVE)
        return outcome

    def _fills(self, room: int | None) -> bool:
        """Whether the answer took `room`; a much shorter one was truncated by a limit of the server's own."""
        reported = self._answer.usage.completion_tokens
        return room is not None and (reported is None or reported >= room * _FULL)

    def _goes_on_in_a_loop(self, delta: Delta) -> bool:
        """Whether a delta continues a loop: what an answer ends with is none."""
        self._next_look = self._characters + LOOK
        if delta.text:
            tail, of_objects = self._answer.text_tail(LOOP), self._contract.format == "jsonl"
            return self._object_loop.is_loop or is_loop(tail, of_objects=of_objects)
        return bool(delta.thinking) and is_loop(self._answer.thinking_tail(LOOP), of_objects=True)

    async def _take(self, delta: Delta) -> None:
        if self._characters >= self._next_look and self._goes_on_in_a_loop(delta):
            self.is_loop = True
            delta = Delta(finish_reason="error")
        self._characters += len(delta.text) + len(delta.thinking)
        is_long = self._characters > self._few
        if is_long and self._characters > self._most:
            delta = _shortened(delta, self._characters - self._most)
        self._answer.take(delta)
        if text := delta.text:
            is_quick = not is_long or (len(text) <= SLICE and self._reader.due(text) <= AT_ONCE)
            objects = self._feed(text) if is_quick else await self._feed_slices(text)
            if self._contract.format == "text":
                await self._notify(Piece(text=text))
            elif objects and self._contract.format == "jsonl":
                self._given += objects
                await self._pass_on(objects)
                self._object_loop.take(objects)
                if self._object_loop.is_loop:
                    self._next_look = 0
        if is_long and self._characters > self._most:
            raise ProviderInvalidResponse(
                f"the answer has more than the {self._most:,} characters that the budget allows"
            )

    def _feed(self, text: str) -> list[Any]:
        began = perf_counter()
        objects = self._reader.feed(text)
        self._read_seconds += perf_counter() - began
        return objects

    async def _feed_slices(self, text: str) -> list[Any]:
        """The objects that are final now, read in slices, so that other tasks run in between."""
        objects: list[Any] = []
        for start in range(0, len(text), SLICE):
            part = text[start : start + SLICE]
            objects += await beside(partial(self._feed, part), self._reader.due(part))
        return objects

    def _close(self) -> Outcome:
        began = perf_counter()
        outcome = self._reader.close(self._answer.finish_reason)
        self._read_seconds += perf_counter() - began
        return outcome

    async def _pass_on(self, objects: list[Any]) -> None:
        if new := self._new(objects):
            await self._notify(Piece(objects=tuple(new), grounding=self._contract.grounding(new)))

    async def _notify(self, piece: Piece) -> None:
        if self._listen is not None:
            await self._listen(piece)


def _shortened(delta: Delta, characters: int) -> Delta:
    """The delta without its last characters; its thinking precedes its text."""
    text = delta.text[: max(len(delta.text) - characters, 0)]
    left = max(characters - len(delta.text), 0)
    return replace(delta, text=text, thinking=delta.thinking[: len(delta.thinking) - left])


def _missing(final: list[Any], given: list[Any], retracted: tuple[Any, ...]) -> list[Any]:
    """The objects of the whole text that were not given while it arrived."""
    if len(final) == len(given) and not retracted:
        return []
    counts = Counter(map(canonical, given)) - Counter(map(canonical, retracted))
    missing = []
    for value in final:
        if counts[canonical(value)] > 0:
            counts[canonical(value)] -= 1
        else:
            missing.append(value)
    return missing
