"""Asks a scripted provider, with a clock that only moves when somebody sleeps."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import replace
from typing import Any

from trustgraph_prompt.ask import Piece, ask
from trustgraph_prompt.llm import (
    Call,
    Completer,
    Delta,
    Identity,
    RuntimeConfig,
    ScriptedAnswer,
    ScriptedProvider,
)
from trustgraph_prompt.prompts import PromptDefinition, Question
from trustgraph_prompt.reader import Outcome

OBJECT = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}


class Clock:
    """Seconds since the epoch, which pass by sleeping."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class Script(Completer):
    """A scripted provider that remembers what it was asked."""

    identity = Identity("test")

    def __init__(self, *answers: ScriptedAnswer, prefill: bool = False) -> None:
        self.prefill = prefill
        self.calls: list[Call] = []
        self._provider = ScriptedProvider(answers)

    def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        self.calls.append(call)
        return self._provider.stream(call)

    async def close(self) -> None:
        await self._provider.close()


class Asked:
    """Asks a question, keeps the pieces that were given on the way."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.pieces: list[Piece] = []

    async def __call__(
        self,
        provider: Any,
        *,
        format: str = "jsonl",
        attempts: int = 1,
        repair: bool = False,
        config: RuntimeConfig | None = None,
        contract: Mapping[str, Any] = {},
        entry: Mapping[str, Any] = {},
        **options: Any,
    ) -> Outcome:
        whole = {"prompt": "unused", "response-type": format, "attempts": attempts, "dialect": "jinja"}
        if format != "text":
            whole |= {"schema": OBJECT, "repair": repair, **contract}
        prompt = PromptDefinition.from_entry("numbers", {**whole, **entry})
        return await ask(
            replace(prompt, config=config or prompt.config),
            Question("Be exact.", "Which numbers?"),
            provider,
            listen=self._listen,
            clock=self.clock,
            sleep=self.clock.sleep,
            **options,
        )

    async def _listen(self, piece: Piece) -> None:
        self.pieces.append(piece)

    @property
    def given(self) -> list[Any]:
        return [value for piece in self.pieces for value in piece.objects]


def numbers(values: Iterable[int]) -> list[dict[str, int]]:
    return [{"n": n} for n in values]


def lines(values: Iterable[int]) -> str:
    return "\n".join(json.dumps(value) for value in numbers(values))


def why(outcome: Outcome) -> list[str]:
    return [call.why for call in outcome.calls]


def cut(text: str, **more: Any) -> ScriptedAnswer:
    return ScriptedAnswer(text, finish_reason="length", **more)
