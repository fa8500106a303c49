"""Asks prompts that let their answers be given again, and a model whose answers a test holds back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

from tests.support.asking import OBJECT
from trustgraph_prompt.ask import Cache, Piece, ask
from trustgraph_prompt.llm import Call, Completer, Delta, Identity, ScriptedAnswer, ScriptedProvider
from trustgraph_prompt.prompts import PromptDefinition, Question
from trustgraph_prompt.reader import Outcome

SCHEMAS = {"jsonl": OBJECT, "json": {"type": ["object", "array", "null"]}}


def definition(format: str = "jsonl", *, cache: object = True, **entry: object) -> PromptDefinition:
    """A prompt that keeps its answers for an hour, unless `cache` says otherwise."""
    schema = {"schema": SCHEMAS[format]} if format in SCHEMAS else {}
    return PromptDefinition.from_entry(
        "p", {"prompt": "x", "dialect": "jinja", "response-type": format, "cache": cache, **schema, **entry}
    )


async def keep(
    provider: Any,
    cache: Cache | None,
    *,
    prompt: PromptDefinition | None = None,
    system: str = "Be exact.",
    text: str = "Which numbers?",
    pieces: list[Piece] | None = None,
    **options: Any,
) -> Outcome:
    """Ask; `pieces` takes in what is heard on the way."""

    async def listen(piece: Piece) -> None:
        if pieces is not None:
            pieces.append(piece)

    question = Question(system, text)
    return await ask(prompt or definition(), question, provider, cache=cache, listen=listen, **options)


class Model(Completer):
    """Counts its calls. Until `go` is set none of them is answered."""

    prefill = False

    def __init__(self, answer: str | Callable[[int], str | ScriptedAnswer]) -> None:
        self.identity = Identity("test", "small")
        self.calls = 0
        self.go = asyncio.Event()
        self.go.set()
        self._answer = answer if callable(answer) else lambda _: answer

    def let_go(self) -> None:
        """Answer the calls that wait now, and none that comes later."""
        self.go.set()
        self.go.clear()

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        self.calls += 1
        answer = self._answer(self.calls)
        await self.go.wait()
        async for delta in ScriptedProvider(lambda _: answer).stream(call):
            yield delta

    async def close(self) -> None: ...
