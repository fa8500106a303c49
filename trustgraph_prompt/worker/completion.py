"""What is done about one text-completion request: `ask` puts it like any question, as the requester wrote it.

What the model says is the answer, whatever it is: nobody here reads it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import asdict, replace

from trustgraph_prompt import wire
from trustgraph_prompt.ask import Piece
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.cost import Usage
from trustgraph_prompt.errors import BrokerError, ProviderError, Reason, RequestError
from trustgraph_prompt.llm import Call, Delta, Provider, RetryPolicy, topic_wire
from trustgraph_prompt.llm.complete import ONCE
from trustgraph_prompt.llm.provider import Around
from trustgraph_prompt.prompts import PromptDefinition, Question, Template
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.worker.asking import is_transient, put
from trustgraph_prompt.worker.desk import Desk
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.journal import Entry
from trustgraph_prompt.worker.outbox import send_response
from trustgraph_prompt.worker.request import Request

PROMPT = PromptDefinition(
    "text-completion", Template.compile("{{ prompt }}"), Contract.from_schema(None, format="text")
)

Overhear = Callable[[Delta], Awaitable[None]]


async def complete(
    request: Request, record: wire.TextCompletionRequest, flow: Flow, desk: Desk, entry: Entry, *, last: bool
) -> Outcome:
    """Ask, and respond; what the journal knows is not asked again.

    A provider that is unavailable for now has its outcome returned and nothing sent, unless this delivery
    is the `last`, the requester tries again itself, or has some of the answer. Raises `RequestError`,
    `BrokerError`.
    """
    completion = Completion(request, record, flow, desk, entry)
    if record.operation == "list-models":
        return await completion.list_models()
    outcome = entry.asked[1] if entry.asked else await completion.ask()
    if is_transient(outcome) and not (last or record.direct or entry.told):
        return outcome
    entry.asked = PROMPT, outcome
    await completion.finish(outcome)
    entry.answered = True
    return outcome


class Completion:
    """One request being answered; pieces go out as they come where it wants a stream."""

    def __init__(
        self, request: Request, record: wire.TextCompletionRequest, flow: Flow, desk: Desk, entry: Entry
    ) -> None:
        self._request = request
        self._record = record
        self._flow = flow
        self._desk = desk
        self._entry = entry
        self._thoughts: list[str] = []
        self._trouble = False

    async def ask(self) -> Outcome:
        """What came of it: a success wherever the model ended its answer. Raises `RequestError`."""
        call = topic_wire.call(self._record)
        if call.config.temperature is None:
            call = replace(call, config=replace(call.config, temperature=self._flow.temperature))
        outcome = await put(
            PROMPT,
            Question(self._record.system, self._record.prompt),
            _Verbatim(self._desk.provider(self._flow), call, self._overhear),
            self._request,
            self._flow,
            self._desk,
            listen=self._piece,
            retry=ONCE if self._record.direct else RetryPolicy(),
        )
        return _verbatim(outcome)

    async def finish(self, outcome: Outcome) -> None:
        """The last response: what of the answer is not sent yet, or an error. Raises `BrokerError`."""
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
            error = topic_wire.error(cause) if cause else wire.Error(topic_wire.LLM_ERROR, outcome.explain())
            wait = cause.retry_after if cause else None
            response = replace(response, error=error, response=None, retry_after=wait)
        await self._send(response)

    async def list_models(self) -> Outcome:
        """Respond with the one model that answers. Raises `RequestError` where its name is not known."""
        who = self._desk.provider(self._flow).identity
        if not who.model:
            raise RequestError("this worker cannot say which models it has", type="not-implemented")
        await self._send(wire.TextCompletionResponse(models=[wire.ModelInfo(who.model)]))
        return Outcome(who.model, Reason.SUCCESS, PROMPT.contract)

    async def _piece(self, piece: Piece) -> None:
        response = wire.TextCompletionResponse(response=piece.text, at=self._entry.told)
        if self._record.streaming and await self._sent(response):
            self._entry.told += len(piece.text)

    async def _overhear(self, delta: Delta) -> None:
        if delta.thinking and self._record.direct:
            thought = wire.TextCompletionResponse(thinking=delta.thinking)
            if not (self._record.streaming and await self._sent(thought)):
                self._thoughts.append(delta.thinking)

    async def _sent(self, piece: wire.TextCompletionResponse) -> bool:
        """Whether a piece went out. After trouble with the broker all else waits for the last response.

        The model is being paid, and goes on.
        """
        try:
            if not self._trouble:
                await self._send(replace(piece, end_of_stream=False))
        except BrokerError:
            self._trouble = True
        return not self._trouble

    async def _send(self, response: wire.TextCompletionResponse) -> None:
        await send_response(self._desk.producers, self._flow, self._request.id, response)


class _Verbatim(Around):
    """Asks what the requester asks, in the place of the question that was made of it for `ask`.

    An answer that was cut is the requester's to go on with, and its limit the requester's to raise.
    """

    def __init__(self, provider: Provider, theirs: Call, overhear: Overhear) -> None:
        super().__init__(provider)
        self._theirs = theirs
        self._overhear = overhear

    @property
    def prefill(self) -> bool:
        return False

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        config = self._theirs.config.at_most(call.config.answer_limit)
        theirs = replace(self._theirs, config=config, labels={**call.labels, **self._theirs.labels})
        async with aclosing(self.provider.stream(theirs)) as deltas:
            async for delta in deltas:
                await self._overhear(delta)
                yield delta


def _verbatim(outcome: Outcome) -> Outcome:
    """A success wherever the model ended its answer: also of nothing, of a refusal, or cut at its limit."""
    if outcome.calls and outcome.cause is None and outcome.reason is not Reason.BUDGET_SPENT:
        return replace(outcome, value=outcome.calls[-1].text, reason=Reason.SUCCESS)
    return replace(outcome, reason=Reason.PROVIDER_ERROR) if outcome.ok else outcome
