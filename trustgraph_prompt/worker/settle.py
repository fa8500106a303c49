"""The one place that decides what becomes of a message: done, once more, or a dead letter."""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import tenacity

from trustgraph_prompt.broker import Consumer, Message
from trustgraph_prompt.errors import (
    BrokerClosed,
    BrokerError,
    BrokerUnavailable,
    MessageTooLarge,
    ProviderError,
    RenderError,
    RequestError,
)
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.wire import Error, PromptResponse
from trustgraph_prompt.worker.answer import is_served
from trustgraph_prompt.worker.desk import Desk
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.handle import is_transient
from trustgraph_prompt.worker.outbox import respond
from trustgraph_prompt.worker.request import Request, request_id

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds before a request is tried again: doubled with each delivery, with jitter."""


@dataclass(frozen=True, slots=True)
class Done:
    """Everything that was owed has been sent."""


@dataclass(frozen=True, slots=True)
class Again:
    """It may well work later; `after` is the least number of seconds the other side asked for."""

    error: Error
    after: float = 0.0


@dataclass(frozen=True, slots=True)
class Dead:
    """It will not work however often it is tried."""

    error: Error


def verdict(result: Outcome | Exception) -> Done | Again | Dead:
    """What a result means for the message it came from."""
    match result:
        case Outcome() if is_served(result):
            return Done()
        case Outcome(cause=ProviderError() as cause) if is_transient(result):
            return Again(Error("llm-error", str(cause)), cause.retry_after or 0.0)
        case Outcome():
            return Dead(Error("llm-error", f"{result.reason}: {result.explain()}"))
        case RequestError():
            return Dead(Error(result.type, str(result)))
        case RenderError():
            return Dead(Error("template-error", str(result)))
        case MessageTooLarge():
            return Dead(Error("too-large", str(result)))
        case BrokerError():
            return Again(Error("broker-error", str(result)))
        case _:
            log.error("this is a defect of the worker", exc_info=result)
            return Again(Error("internal-error", f"{type(result).__name__}: {result}"))


async def settle(
    message: Message,
    result: Outcome | Exception,
    request: Request | None,
    flow: Flow,
    consumer: Consumer,
    desk: Desk,
) -> Message | None:
    """Acknowledge, put off or bury the message; an error that is final is answered, if it can be.

    Returns the message where it is to be tried again in this process, after the pause: a non-persistent
    topic would not bring it back.
    """
    decision = verdict(result)
    if isinstance(decision, Done):
        await _insist(desk, lambda: consumer.acknowledge(message))
        return None
    if isinstance(decision, Again) and message.deliveries < flow.deliveries:
        pause = max(decision.after, _pause(message.deliveries))
        log.warning("%s; again in %.1f s", decision.error.message, pause)
        desk.metrics.put_off(flow.name)
        if not flow.input.persistent:
            await desk.sleep(pause)
            return replace(message, deliveries=message.deliveries + 1)
        await _insist(desk, lambda: consumer.retry(message, pause))
        return None
    log.error("dead letter: %s", decision.error.message)
    desk.metrics.buried(flow.name, decision.error.type)
    if isinstance(result, Exception):  # an outcome has been answered already
        await _insist(desk, lambda: _refuse(message, decision.error, flow, desk))
    properties = {"error": decision.error.type, "flow": flow.name}
    if request is not None:
        properties["prompt"] = request.prompt
    await _insist(desk, lambda: consumer.bury(message, decision.error.message, properties))
    return None


async def abandon(message: Message, flow: Flow, desk: Desk) -> None:
    """The process ends before the message was served: others get it, or its sender hears of it."""
    if flow.input.persistent:
        return
    try:
        await _refuse(message, Error("shutting-down", "the worker is shutting down; ask again"), flow, desk)
    except BrokerError as error:
        log.error("could not even answer: %s", error)


async def _refuse(message: Message, error: Error, flow: Flow, desk: Desk) -> None:
    id = request_id(message)
    if id is not None:
        await respond(desk.producers, flow, id, PromptResponse(error=error))


async def _insist(desk: Desk, action: Callable[[], Awaitable[None]]) -> None:
    """Until the broker is there again. What cannot be settled at all stays unacknowledged, and comes back."""
    attempts = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception_type(BrokerUnavailable),
        wait=tenacity.wait_random_exponential(multiplier=1, max=30),
        sleep=desk.sleep,
        before_sleep=lambda state: log.warning("the broker is away: %s", _error(state)),
    )

    async def act() -> None:  # tenacity awaits coroutine functions only
        await action()

    try:
        await attempts(act)
    except BrokerClosed:
        log.warning("closed before the message was settled; it will be delivered again")
    except BrokerError as error:
        log.error("the message could not be settled and will be delivered again: %s", error)


def _error(state: tenacity.RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None


def _pause(deliveries: int) -> float:
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (deliveries - 1)) * random.uniform(0.5, 1.0)
