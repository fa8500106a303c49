"""The one place that decides what becomes of a message: done, once more, or a dead letter."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from itertools import count
from math import inf
from typing import Any

from trustgraph_prompt.broker import Consumer, Message
from trustgraph_prompt.errors import (
    BrokerError,
    BrokerUnavailable,
    MessageTooLarge,
    ProviderError,
    RenderError,
    RequestError,
)
from trustgraph_prompt.llm.retry import full_jitter
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.wire import Error
from trustgraph_prompt.worker import letter
from trustgraph_prompt.worker.answer import is_served
from trustgraph_prompt.worker.desk import Desk
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.journal import Entry
from trustgraph_prompt.worker.request import Request, request_id
from trustgraph_prompt.worker.responses import refusal, send_response
from trustgraph_prompt.worker.trouble import is_away, is_transient

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds before a request is tried again: doubled with each delivery, with jitter."""

LONGEST_WISH = 600.0
"""Seconds that a provider may ask for at most. In memory, where a slot waits, it is `LONGEST_PAUSE`."""

SECONDS_FOR_THE_LAST = 10.0
"""What is left of a request's time when it is tried for the last time."""


@dataclass(frozen=True, slots=True)
class Done:
    """Everything that was owed has been sent."""


@dataclass(frozen=True, slots=True)
class Again:
    """It may well work later; `after` is the least number of seconds the other side asked for.

    `why` is for the log: it has nothing of the contents of prompts and answers, which `error` may have.
    `away` says that the broker is: that uses up no delivery, however long it takes.
    """

    error: Error
    why: str
    after: float = 0.0
    away: bool = False


@dataclass(frozen=True, slots=True)
class Dead:
    """It will not work however often it is tried. `why` as in `Again`."""

    error: Error
    why: str


def verdict(result: Outcome | Exception) -> Done | Again | Dead:
    """What a result means for the message it came from."""
    match result:
        case Outcome() if is_served(result):
            return Done()
        case Outcome(cause=ProviderError() as cause) if is_transient(result):
            after, away = cause.retry_after or 0.0, is_away(cause)
            return Again(Error("llm-error", str(cause)), _loggable(cause), after, away)
        case Outcome(cause=ProviderError() as cause):
            return Dead(Error("llm-error", f"{cause.category}: {cause}"), _loggable(cause))
        case Outcome():
            places = ", ".join(dict.fromkeys(f"{i.reason} at {i.path or '/'}" for i in result.issues[:5]))
            return Dead(Error("llm-error", f"{result.reason}: {result.explain()}"), places or result.reason)
        case RequestError():
            return Dead(Error(result.type, str(result)), str(result))
        case RenderError():
            return Dead(
                Error("template-error", str(result)), "the template cannot be rendered with the terms"
            )
        case MessageTooLarge():
            return Dead(Error("too-large", str(result)), str(result))
        case BrokerError():
            return Again(Error("broker-error", str(result)), str(result), away=is_away(result))
        case _:
            log.error("this is a defect of the worker", exc_info=result)
            return Again(Error("internal-error", type(result).__name__), "a defect of the worker")


class Settler:
    """Settles the messages of one consumer."""

    def __init__(self, flow: Flow, consumer: Consumer, desk: Desk) -> None:
        self._flow = flow
        self._consumer = consumer
        self._desk = desk

    async def settle(
        self,
        message: Message,
        result: Outcome | Exception,
        request: Request | None = None,
        entry: Entry | None = None,
    ) -> Message | None:
        """Acknowledge, put off or bury the message; an error that is final is answered, if it can be.

        Returns the message where it is to be tried again in this process, after the pause: a non-persistent
        topic would not bring it back. `request` and its `entry` in the journal, where it is a request.
        """
        decision = verdict(result)
        self._note(result)
        if isinstance(decision, Done):
            await self._settled(self._consumer.acknowledge, message)
            return None
        if isinstance(decision, Again) and _may_go_on(result, entry):
            if decision.away:
                return await self._wait_for_the_broker(message, decision)
            if message.deliveries < self._flow.deliveries:
                return await self._put_off(message, decision, request, entry)
        if isinstance(result, Exception):
            await self._refused(message, decision.error)
        gone = await self._settled(self._bury_or_drop, message, decision, request)
        if gone and entry is not None and not self._is_completion(message):
            entry.forget()  # when the dead letter is replayed, it is asked anew
        return None

    async def abandon(
        self, message: Message, request: Request | None = None, entry: Entry | None = None
    ) -> None:
        """The process ends before the message was settled: others get it, or its sender hears of it.

        So does who has some of the answer: others would begin it anew.
        """
        persistent, begun = self._flow.input.persistent, entry is not None and entry.begun
        if persistent and not begun:
            return
        try:
            if entry is not None and entry.answered:
                await self._consumer.acknowledge(message)
                return
            error = Error("shutting-down", "the worker is shutting down; ask again")
            await self._refuse(message, error)
            if persistent:
                await self._bury_or_drop(message, Dead(error, "the worker ended within the answer"), request)
        except BrokerError as error:
            log.error("could not even answer: %s", error)

    def _note(self, result: Outcome | Exception) -> None:
        """Keep in mind whether the provider answers."""
        match result:
            case Outcome(cause=ProviderError() as cause):
                self._desk.failing[self._flow.name] = _loggable(cause)
            case Outcome(cached=False):
                self._desk.failing.pop(self._flow.name, None)

    async def _wait_for_the_broker(self, message: Message, decision: Again) -> Message:
        log.warning("the broker is away: %s", decision.why)
        await self._desk.sleep(_pause(deliveries=1))
        return message

    async def _put_off(
        self, message: Message, decision: Again, request: Request | None, entry: Entry | None
    ) -> Message | None:
        pause = max(min(decision.after, LONGEST_WISH), _pause(message.deliveries))
        self._desk.metrics.put_off(self._flow.name)
        log.warning("%s; again in %.1f s", decision.why, pause)
        begun = entry is not None and entry.begun  # only this process knows what the requester has
        if self._flow.input.persistent and not begun:
            await self._settled(self._consumer.retry, message, pause)
            return None
        left = inf if request is None else request.seconds_left(self._flow.budget, self._desk.clock())
        await self._desk.sleep(min(pause, LONGEST_PAUSE, max(0.0, left - SECONDS_FOR_THE_LAST)))
        return replace(message, deliveries=message.deliveries + 1)

    async def _refuse(self, message: Message, error: Error) -> None:
        id = request_id(message)
        if id is not None:
            await send_response(self._desk.producers, self._flow, id, refusal(self._flow, error))

    async def _bury_or_drop(self, message: Message, decision: Again | Dead, request: Request | None) -> None:
        """A dead letter; nobody needs one of a text completion, whose requester asks again if it wants to."""
        error, why = decision.error, decision.why
        if not self._has_dead_letters(message):
            log.error("no answer: %s: %s", error.type, why)
            await self._consumer.acknowledge(message)
            return
        log.error("dead letter: %s: %s", error.type, why)
        await self._bury(message, error, request)
        self._desk.metrics.buried(self._flow.name, error.type)

    def _has_dead_letters(self, message: Message) -> bool:
        """TrustGraph leaves none; a persistent topic of its flows is somebody's own idea."""
        if self._flow.trustgraph and not self._flow.input.persistent:
            return False
        return not self._is_completion(message)

    def _is_completion(self, message: Message) -> bool:
        return self._flow.input.kind == "text-completion" and request_id(message) is not None

    async def _bury(self, message: Message, error: Error, request: Request | None) -> None:
        prompt = None if request is None else request.prompt
        properties = letter.remarks(error.type, self._flow.name, prompt, self._desk.clock())
        try:
            await self._consumer.bury(message, error.message, properties)
        except MessageTooLarge:
            head, said = letter.shortened(message)
            await self._consumer.bury(head, error.message, properties | said)

    async def _refused(self, message: Message, error: Error) -> None:
        try:
            await self._patiently(self._refuse, message, error)
        except BrokerError as trouble:
            log.error("nobody is told that there is no answer: %s", trouble)

    async def _settled(self, action: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> bool:
        """Whether the message is settled. Otherwise the broker gives it out again when the consumer ends."""
        try:
            await self._patiently(action, *args)
        except BrokerError as trouble:
            log.error("the message stays unacknowledged: %s", trouble)
            self._desk.metrics.unsettled(self._flow.name)
            return False
        return True

    async def _patiently(self, action: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """As often as it takes while the broker is away. Raises any other `BrokerError`."""
        for attempt in count():
            try:
                return await action(*args)
            except BrokerUnavailable as error:
                log.warning("the broker is away: %s", error)
                await self._desk.sleep(full_jitter(attempt))


def _loggable(cause: ProviderError) -> str:
    return f"{cause.category}: {cause.loggable}" if cause.loggable else cause.category


def _may_go_on(result: Outcome | Exception, entry: Entry | None) -> bool:
    """Whether another try can still become an answer.

    Not once an outcome was sent as it is, nor where the requester has some of an answer whose end is not
    known: it would be begun anew.
    """
    if entry is None:
        return True
    sent = isinstance(result, Outcome) and entry.answered
    return not sent and (entry.asked is not None or not entry.begun)


def _pause(deliveries: int) -> float:
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (deliveries - 1)) * random.uniform(0.5, 1.0)
