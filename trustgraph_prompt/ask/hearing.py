"""Listening to one call: what came, what of it stands already, and how it ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from trustgraph_prompt.ask.harvest import Reply
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.cost import Usage
from trustgraph_prompt.errors import ProviderError, ProviderUnavailable
from trustgraph_prompt.llm import Delta, FinishReason
from trustgraph_prompt.reader import CallReport, StreamReader
from trustgraph_prompt.wire import canonical


@dataclass(frozen=True, slots=True)
class Piece:
    """Something of an answer that stands: text as it comes where text was asked for, else valid values."""

    text: str = ""
    objects: tuple[Any, ...] = ()


Listen = Callable[[Piece], Awaitable[None]]


class Hearing:
    """One call while it is under way. `is_new` says of an object whether no earlier call brought it."""

    def __init__(self, contract: Contract, is_new: Callable[[Any], bool], listen: Listen | None) -> None:
        self._contract = contract
        self._is_new = is_new
        self._listen = listen
        self._reader = StreamReader(contract)
        self._pieces: list[str] = []
        self._thoughts: list[str] = []
        self._given: list[Any] = []
        self._finish_reason: FinishReason | None = None
        self._usage = Usage()
        self._model: str | None = None

    @property
    def text(self) -> str:
        """The answer so far, byte for byte."""
        return "".join(self._pieces)

    @property
    def written(self) -> str:
        """All that the model has written so far, its thinking first."""
        return "".join(self._thoughts) + self.text

    async def hear(self, deltas: AsyncGenerator[Delta, None]) -> None:
        """Take in the whole stream. Raises the provider's errors."""
        async with aclosing(deltas):
            async for delta in deltas:
                self._finish_reason = delta.finish_reason or self._finish_reason
                self._usage = delta.usage or self._usage
                self._model = delta.model or self._model
                self._thoughts.append(delta.thinking)
                if delta.text:
                    await self._take(delta.text)
        if self._finish_reason == "error" and not self._pieces:
            raise ProviderUnavailable("the provider ended the answer with an error before it began")

    async def reply(self, report: CallReport, broken: ProviderError | None) -> Reply:
        """What the text as a whole says, once the stream has ended; what stands only now is given now."""
        outcome = self._reader.close(self._finish_reason)
        if self._contract.format == "jsonl":
            await self._give(_missing(outcome.value, self._given, outcome.retracted))
        elif self._contract.format == "json" and outcome.ok:
            await self._tell(Piece(objects=(outcome.value,)))
        # what breaks after the model has said why it stopped breaks nothing
        return Reply(outcome, report, broken if self._finish_reason is None else None)

    def report(self, why: str, error: ProviderError | None) -> CallReport:
        """The call as it stands in an outcome."""
        return CallReport(
            why,
            self.text,
            finish_reason=self._finish_reason,
            usage=self._usage,
            model=self._model,
            error=f"{error.category}: {error}" if error else None,
        )

    async def _take(self, text: str) -> None:
        self._pieces.append(text)
        objects = self._reader.feed(text)
        if self._contract.format == "text":
            await self._tell(Piece(text=text))
        elif self._contract.format == "jsonl" and objects:
            self._given += objects
            await self._give(objects)

    async def _give(self, objects: list[Any]) -> None:
        if new := tuple(value for value in objects if self._is_new(value)):
            await self._tell(Piece(objects=new))

    async def _tell(self, piece: Piece) -> None:
        if self._listen is not None:
            await self._listen(piece)


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
