"""What happens to one message, from top to bottom: decode, ask, publish, decide after each step, settle."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from math import inf
from time import time
from typing import Any, TypeVar, assert_never

from trustgraph_prompt.broker import Consumer, Message
from trustgraph_prompt.errors import BrokerError, MessageTooLarge, ProviderError, RenderError, RequestError
from trustgraph_prompt.file_descriptors import out_of_descriptors
from trustgraph_prompt.llm import Provider
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.wire import Error
from trustgraph_prompt.worker.around.crash_record import CrashRecord
from trustgraph_prompt.worker.around.journal import identity_of
from trustgraph_prompt.worker.asking import Handler, PromptHandler
from trustgraph_prompt.worker.dead_letters import letters
from trustgraph_prompt.worker.decide import (
    Acknowledge,
    AwaitProvider,
    Begin,
    Disposition,
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
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.messages.request import Request, decode, request_id
from trustgraph_prompt.worker.messages.response import error_response, send_response
from trustgraph_prompt.worker.retry_broker import retry_outages
from trustgraph_prompt.worker.rows import RowsHandler
from trustgraph_prompt.worker.services import RequestContext, Services
from trustgraph_prompt.worker.telemetry import logs
from trustgraph_prompt.worker.text_completion import TextCompletionHandler

log = logging.getLogger(__name__)

T = TypeVar("T")

NOT_ERRORS = (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt, SystemExit)
"""These end a task. Any other is an internal error; a panic of native code is one, and is no `Exception`."""

LONGEST_NAME = 100
"""Characters of a prompt's name in the log: requesters choose it freely."""


class Phase(Enum):
    """How far a message is: what is being sent is not interrupted, and what is settled is left alone."""

    WORKING = 1
    SENDING = 2
    SETTLED = 3


@dataclass(eq=False, repr=False)
class Delivery:
    """One message of a flow, until it is settled. `run` it as a task, which only `cancel` may cancel.

    `crash_record` is None for non-persistent topics.
    """

    message: Message
    consumer: Consumer
    flow: Flow
    provider: Provider
    services: Services
    crash_record: CrashRecord | None = None

    def __post_init__(self) -> None:
        flow = self.flow
        self._situation = Situation(
            result=None,
            deliveries_allowed=flow.deliveries,
            crashes_allowed=flow.crashes,
            persistent=flow.input.persistent,
            trustgraph=flow.trustgraph,
            unusable=flow.unusable,
            completion=flow.input.kind == "text-completion" and request_id(self.message) is not None,
        )
        self._context: RequestContext | None = None  # once the message is decoded
        self._deadline = inf
        self._last_reason = ""
        self._awaited: AwaitProvider | None = None
        self._error_sent: GiveUp | None = None  # of which only the message is still to be settled
        self._phase = Phase.WORKING
        self._task: asyncio.Task[Any] | None = None
        self._cancelled = self._cut_off = False

    async def run(self) -> None:
        """Process and settle the message, without retries if that is cancelled. Raises `CancelledError`."""
        flow, services = self.flow, self.services
        with logs.about(flow=flow.name, request=self.message.properties.get("id") or self.message.id):
            try:
                with services.tracing.request(flow, self.message) as record_result:
                    try:
                        with services.metrics.in_work(flow.name):
                            if (result := await self._process()) is not None:
                                record_result(result)
                    except asyncio.CancelledError:
                        if self._cut_off:
                            raise
                        await self._abandon()
            except NOT_ERRORS:
                raise
            except BaseException:
                log.exception("internal error, the message stays unacknowledged")

    def cancel(self, *, cut_off: bool = False) -> None:
        """Cancel `run`; if it is sending something, only once that has ended.

        What is being sent cannot be recalled: an error would follow the response, a second dead letter the
        first. With `cut_off`, cancel it at once; the broker redelivers a persistent message.
        """
        is_due = not self._cancelled and self._phase is not Phase.SENDING
        if self._task is not None and (cut_off or is_due):
            self._task.cancel()
        self._cancelled = True
        self._cut_off |= cut_off

    async def _process(self) -> Result | None:
        """Process and settle the message; returns the last result, None if it was not started.

        While the message awaits its provider, a crash is not counted against it, and others may start.
        """
        self._task = asyncio.current_task()
        self._end_if_cancelled()
        provider_is_back = False
        while True:
            async with self._recorded() as crashes:
                self._situation.crashes = crashes
                result = await self._attempt(provider_is_back=provider_is_back)
            if self._awaited is None:
                return result
            assert self._context is not None
            provider_is_back = await self._awaited.circuit.turn(
                self._context.request.id, self._awaited.seconds
            )
            self._awaited = None

    def _recorded(self) -> AbstractAsyncContextManager[int]:
        """Records that this worker processes the message; yields how many workers that has crashed."""
        if self.crash_record is None:
            return nullcontext(0)
        return self.crash_record.working_on(self.message.id, lambda: self._awaited is None)

    async def _attempt(self, *, provider_is_back: bool) -> Result | None:
        """Decode the message, look the request up in the journal, and take it through its steps."""
        flow, services, message = self.flow, self.services, self.message
        # A message that has crashed too many workers is settled without being decoded.
        if self._situation.crashes and isinstance(disposition := self._decide(None), Settlement):
            await self._settle(disposition)
            return None
        try:
            request = decode(message, flow)
        except RequestError as error:
            await self._settle(self._settlement(error))
            return error
        with _about(request):
            async with services.journal.entry(flow.name, request.id, message.data) as entry:
                # a response on a non-persistent topic may have been missed, so it is sent again
                self._situation.sent = flow.outputs.response_stays and entry.has_answered(message)
                if self._situation.sent:
                    log.info("redelivered after it was answered in full; only settled")
                # Another outcome stays: no time is left, or a duplicate has got one meanwhile.
                if provider_is_back and entry.is_provider_away:
                    entry.forget_result()
                context = self._context = RequestContext(request, flow, self.provider, services, entry)
                self._situation.direct = request.direct
                self._deadline = request.deadline(flow.budget_of_a_request)
                return await self._follow_decisions(context)

    async def _follow_decisions(self, context: RequestContext) -> Result | None:
        """Follow `decide` until the message is settled or awaits its provider; returns the last result.

        Of a useful answer the dispositions are `Begin`, `SendOut`, `Acknowledge`; of one without a value
        `Begin`, `SendOut` (an error response), `GiveUp`. Each step leaves its outcome in the journal's entry.
        """
        result: Result | None = None
        while not isinstance(disposition := self._decide(result), Settlement):
            match disposition:
                case Begin() | WaitHere():
                    if isinstance(disposition, WaitHere):
                        await self._wait(disposition, context)
                    handler = _handler_of(context)  # anew for each try
                    result = await self._ask(context, handler)
                case SendOut():
                    # it follows only a `Begin`, which has made the handler
                    send = partial(self._send, context, handler)
                    result = await self._uncancelled(partial(_try, context, send))
                case AwaitProvider():
                    self._awaited = disposition
                    return result
        if isinstance(disposition, Retry) and disposition.ask_again:
            context.entry.forget_result()
        await self._settle(disposition)
        return result

    async def _ask(self, context: RequestContext, handler: Handler) -> Result:
        """Call the model unless the journal has the outcome; notes for `/readyz` whether it answers."""
        result = context.outcome if context.entry.result else await _try(context, handler.ask)
        match result:
            case Outcome(cause=ProviderError() as cause):
                self.services.failing[self.flow.name] = loggable(cause)
            case Outcome(cached=False):
                self.services.failing.pop(self.flow.name, None)
        return result

    async def _send(self, context: RequestContext, handler: Handler) -> None:
        """Send the outcome in the journal, or what was not sent of it yet. Raises `BrokerError`."""
        await handler.send()
        context.entry.answered = self._situation.sent = True
        if self.flow.input.persistent or self.flow.outputs.response_stays:  # else no delivery is compared
            context.entry.identity = identity_of(self.message)

    async def _wait(self, disposition: WaitHere, context: RequestContext) -> None:
        if disposition.ask_again:
            context.entry.forget_result()
        if disposition.counted:
            self.message = replace(self.message, deliveries=self.message.deliveries + 1)
            self.services.metrics.put_off(self.flow.name)
        if disposition.counted or disposition.why != self._last_reason:  # an outage is logged once
            self._last_reason = disposition.why
            log.warning("%s; retry in %.1f s", disposition.why, disposition.seconds)
        await asyncio.sleep(disposition.seconds)

    async def _settle(self, settlement: Settlement) -> None:
        """Settle the message, with retries during broker outages.

        If the broker refuses that, it redelivers the message when its consumer closes.
        """
        if isinstance(settlement, GiveUp) and settlement.answer:
            try:
                await self._through_outages(partial(self._send_error, settlement))
            except BrokerError as error:
                log.error("the broker refused the error response: %s", error)
        try:
            await self._through_outages(partial(self._settle_once, settlement))
        except BrokerError as error:
            log.error("the broker refused to settle the message: %s", error)
            self.services.metrics.unsettled(self.flow.name)

    async def _abandon(self) -> None:
        """Settle the message without retries: the worker stops, or the flow is removed."""
        if self._phase is Phase.SETTLED:
            return
        context = self._context
        result = context.outcome if context and context.entry.result else None
        settlement = self._error_sent or self._settlement(result, ending=True)
        with _about(context.request) if context else nullcontext():
            try:
                if isinstance(settlement, GiveUp) and settlement.answer:
                    await self._send_error(settlement)
                await self._settle_once(settlement)
            except BrokerError as error:
                log.error("the message could not be settled during shutdown: %s", error)

    async def _send_error(self, settlement: GiveUp) -> None:
        """Send the error response, if the requester has given an id for it. Raises `BrokerError`."""
        if (id := request_id(self.message)) is not None:
            response = error_response(self.flow, settlement.error)
            await send_response(self.services.producers, self.flow, id, response)
        self._error_sent = replace(settlement, answer=False)

    async def _settle_once(self, settlement: Settlement) -> None:
        """Carry out a settlement. Raises `BrokerError`."""
        message, metrics = self.message, self.services.metrics
        match settlement:
            case Acknowledge():
                await self.consumer.acknowledge(message)
            case Retry():
                # the next delivery counts one more than this
                again = message if settlement.counted else replace(message, deliveries=message.deliveries - 1)
                await self.consumer.retry(again, settlement.seconds)
                metrics.put_off(self.flow.name)
                log.warning("%s; retry in %.1f s", settlement.why, settlement.seconds)
            case GiveUp(dead_letter=True):
                log.error("dead letter: %s: %s", settlement.error.type, settlement.why)
                await self._dead_letter(settlement.error)
                metrics.buried(self.flow.name, settlement.error.type)
            case GiveUp():
                log.error("no answer: %s: %s", settlement.error.type, settlement.why)
                await self.consumer.acknowledge(message)
            case Leave():
                pass
            case _:
                assert_never(settlement)
        self._phase = Phase.SETTLED
        if self._context is not None and isinstance(settlement, GiveUp):
            self._context.entry.forget()

    async def _dead_letter(self, error: Error) -> None:
        prompt = self._context.request.prompt if self._context else None
        properties = letters.failure_properties(error.type, self.flow.name, prompt, time())
        try:
            await self.consumer.bury(self.message, error.message, properties)
        except MessageTooLarge:
            truncated, size_properties = letters.truncated(self.message)
            await self.consumer.bury(truncated, error.message, properties | size_properties)

    async def _through_outages(self, send: Callable[[], Awaitable[None]]) -> None:
        await retry_outages(partial(self._uncancelled, send))

    async def _uncancelled(self, send: Callable[[], Awaitable[T]]) -> T:
        """Send something; `cancel` takes effect when that has ended, also if it has failed."""
        self._phase = Phase.SENDING
        try:
            return await send()
        finally:
            if self._phase is Phase.SENDING:
                self._phase = Phase.WORKING
                self._end_if_cancelled()

    def _end_if_cancelled(self) -> None:
        if self._cancelled:
            raise asyncio.CancelledError

    def _settlement(self, result: Result | None, *, ending: bool = False) -> Settlement:
        """The disposition if there is nothing to send and no time to wait."""
        disposition = self._decide(result, ending=ending)
        assert isinstance(disposition, Settlement)
        return disposition

    def _decide(self, result: Result | None, *, ending: bool = False) -> Disposition:
        """What to do after a step with this result."""
        situation, context = self._situation, self._context
        situation.result, situation.ending = result, ending
        situation.deliveries = self.message.deliveries
        situation.jitter = random.uniform(0.5, 1.0)
        if context is not None:
            situation.paid = context.entry.result is not None
            situation.answer_sent = context.entry.answer_sent
            situation.seconds_left = self._deadline - time()
        return decide(situation)


def _handler_of(context: RequestContext) -> Handler:
    if context.request.completion is not None:
        return TextCompletionHandler(context)
    return PromptHandler(context) if context.flow.outputs.rows is None else RowsHandler(context)


def _about(request: Request) -> logs.about:
    """The log fields of a request, once it is decoded: a chunk may have its id within the message."""
    return logs.about(request=request.id, prompt=request.prompt[:LONGEST_NAME])


async def _try(context: RequestContext, step: Callable[[], Awaitable[object]]) -> Result:
    """The outcome after a step, or the error that ended it."""
    try:
        await step()
        return context.outcome
    except (BrokerError, RenderError, RequestError) as error:
        return error
    except NOT_ERRORS:
        raise
    except BaseException as error:
        if not out_of_descriptors(error):
            log.exception("internal error while processing a message")
        return error if isinstance(error, Exception) else RuntimeError(repr(error))
