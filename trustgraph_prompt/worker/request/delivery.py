"""Processes one delivery of a message: call the model, send, settle, as `decide` says."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Any, Protocol, TypeVar, assert_never

from trustgraph_prompt.broker import Consumer, Message
from trustgraph_prompt.errors import BrokerError, MessageTooLarge, ProviderError, RenderError, RequestError
from trustgraph_prompt.file_descriptors import out_of_descriptors
from trustgraph_prompt.llm.circuit_breaker import REQUEST
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.wire import Error
from trustgraph_prompt.worker.dead_letters import record
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.messages.request import Request, decode, request_id
from trustgraph_prompt.worker.messages.response import error_response, send_response
from trustgraph_prompt.worker.request.disposition import (
    Acknowledge,
    AnswerSent,
    AwaitProvider,
    Begin,
    GiveUp,
    Leave,
    Result,
    Retry,
    SendOut,
    Settlement,
    Situation,
    WaitHere,
    decide,
    loggable,
)
from trustgraph_prompt.worker.request.journal import AskResult, Entry, identity_of
from trustgraph_prompt.worker.request.ontology import OntologyWork
from trustgraph_prompt.worker.request.prompt import PromptWork
from trustgraph_prompt.worker.request.rows import RowsWork
from trustgraph_prompt.worker.request.text_completion import TextCompletionWork
from trustgraph_prompt.worker.request_services import Services
from trustgraph_prompt.worker.retry_broker import retry_outages
from trustgraph_prompt.worker.telemetry import logs

log = logging.getLogger(__name__)

T = TypeVar("T")

NOT_ERRORS = (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt, SystemExit)
"""These end a task. Any other is an internal error; a panic of native code is one, and is no `Exception`."""

LONGEST_NAME = 100
"""Characters of a prompt's name in the log: requesters choose it freely."""


class Work(Protocol):
    """The processing of one kind of request."""

    async def ask(self) -> AskResult:
        """Call the model, put the result into the journal's entry, and stream what can be streamed."""

    async def send(self, prompt: PromptDefinition, outcome: Outcome, /) -> None:
        """Send what has not been streamed."""


@dataclass(slots=True)
class _Job:
    """A request being processed; each try has a new `work`. `sent` as in `Situation`."""

    message: Message
    request: Request
    entry: Entry
    begin: Callable[[], Work]
    sent: bool
    work: Work = field(init=False)
    _result: AskResult = field(init=False)

    async def ask(self) -> Outcome:
        """Call the model, unless the journal has the outcome."""
        self.work = self.begin()
        self._result = self.entry.result or await self.work.ask()
        return self._result.outcome

    async def send(self) -> Outcome:
        await self.work.send(*self._result)
        self.entry.answered = self.sent = True
        self.entry.identity = identity_of(self.message)
        return self._result.outcome


class Delivery:
    """Processes one message. Call `run`, and `abandon` if `cancel` ended it."""

    def __init__(self, message: Message, flow: Flow, settler: Settler, services: Services) -> None:
        self._message = message
        self._flow = flow
        self._settler = settler
        self._services = services
        self._job: _Job | None = None
        self._crashes = 0
        self._last_reason = ""
        self._awaited: AwaitProvider | None = None
        self._provider_is_back = False
        self._running: asyncio.Task[Any] | None = None
        self._sending = False
        self._cancelled = False
        self.is_cut_off = False
        self._answered: GiveUp | None = None
        self._is_settled = False

    async def run(self) -> Result | None:
        """Process and settle the message; returns the last result, None if it was not started.

        While the message awaits its provider, a crash is not counted against it, and others may start.
        """
        self._running = asyncio.current_task()
        self._end_if_cancelled()
        while True:
            result = await self._run_recorded()
            if self._awaited is None:
                return result
            assert self._job is not None
            self._provider_is_back = await self._awaited.circuit.turn(
                self._job.request.id, self._awaited.seconds
            )
            self._awaited = None

    async def _run_recorded(self) -> Result | None:
        record = self._services.crash_record
        if record is None:
            return await self._run_once()
        async with record.working_on(self._message.id, self._has_ended) as self._crashes:
            return await self._run_once()

    def _has_ended(self) -> bool:
        return self._awaited is None

    async def _run_once(self) -> Result | None:
        flow, services, message = self._flow, self._services, self._message
        if self._crashes and isinstance(disposition := decide(self._situation(None)), Settlement):
            await self._settle(disposition, None)
            return None
        try:
            request = decode(message, flow)
        except RequestError as error:
            await self._settle(self._settlement(error), None)
            return error
        REQUEST.set(request.id)
        with _about(request):
            async with services.journal.entry(flow.name, request.id, message.data) as entry:
                work = partial(_kind_of_work(request, flow), request, flow, services, entry)
                sent = flow.outputs.response_stays and entry.has_answered(message)
                self._job = _Job(message, request, entry, work, sent)
                if sent:
                    log.info("redelivered after it was answered in full; only settled")
                # Otherwise there is no time left, or a duplicate has got an outcome meanwhile.
                if self._provider_is_back and entry.is_provider_away:
                    entry.forget_result()
                return await self._until_settled(self._job)

    def cancel(self, *, cut_off: bool = False) -> None:
        """Cancel `run`; if it is sending something, only once that has ended.

        What is being sent cannot be recalled: an error would follow the response, a second dead letter the
        first. With `cut_off`, cancel `run` or `abandon` at once; the broker redelivers a persistent message.
        """
        if self._running is not None and (cut_off or not (self._cancelled or self._sending)):
            self._running.cancel()
        self._cancelled = True
        self.is_cut_off |= cut_off

    def _end_if_cancelled(self) -> None:
        if self._cancelled and not self._is_settled:
            raise asyncio.CancelledError

    async def abandon(self) -> None:
        """Settle the message without retries: the worker stops, or the flow is removed."""
        if self._is_settled:
            return
        job = self._job
        result = job.entry.result if job else None
        settlement = self._answered or self._settlement(result.outcome if result else None, ending=True)
        with _about(job.request) if job else nullcontext():
            try:
                if isinstance(settlement, GiveUp) and settlement.answer:
                    await self._answer(settlement)
                await self._settle_once(settlement, job.request if job else None)
            except BrokerError as error:
                log.error("the message could not be settled during shutdown: %s", error)

    async def _until_settled(self, job: _Job) -> Result | None:
        """Follow `decide` until the message is settled or awaits its provider; returns the last result.

        Of a useful answer the dispositions are `Begin`, `SendOut`, `Acknowledge`.
        """
        result: Result | None = None
        while not isinstance(disposition := decide(self._situation(result)), Settlement):
            match disposition:
                case Begin():
                    result = await self._ask(job)
                case SendOut():
                    result = await self._uncancelled(partial(_try, job.send))
                case WaitHere():
                    await self._wait(disposition, job)
                    result = await self._ask(job)
                case AwaitProvider():
                    self._awaited = disposition
                    return result
        if isinstance(disposition, Retry) and disposition.ask_again:
            job.entry.forget_result()
        await self._settle(disposition, job.request)
        return result

    def _settlement(self, result: Result | None, *, ending: bool = False) -> Settlement:
        """The disposition if there is nothing to send and no time to wait."""
        disposition = decide(self._situation(result, ending=ending))
        assert isinstance(disposition, Settlement)
        return disposition

    async def _ask(self, job: _Job) -> Result:
        """Call the model, and note for `/readyz` whether the provider answers."""
        result = await _try(job.ask)
        match result:
            case Outcome(cause=ProviderError() as cause):
                self._services.failing[self._flow.name] = loggable(cause)
            case Outcome(cached=False):
                self._services.failing.pop(self._flow.name, None)
        return result

    async def _settle(self, settlement: Settlement, request: Request | None) -> None:
        """Settle the message, with retries during broker outages.

        If the broker refuses that, it redelivers the message when its consumer closes.
        """
        if isinstance(settlement, GiveUp) and settlement.answer:
            try:
                await self._retry_outages(partial(self._answer, settlement))
            except BrokerError as error:
                log.error("the broker refused the error response: %s", error)
        try:
            await self._retry_outages(partial(self._settle_once, settlement, request))
        except BrokerError as error:
            log.error("the broker refused to settle the message: %s", error)
            self._services.metrics.unsettled(self._flow.name)

    async def _answer(self, settlement: GiveUp) -> None:
        """Send the error response. `abandon` then only settles the message."""
        await self._settler.answer(self._message, settlement.error)
        self._answered = replace(settlement, answer=False)

    async def _settle_once(self, settlement: Settlement, request: Request | None) -> None:
        await self._settler.settle(self._message, settlement, request)
        self._is_settled = True
        if self._job is not None and isinstance(settlement, GiveUp):
            self._job.entry.forget()

    async def _retry_outages(self, send: Callable[[], Awaitable[None]]) -> None:
        await retry_outages(partial(self._uncancelled, send), self._services.sleep)

    async def _uncancelled(self, send: Callable[[], Awaitable[T]]) -> T:
        """Send something; `cancel` takes effect when that has ended, also if it has failed."""
        self._sending = True
        try:
            return await send()
        finally:
            self._sending = False
            self._end_if_cancelled()

    async def _wait(self, disposition: WaitHere, job: _Job) -> None:
        if disposition.ask_again:
            job.entry.forget_result()
        if disposition.counted:
            self._message = replace(self._message, deliveries=self._message.deliveries + 1)
            self._services.metrics.put_off(self._flow.name)
        if disposition.counted or disposition.why != self._last_reason:  # an outage is logged once
            self._last_reason = disposition.why
            log.warning("%s; retry in %.1f s", disposition.why, disposition.seconds)
        await self._services.sleep(disposition.seconds)

    def _situation(self, result: Result | None, *, ending: bool = False) -> Situation:
        flow, job = self._flow, self._job
        request = job.request if job else None
        return Situation(
            result=result,
            deliveries=self._message.deliveries,
            deliveries_allowed=flow.deliveries,
            crashes=self._crashes,
            crashes_allowed=flow.crashes,
            persistent=flow.input.persistent,
            trustgraph=flow.trustgraph,
            unusable=flow.unusable,
            completion=flow.input.kind == "text-completion" and request_id(self._message) is not None,
            direct=request is not None and request.direct,
            paid=job is not None and job.entry.result is not None,
            sent=job is not None and job.sent,
            answer_sent=job.entry.answer_sent if job else AnswerSent.NOTHING,
            seconds_left=request.seconds_left(flow.budget_of_a_request, self._services.clock())
            if request
            else inf,
            ending=ending,
            jitter=random.uniform(0.5, 1.0),
        )


def _kind_of_work(request: Request, flow: Flow) -> Callable[[Request, Flow, Services, Entry], Work]:
    if request.completion is not None:
        return TextCompletionWork
    if flow.outputs.rows is not None:
        return RowsWork
    return PromptWork if flow.ontology is None else OntologyWork


def _about(request: Request) -> logs.about:
    """The log fields of a request, once it is decoded: a chunk may have its id within the message."""
    return logs.about(request=request.id, prompt=request.prompt[:LONGEST_NAME])


async def _try(step: Callable[[], Awaitable[Outcome]]) -> Result:
    try:
        return await step()
    except (BrokerError, RenderError, RequestError) as error:
        return error
    except NOT_ERRORS:
        raise
    except BaseException as error:
        if not out_of_descriptors(error):
            log.exception("internal error while processing a message")
        return error if isinstance(error, Exception) else RuntimeError(repr(error))


class Settler:
    """Settles the messages of one consumer."""

    def __init__(self, flow: Flow, consumer: Consumer, services: Services) -> None:
        self._flow = flow
        self._consumer = consumer
        self._services = services

    async def answer(self, message: Message, error: Error) -> None:
        """Send an error response, if the requester has given an id for it. Raises `BrokerError`."""
        id = request_id(message)
        if id is not None:
            await send_response(self._services.producers, self._flow, id, error_response(self._flow, error))

    async def settle(self, message: Message, settlement: Settlement, request: Request | None) -> None:
        """Settle a message. Raises `BrokerError`."""
        match settlement:
            case Acknowledge():
                await self._consumer.acknowledge(message)
            case Retry():
                again = message if settlement.counted else replace(message, deliveries=message.deliveries - 1)
                await self._consumer.retry(again, settlement.seconds)
                self._services.metrics.put_off(self._flow.name)
                log.warning("%s; retry in %.1f s", settlement.why, settlement.seconds)
            case GiveUp(dead_letter=True):
                log.error("dead letter: %s: %s", settlement.error.type, settlement.why)
                await self._dead_letter(message, settlement.error, request)
                self._services.metrics.buried(self._flow.name, settlement.error.type)
            case GiveUp():
                log.error("no answer: %s: %s", settlement.error.type, settlement.why)
                await self._consumer.acknowledge(message)
            case Leave():
                pass
            case _:
                assert_never(settlement)

    async def _dead_letter(self, message: Message, error: Error, request: Request | None) -> None:
        prompt = None if request is None else request.prompt
        properties = record.failure_properties(error.type, self._flow.name, prompt, self._services.clock())
        try:
            await self._consumer.bury(message, error.message, properties)
        except MessageTooLarge:
            truncated, size_properties = record.truncated(message)
            await self._consumer.bury(truncated, error.message, properties | size_properties)
