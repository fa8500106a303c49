"""Receives one call: passes on what is final as it comes, and reads the whole text at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

from trustgraph_prompt.ask.collected import Collected
from trustgraph_prompt.ask.deadline import Deadline, DeadlinePassed
from trustgraph_prompt.ask.repetition import LOOK, LOOP, ObjectLoop, is_loop
from trustgraph_prompt.ask.step import Step
from trustgraph_prompt.compute_thread import AT_ONCE, beside
from trustgraph_prompt.contract import Grounded
from trustgraph_prompt.errors import ProviderInvalidResponse, ProviderUnavailable
from trustgraph_prompt.json_text.encoding import canonical
from trustgraph_prompt.json_text.thinking import Notation
from trustgraph_prompt.llm import Delta
from trustgraph_prompt.llm.delta_accumulator import DeltaAccumulator
from trustgraph_prompt.reader import Outcome, ReadReport, Stage, StreamReader
from trustgraph_prompt.reader.scanner import SLICE
from trustgraph_prompt.reader.stream_reader import reading_effort

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
    """One call while it runs; of its objects it passes on those that `collected` does not have.

    The prefill of `step` was passed on before, and is only read. What takes long to read is read in a thread,
    a slice at a time. An answer is received up to its limit of `characters`, or until it is a loop.
    `terms` are those of the question; `thinking` is a notation of the provider's own.
    """

    def __init__(
        self,
        step: Step,
        collected: Collected,
        listen: Listen | None,
        characters: int | None = None,
        terms: Mapping[str, object] | None = None,
        thinking: Notation | None = None,
    ) -> None:
        #: What has come so far, byte for byte.
        self.answer = DeltaAccumulator()
        #: Whether the call was ended because the model only repeated itself.
        self.is_loop = False
        self._step = step
        self._collected = collected
        self._contract = contract = collected.contract
        self._listen = listen
        self._reader = StreamReader(contract, terms, thinking)
        self._most = _UNLIMITED if characters is None else characters
        self._characters = len(step.prefill)
        self._effort_each = reading_effort(1, contract)
        # an answer of up to so many characters is never long
        self._few = min(AT_ONCE // max(self._effort_each, 1), self._most)
        self._given: list[Any] = []
        self._read_seconds = 0.0
        self._object_loop = ObjectLoop(collected.new, contract.identity)
        self._next_look = _UNLIMITED if contract.format == "text" else self._characters + LOOP

    async def receive(self, deltas: AsyncGenerator[Delta, None], seconds: float | None = None) -> None:
        """Receive the whole stream. The end of the `seconds` does not interrupt the listener.

        Raises the provider's errors, also on timeout and for an answer with too many characters.
        """
        if self._step.prefill:
            self._given = await self._feed_slices(self._step.prefill)
        has_ended = False
        with Deadline(seconds) as deadline:
            async with aclosing(deltas):
                while not (has_ended or deadline.has_passed):
                    try:
                        following = anext(deltas)
                        delta = await (following if seconds is None else deadline.wait(following))
                    except StopAsyncIteration:
                        has_ended = True
                    except DeadlinePassed:
                        pass
                    else:
                        await self._take(delta)
                        has_ended = self.is_loop
        if not has_ended:
            raise ProviderUnavailable("the seconds of the budget ended before the answer did")
        if self.answer.finish_reason == "error" and not (self.answer.text or self.is_loop):
            raise ProviderUnavailable("the provider ended the answer with an error before it began")

    async def read(self) -> tuple[Outcome, ReadReport | None]:
        """Read the whole text, once the stream has ended. A mere text has no report."""
        effort = self._characters * self._effort_each
        outcome = self.answer.explained(await beside(self._close, steps=effort))
        if self._contract.format == "text":
            return outcome, None
        return outcome, ReadReport(outcome.stage, outcome.reason, self._read_seconds)

    async def pass_on_rest(self, outcome: Outcome) -> None:
        """Pass on the objects of the whole text that are final only now."""
        if self._listen is None or self._contract.format != "jsonl":
            return
        if len(outcome.value) == len(self._given) and not outcome.retracted:
            return  # the usual case: all came while the text arrived
        effort = self._characters * self._effort_each
        await self._pass_on(
            await beside(_missing, outcome.value, self._given, outcome.retracted, steps=effort)
        )

    def _goes_on_in_a_loop(self, delta: Delta) -> bool:
        """Whether a delta continues a loop: what an answer ends with is none."""
        self._next_look = self._characters + LOOK
        if delta.text:
            tail, of_objects = self.answer.text_tail(LOOP), self._contract.format == "jsonl"
            return self._object_loop.is_loop or is_loop(tail, of_objects=of_objects)
        return bool(delta.thinking) and is_loop(self.answer.thinking_tail(LOOP), of_objects=True)

    async def _take(self, delta: Delta) -> None:
        if self._characters >= self._next_look and self._goes_on_in_a_loop(delta):
            self.is_loop = True
            delta = Delta(finish_reason="error")
        self._characters += len(delta.text) + len(delta.thinking)
        is_long = self._characters > self._few
        if is_long and self._characters > self._most:
            delta = _shortened(delta, self._characters - self._most)
        self.answer.take(delta)
        if text := delta.text:
            is_quick = not is_long or (len(text) <= SLICE and self._reader.due(text) <= AT_ONCE)
            objects = self._feed(text) if is_quick else await self._feed_slices(text)
            if self._contract.format == "text":
                if self._listen is not None:
                    await self._listen(Piece(text=text))
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
            objects += await beside(self._feed, part, steps=self._reader.due(part))
        return objects

    def _close(self) -> Outcome:
        began = perf_counter()
        outcome = self._reader.close(self.answer.finish_reason)
        self._read_seconds += perf_counter() - began
        was_enforced = self.answer.schema_path in ("strict", "native") and not self._step.prefill
        is_native = was_enforced and outcome.ok and outcome.stage is Stage.DIRECT
        return replace(outcome, stage=Stage.NATIVE) if is_native else outcome

    async def _pass_on(self, objects: list[Any]) -> None:
        if self._listen is not None and (new := self._collected.new(objects)):
            await self._listen(Piece(objects=tuple(new), grounding=self._contract.grounding(new)))


def _shortened(delta: Delta, characters: int) -> Delta:
    """The delta without its last characters; its thinking precedes its text."""
    text = delta.text[: max(len(delta.text) - characters, 0)]
    left = max(characters - len(delta.text), 0)
    return replace(delta, text=text, thinking=delta.thinking[: len(delta.thinking) - left])


def _missing(final: list[Any], given: list[Any], retracted: tuple[Any, ...]) -> list[Any]:
    """The objects of the whole text that were not given while it arrived."""
    counts = Counter(map(canonical, given)) - Counter(map(canonical, retracted))
    missing = []
    for value in final:
        if counts[canonical(value)] > 0:
            counts[canonical(value)] -= 1
        else:
            missing.append(value)
    return missing
