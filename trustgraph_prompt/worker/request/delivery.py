"""One delivery of a message, from its receipt to its settlement: ask, send, settle, as `decide` says."""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Protocol

from trustgraph_prompt.broker import Message
from trustgraph_prompt.errors import BrokerError, ProviderError, RenderError, RequestError
from trustgraph_prompt.file_descriptors import out_of_descriptors
from trustgraph_prompt.llm.circuit_breaker import REQUEST
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.messages.request import Request, decode, request_id
from trustgraph_prompt.worker.request.disposition import (
    AnswerSent,
    AwaitProvider,
    GiveUp,
    Known,
    Result,
    Retry,
    SendOut,
    Settlement,
    WaitHere,
    decide,
    loggable,
)
from trustgraph_prompt.worker.request.journal import Asked, Entry
from trustgraph_prompt.worker.request.prompt import PromptWork
from trustgraph_prompt.worker.request.settle import Settler
from trustgraph_prompt.worker.request.text_completion import TextCompletionWork
from trustgraph_prompt.worker.services import Services
from trustgraph_prompt.worker.telemetry import logs

log = logging.getLogger(__name__)

LONGEST_NAME = 100
"""Characters of a prompt's name in the log: requesters choose it, and it need not name any prompt."""


class Work(Protocol):
    """One kind of request being answered."""

    async def ask(self) -> Asked:
        """Ask, write what came of it into the journal's entry, and send out what of it can go at once."""

    async def send(self, prompt: PromptDefinition, outcome: Outcome, /) -> None:
        """Send out the rest."""


@dataclass(slots=True)
class _Job:
    """A request in work; each try is a new `work`. `sent`: this delivery has sent everything."""

    request: Request
    entry: Entry
    begin: Callable[[], Work]
    sent: bool = False
    work: Work = field(init=False)
    _asked: Asked = field(init=False)

    async def ask(self) -> Outcome:
        """Ask, unless the journal knows what came of it."""
        self.work = self.begin()
        self._asked = self.entry.asked or await self.work.ask()
        return self._asked[1]

    async def send(self) -> Outcome:
        """Send out what was asked."""
        await self.work.send(*self._asked)
        self.entry.answered = self.sent = True
        return self._asked[1]


class Delivery:
    """One message in work. Run it; where that is cancelled, `abandon` it."""

    def __init__(self, message: Message, flow: Flow, settler: Settler, services: Services) -> None:
        self._message = message
        self._flow = flow
        self._settler = settler
        self._services = services
        self._job: _Job | None = None
        self._crashes = 0
        self._waited_for = ""
        self._awaits: AwaitProvider | None = None
        self._is_back = False

    async def run(self) -> Result | None:
        """What came of the message in the end, once it is settled; None where it was not even begun.

        While it awaits its provider it is not in work: others may begin, and a crash is not its fault.
        """
        while True:
            result = await self._in_work()
            if self._awaits is None:
                return result
            assert self._job is not None
            self._is_back = await self._awaits.circuit.turn(self._job.request.id, self._awaits.seconds)
            self._awaits = None

    async def _in_work(self) -> Result | None:
        in_work = self._services.in_work
        if in_work is None:
            return await self._run()
        async with in_work.working_on(self._message.id, self._has_ended) as self._crashes:
            return await self._run()

    def _has_ended(self) -> bool:
        return self._awaits is None

    async def _run(self) -> Result | None:
        flow, services, message = self._flow, self._services, self._message
        if self._crashes and isinstance(disposition := decide(self._known(None)), Settlement):
            await self._settler.settle(message, disposition, None)
            return None
        try:
            request = decode(message, flow)
        except RequestError as error:
            await self._settler.settle(message, self._settlement(error), None)
            return error
        REQUEST.set(request.id)
        with logs.about(prompt=request.prompt[:LONGEST_NAME]):
            async with services.journal.entry(flow.name, request.id, message.data) as entry:
                kind = PromptWork if request.completion is None else TextCompletionWork
                self._job = _Job(request, entry, begin=partial(kind, request, flow, services, entry))
                if self._is_back and entry.is_away:  # else there is no time, or a copy was asked meanwhile
                    entry.forget()
                return await self._until_settled(self._job)

    async def abandon(self) -> None:
        """Settle the message as far as it can be at once: the worker ends, or gives up the flow."""
        job = self._job
        asked = job.entry.asked if job else None
        settlement = self._settlement(asked[1] if asked else None, ending=True)
        try:
            await self._settler.settle_now(self._message, settlement, job.request if job else None)
        except BrokerError as error:
            log.error("the worker ended, and the message could not be settled: %s", error)
        else:
            if job is not None and isinstance(settlement, GiveUp):
                job.entry.forget()

    async def _until_settled(self, job: _Job) -> Result:
        """Do what `decide` says, step by step, until the message is settled or awaits its provider.

        Returns the last result.
        """
        result = await self._ask(job)
        while not isinstance(disposition := decide(self._known(result)), Settlement):
            if isinstance(disposition, SendOut):
                result = await _try(job.send)
                continue
            if isinstance(disposition, WaitHere):
                await self._wait(disposition, job)
            if isinstance(disposition, AwaitProvider):
                self._awaits = disposition
                return result
            result = await self._ask(job)
        if isinstance(disposition, Retry) and disposition.ask_again:
            job.entry.forget()
        settled = await self._settler.settle(self._message, disposition, job.request)
        if settled and isinstance(disposition, GiveUp):
            job.entry.forget()
        return result

    def _settlement(self, result: Result | None, *, ending: bool = False) -> Settlement:
        """What `decide` says where there is nothing to send and no time to wait."""
        disposition = decide(self._known(result, ending=ending))
        assert isinstance(disposition, Settlement)
        return disposition

    async def _ask(self, job: _Job) -> Result:
        """Ask, and keep in mind whether the provider answers."""
        result = await _try(job.ask)
        match result:
            case Outcome(cause=ProviderError() as cause):
                self._services.failing[self._flow.name] = loggable(cause)
            case Outcome(cached=False):
                self._services.failing.pop(self._flow.name, None)
        return result

    async def _wait(self, disposition: WaitHere, job: _Job) -> None:
        if disposition.ask_again:
            job.entry.forget()
        if disposition.counted:
            self._message = replace(self._message, deliveries=self._message.deliveries + 1)
            self._services.metrics.put_off(self._flow.name)
        if disposition.counted or disposition.why != self._waited_for:  # an outage is told once
            self._waited_for = disposition.why
            log.warning("%s; again in %.1f s", disposition.why, disposition.seconds)
        await self._services.sleep(disposition.seconds)

    def _known(self, result: Result | None, *, ending: bool = False) -> Known:
        flow, job = self._flow, self._job
        request = job.request if job else None
        return Known(
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
            paid=job is not None and job.entry.asked is not None,
            sent=job is not None and job.sent,
            heard=job.entry.heard if job else AnswerSent.NOTHING,
            seconds_left=request.seconds_left(flow.budget_of_a_request, self._services.clock())
            if request
            else inf,
            ending=ending,
            jitter=random.uniform(0.5, 1.0),
        )


async def _try(step: Callable[[], Awaitable[Outcome]]) -> Result:
    try:
        return await step()
    except (BrokerError, RenderError, RequestError) as error:
        return error
    except Exception as error:
        if not out_of_descriptors(error):
            log.exception("this is a defect of the worker")
        return error
