"""A provider whose answers are written down beforehand: for demos, and for people's own tests.

`recording.py` reads them from a file; docs/providers.md describes its format.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from trustgraph_prompt.cost import Usage
from trustgraph_prompt.errors import ProviderError, ProviderInvalidRequest, excerpt
from trustgraph_prompt.llm.complete import Completer
from trustgraph_prompt.llm.records import Call, Delta, FinishReason, Identity
from trustgraph_prompt.llm.token_estimates import estimate_usage


@dataclass(frozen=True, slots=True)
class ScriptedAnswer:
    """One answer, and which questions it is for.

    For: `prompt` the id of the prompt, `contains` a text, `match` a regular expression searched for; both
    in the text of the user's messages; what is None fits every question.

    How: `delay` seconds before the first piece, `chunk` characters a piece. `cut_after` so many characters
    the answer ends, by default with the finish reason "length". `error` is raised after the text, which
    makes it a broken connection, or at once where there is none. Without `usage` it is estimated.
    """

    text: str = ""
    prompt: str | None = None
    contains: str | None = None
    match: str | None = None
    thinking: str = ""
    finish_reason: FinishReason | None = "stop"
    usage: Usage | None = None
    model: str = "scripted"
    delay: float = 0.0
    chunk: int = 64
    cut_after: int | None = None
    error: ProviderError | None = None

    @property
    def question(self) -> tuple[str | None, str | None, str | None]:
        """What decides whether the answer fits; answers for the same question are given in turn."""
        return self.prompt, self.contains, self.match

    def fits(self, prompt: str | None, text: str) -> bool:
        """Whether this answers the question."""
        return (
            (self.prompt is None or self.prompt == prompt)
            and (self.contains is None or self.contains in text)
            and (self.match is None or re.search(self.match, text) is not None)
        )


class ScriptedProvider(Completer):
    """Gives written answers, the same ones every time.

    The first question that fits decides. Where it has several answers, the n-th call of one asking gets the
    n-th of them and the last is repeated, so an asking that was cut, refused or failed goes on as written,
    however many run at once. Calls that do not say which of an asking they are (label `call`, which
    `ask` sets) are counted as they arrive.

    `answers` may also be a function of the call, which returns a text, an answer or deltas, or raises.
    `prefill` says that the function goes on from a last message of the assistant's.
    """

    def __init__(
        self,
        answers: Iterable[ScriptedAnswer] | Callable[[Call], str | ScriptedAnswer | Iterable[Delta]],
        *,
        name: str = "the script",
        prefill: bool = False,
    ) -> None:
        self.identity = Identity("scripted", place=name)
        self.prefill = prefill
        self._name = name
        self._arrived: dict[object, int] = {}
        self._rules: dict[object, list[ScriptedAnswer]] = {}
        if callable(answers):
            self._answer = answers
        else:
            self._answer = self._look_up
            for answer in answers:
                self._rules.setdefault(answer.question, []).append(answer)

    @classmethod
    def load(cls, path: str | Path) -> ScriptedProvider:
        """A provider for a recording. Raises `ConfigError` that says which line is wrong, and how."""
        from trustgraph_prompt.llm import recordings

        return cls(recordings.read(Path(path)), name=str(path))

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        """The answer in pieces. Raises `ProviderInvalidRequest` where none is written for the question."""
        answer = self._answer(call)
        if isinstance(answer, str):
            answer = ScriptedAnswer(answer)
        if not isinstance(answer, ScriptedAnswer):
            for delta in answer:
                yield delta
            return
        await asyncio.sleep(answer.delay)
        text = answer.text[: answer.cut_after]
        if answer.thinking:
            yield Delta(thinking=answer.thinking, model=answer.model)
        for start in range(0, len(text), answer.chunk):
            yield Delta(text[start : start + answer.chunk], model=answer.model)
            await asyncio.sleep(0)
        if answer.error is not None:
            error = answer.error
            raise type(error)(str(error), retry_after=error.retry_after, loggable=error.loggable)
        cut = len(text) < len(answer.text)
        yield Delta(
            finish_reason="length" if cut and answer.finish_reason == "stop" else answer.finish_reason,
            usage=answer.usage or estimate_usage(call, answer.thinking + text),
            model=answer.model,
        )

    async def close(self) -> None:
        """Nothing is held."""

    def _look_up(self, call: Call) -> ScriptedAnswer:
        prompt = call.labels.get("prompt")
        text = "\n".join(message.text for message in call.messages if message.role == "user")
        for question, answers in self._rules.items():
            if answers[0].fits(prompt, text):
                return answers[min(self._turn(question, call.labels), len(answers)) - 1]
        offers = sorted({str(answers[0].prompt or "any prompt") for answers in self._rules.values()})
        raise ProviderInvalidRequest(
            f"{self._name} has no answer for prompt {prompt or '(not named)'} and {excerpt(text, 120)!r}; "
            f"it answers {', '.join(offers) or 'nothing'}"
        )

    def _turn(self, question: object, labels: Mapping[str, str]) -> int:
        if "call" in labels:
            return int(labels["call"])
        self._arrived[question] = self._arrived.get(question, 0) + 1
        return self._arrived[question]
