"""Processes one text-completion request: its prompt and its answer are passed on verbatim."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import asdict, replace
from time import time

from trustgraph_prompt import wire
from trustgraph_prompt.ask import Piece
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.cost import Usage
from trustgraph_prompt.errors import ProviderError, ProviderUnavailable, Reason, RequestError
from trustgraph_prompt.llm import Call, Delta, Provider, RetryPolicy, topic_messages
from trustgraph_prompt.llm.complete import ONCE
from trustgraph_prompt.llm.provider import ProviderWrapper
from trustgraph_prompt.prompts import PromptDefinition, Question, Template
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.worker.around.journal import AskResult
from trustgraph_prompt.worker.asking import ask_model
from trustgraph_prompt.worker.messages.response import Response
from trustgraph_prompt.worker.publish import Responder
from trustgraph_prompt.worker.services import RequestContext

PROMPT = PromptDefinition(
    "text-completion", Template.compile("{{ prompt }}"), Contract.from_schema(None, format="text")
)

LIST_MODELS = "list-models"


class TextCompletionHandler(Responder):
    """Answers one request; streams text as it arrives if the request wants that."""

    def __init__(self, context: RequestContext) -> None:
        super().__init__(context)
        assert context.request.completion is not None
        self._record = context.request.completion
        self.direct = self._record.direct
        self._thinking: list[str] = []

    async def ask(self) -> None:
        """Ask the model; any complete answer is a success. Raises `RequestError`."""
        context, record = self._context, self._record
        if record.operation == LIST_MODELS:
            context.entry.result = AskResult(PROMPT, self._models())
            return
        call = topic_messages.call(record)
        if call.config.temperature is None:
            call = replace(call, config=replace(call.config, temperature=context.flow.temperature))
        await ask_model(
            replace(context, provider=_Verbatim(context.provider, call, self)),
            PROMPT,
            Question(record.system, record.prompt),
            listen=self._stream_piece if self._streams else None,
            retry=ONCE if self.direct else RetryPolicy(),
            judge=_accept_any_answer,
        )

    async def send(self) -> None:
        """Send the last response: the rest of the answer, or an error. Raises `BrokerError`."""
        outcome = self._context.outcome
        if self._record.operation == LIST_MODELS:
            await self._respond(wire.TextCompletionResponse(models=[wire.ModelInfo(outcome.value)]))
            return
        last = outcome.calls[-1] if outcome.calls else None
        usage = outcome.usage
        response = wire.TextCompletionResponse(
            in_token=usage.prompt_tokens,
            out_token=usage.completion_tokens,
            model=last.model if last else None,
            finish_reason=last.finish_reason if last else None,
            thinking="".join(self._thinking),
            usage=None if usage == Usage() else asdict(usage),
            schema_path=last.schema_path if last else None,
        )
        if outcome.ok:
            start = self._context.entry.streamed_characters
            response = replace(response, response=outcome.value[start:], at=start)
        else:
            error, wait = wire.Error(topic_messages.LLM_ERROR, outcome.explain()), None
            if isinstance(outcome.cause, ProviderError):
                error, wait = topic_messages.error(outcome.cause), outcome.cause.retry_after
            response = replace(response, error=error, response=None, retry_after=wait)
        await self._respond(response)

    def _models(self) -> Outcome:
        """The model of the flow. Raises `RequestError` if its name is unknown."""
        identity = self._context.provider.identity
        if not identity.model:
            raise RequestError("the model of this worker has no name to list", type="not-implemented")
        return Outcome(identity.model, Reason.SUCCESS, PROMPT.contract)

    def seconds_left(self) -> float | None:
        """How long the requester waits for the first piece of the answer; None if unknown."""
        deadline, published = self._record.seconds_left, self._context.request.published
        if deadline is None or published is None:
            return deadline
        return published + deadline - time()

    async def _stream_piece(self, piece: Piece) -> None:
        await self._stream(piece.text, self._piece)

    def _piece(self, text: str) -> Response:
        at = self._context.entry.streamed_characters
        return wire.TextCompletionResponse(response=text, at=at, end_of_stream=False)

    async def stream_thinking(self, text: str) -> None:
        """Stream what the model thinks, if the requester wants that; the last response has the rest."""
        if text and self.direct and not await self._stream(text, _thought, is_answer=False):
            self._thinking.append(text)


def _thought(text: str) -> Response:
    return wire.TextCompletionResponse(thinking=text, end_of_stream=False)


class _Verbatim(ProviderWrapper):
    """Sends the requester's own call instead of the one that `ask` has made of it.

    Continuing a truncated answer and raising its limit are up to the requester. The calls of a `direct`
    request have only the requester's labels.
    """

    def __init__(self, provider: Provider, theirs: Call, handler: TextCompletionHandler) -> None:
        super().__init__(provider)
        self._theirs = theirs
        self._handler = handler

    @property
    def prefill(self) -> bool:
        return False

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        config = self._theirs.config.at_most(call.config.answer_limit)
        labels = self._theirs.labels if self._handler.direct else {**self._theirs.labels, **call.labels}
        theirs = replace(
            self._theirs, config=config, labels=labels, discarded=call.discarded, request=call.request
        )
        deltas = _begun_in_time(self.provider.stream(theirs), self._handler.seconds_left())
        async with aclosing(deltas):
            async for delta in deltas:
                await self._handler.stream_thinking(delta.thinking)
                yield delta


async def _begun_in_time(
    deltas: AsyncGenerator[Delta, None], seconds: float | None
) -> AsyncGenerator[Delta, None]:
    """Pass on the deltas; raises `ProviderUnavailable` if the first one does not arrive within `seconds`.

    Without any time left, the provider is not called.
    """
    too_late = ProviderUnavailable("the requester's deadline passed before the answer began")
    async with aclosing(deltas):
        if seconds is not None:
            if seconds <= 0:
                raise too_late
            try:
                async with asyncio.timeout(seconds) as limit:
                    first = await anext(deltas, None)
            except TimeoutError:
                raise too_late if limit.expired() else ProviderUnavailable("no answer in time") from None
            if first is None:
                return
            yield first
        async for delta in deltas:
            yield delta


def _accept_any_answer(outcome: Outcome) -> Outcome:
    """Any answer of the model is a success, even if it is empty, a refusal or truncated."""
    if outcome.calls and outcome.cause is None and outcome.reason is not Reason.BUDGET_SPENT:
        return replace(outcome, value=outcome.calls[-1].text, reason=Reason.SUCCESS)
    return replace(outcome, reason=Reason.PROVIDER_ERROR) if outcome.ok else outcome
