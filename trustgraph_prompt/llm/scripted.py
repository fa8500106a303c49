"""A provider with prepared answers (`recording_files.py`), for demos and tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from pathlib import Path

from trustgraph_prompt.errors import ProviderInvalidRequest, excerpt
from trustgraph_prompt.llm import recording_files
from trustgraph_prompt.llm.complete import Completer
from trustgraph_prompt.llm.recording_files import ScriptedAnswer
from trustgraph_prompt.llm.records import Call, Delta, Identity
from trustgraph_prompt.llm.token_estimates import estimate_usage


class ScriptedProvider(Completer):
    """Gives prepared answers, the same ones every time.

    The first answer that fits the question is given. Of several for the same question, the n-th call of a
    request gets the n-th, and the last is repeated: the script also holds for continuations, retries and
    concurrent requests. `ask` numbers the calls of a request with the label `call`; calls without it are
    counted as they arrive.

    `answers` may also be a function of the call that returns a text, an answer or deltas, or raises.
    `prefill` says that it continues a last message of the assistant's.
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
        """Load a recording. Raises `ConfigError` with the line that is wrong."""
        return cls(recording_files.read(Path(path)), name=str(path))

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        """Stream the answer. Raises `ProviderInvalidRequest` where the script has none for the question."""
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
        """Do nothing: there are no connections."""

    def _look_up(self, call: Call) -> ScriptedAnswer:
        prompt = call.labels.get("prompt")
        said = (each for each in call.messages if each.role == "user" and not each.is_example)
        text = "\n".join(message.text for message in said)
        for question, answers in self._rules.items():
            if answers[0].fits(prompt, text):
                return answers[min(self._number(question, call.labels), len(answers)) - 1]
        offers = sorted({str(answers[0].prompt or "any prompt") for answers in self._rules.values()})
        raise ProviderInvalidRequest(
            f"{self._name} has no answer for prompt {prompt or '(not named)'} and {excerpt(text, 120)!r}; "
            f"it has answers for {', '.join(offers) or 'nothing'}",
            loggable="no answer is recorded for the question",
        )

    def _number(self, question: object, labels: Mapping[str, str]) -> int:
        if "call" in labels:
            return int(labels["call"])
        self._arrived[question] = self._arrived.get(question, 0) + 1
        return self._arrived[question]
