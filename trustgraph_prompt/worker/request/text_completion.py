"""What is done about one text-completion request: `ask` puts it like any question, as the requester wrote it.

What the model says is the answer, whatever it is: nobody here reads it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import asdict, replace

from trustgraph_prompt import wire
from trustgraph_prompt.ask import Piece
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.cost import Usage
from trustgraph_prompt.errors import BrokerError, ProviderError, ProviderUnavailable, Reason, RequestError
from trustgraph_prompt.llm import Call, Delta, Provider, RetryPolicy, topic_messages
from trustgraph_prompt.llm.complete import ONCE
from trustgraph_prompt.llm.provider import ProviderWrapper
from trustgraph_prompt.prompts import PromptDefinition, Question, Template
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.messages.request import Request
from trustgraph_prompt.worker.messages.response import in_parts, send_response
from trustgraph_prompt.worker.request.ask_once import put
from trustgraph_prompt.worker.request.journal import Asked, Entry
from trustgraph_prompt.worker.services import Services

PROMPT = PromptDefinition(
    "text-completion", Template.compile("{{ prompt }}"), Contract.from_schema(None, format="text")
)

LIST_MODELS = "list-models"

Overhear = Callable[[Delta], Awaitable[None]]


class TextCompletionWork:
    """One request being answered; pieces go out as they come where it wants a stream."""

    def __init__(self, request: Request, flow: Flow, services: Services, entry: Entry) -> None:
        assert request.completion is not None
        self._request = request
        self._record = request.completion
        self._flow = flow
        self._services = services
        self._entry = entry
        self._thoughts: list[str] = []
        self._trouble = False

    async def ask(self) -> Asked:
        """Put the question: a success wherever the model ended its answer. Raises `RequestError`."""
        if self._record.operation == LIST_MODELS:
            self._entry.asked = PROMPT, self._models()
            return self._entry.asked
        call = topic_messages.call(self._record)
        if call.config.temperature is None:
            call = replace(call, config=replace(call.config, temperature=self._flow.temperature))
        provider = self._services.provider(self._flow)
        return await put(
            PROMPT,
            Question(self._record.system, self._record.prompt),
            _Verbatim(provider, call, self._overhear, self._seconds_left, direct=self._record.direct),
            self._request,
            self._flow,
            self._services,
            self._entry,
            listen=self._piece,
            retry=ONCE if self._record.direct else RetryPolicy(),
            judge=_verbatim,
        )

    async def send(self, prompt: PromptDefinition, outcome: Outcome, /) -> None:
        """The last response: what of the answer is not sent yet, or an error. Raises `BrokerError`."""
        if self._record.operation == LIST_MODELS:
            await self._send(wire.TextCompletionResponse(models=[wire.ModelInfo(outcome.value)]))
            return
        last = outcome.calls[-1] if outcome.calls else None
        usage = outcome.usage
        response = wire.TextCompletionResponse(
            in_token=usage.prompt_tokens,
            out_token=usage.completion_tokens,
            model=last.model if last else None,
            finish_reason=last.finish_reason if last else None,
            thinking="".join(self._thoughts),
            usage=None if usage == Usage() else asdict(usage),
            schema_path=last.schema_path if last else None,
        )
        if outcome.ok:
            told = self._entry.told
            response = replace(response, response=outcome.value[told:], at=told)
        else:
            cause = outcome.cause if isinstance(outcome.cause, ProviderError) else None
            error = (
                topic_messages.error(cause)
                if cause
                else wire.Error(topic_messages.LLM_ERROR, outcome.explain())
            )
            wait = cause.retry_after if cause else None
            response = replace(response, error=error, response=None, retry_after=wait)
        await self._send(response)

    def _models(self) -> Outcome:
        """The one model that answers. Raises `RequestError` where its name is not known."""
        who = self._services.provider(self._flow).identity
        if not who.model:
            raise RequestError("this worker cannot say which models it has", type="not-implemented")
        return Outcome(who.model, Reason.SUCCESS, PROMPT.contract)

    def _seconds_left(self) -> float | None:
        """For how long somebody waits for the first of the answer; None where nobody knows."""
        deadline, published = self._record.seconds_left, self._request.published
        if deadline is None or published is None:
            return deadline
        return published + deadline - self._services.clock()

    async def _piece(self, piece: Piece) -> None:
        await self._stream(piece.text, self._tell)

    async def _overhear(self, delta: Delta) -> None:
        wanted = delta.thinking and self._record.direct
        if wanted and not await self._stream(delta.thinking, self._tell_thought):
            self._thoughts.append(delta.thinking)

    async def _stream(self, text: str, tell: Callable[[str], Awaitable[None]]) -> bool:
        """Whether a text went out as it came. After trouble with the broker all waits for the last response.

        The model is being paid, and goes on.
        """
        if not self._record.streaming or self._trouble:
            return False
        try:
            await in_parts(text, tell)
        except BrokerError:
            self._trouble = True
        return not self._trouble

    async def _tell(self, text: str) -> None:
        at = self._entry.told
        await self._send(wire.TextCompletionResponse(response=text, at=at, end_of_stream=False))
        self._entry.begun = True
        self._entry.told += len(text)

    async def _tell_thought(self, text: str) -> None:
        await self._send(wire.TextCompletionResponse(thinking=text, end_of_stream=False))
        self._entry.begun = True

    async def _send(self, response: wire.TextCompletionResponse) -> None:
        await send_response(self._services.producers, self._flow, self._request.id, response)


class _Verbatim(ProviderWrapper):
    """Asks what the requester asks, in the place of the question that was made of it for `ask`.

    An answer that was cut is the requester's to go on with, and its limit the requester's to raise. A
    `direct` one is counted and labelled by the requester alone.
    """

    def __init__(
        self,
        provider: Provider,
        theirs: Call,
        overhear: Overhear,
        seconds_left: Callable[[], float | None],
        *,
        direct: bool,
    ) -> None:
        super().__init__(provider)
        self._theirs = theirs
        self._overhear = overhear
        self._seconds_left = seconds_left
        self._direct = direct

    @property
    def prefill(self) -> bool:
        return False

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        config = self._theirs.config.at_most(call.config.answer_limit)
        labels = self._theirs.labels if self._direct else {**self._theirs.labels, **call.labels}
        theirs = replace(self._theirs, config=config, labels=labels)
        deltas = _begun_in_time(self.provider.stream(theirs), self._seconds_left())
        async with aclosing(deltas):
            async for delta in deltas:
                await self._overhear(delta)
                yield delta


async def _begun_in_time(
    deltas: AsyncGenerator[Delta, None], seconds: float | None
) -> AsyncGenerator[Delta, None]:
    """The same deltas; raises `ProviderUnavailable` when the seconds end before the first of them.

    Where they are over already, nothing is asked.
    """
    nobody = ProviderUnavailable("whoever asked no longer waits for the answer")
    async with aclosing(deltas):
        if seconds is not None:
            if seconds <= 0:
                raise nobody
            try:
                async with asyncio.timeout(seconds) as limit:
                    first = await anext(deltas, None)
            except TimeoutError:
                raise nobody if limit.expired() else ProviderUnavailable("no answer in time") from None
            if first is None:
                return
            yield first
        async for delta in deltas:
            yield delta


def _verbatim(outcome: Outcome) -> Outcome:
    """A success wherever the model ended its answer: also of nothing, of a refusal, or cut at its limit."""
    if outcome.calls and outcome.cause is None and outcome.reason is not Reason.BUDGET_SPENT:
        return replace(outcome, value=outcome.calls[-1].text, reason=Reason.SUCCESS)
    return replace(outcome, reason=Reason.PROVIDER_ERROR) if outcome.ok else outcome
