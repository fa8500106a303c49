"""Carries out what was decided about a message: acknowledges it, retries it, gives it up."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import assert_never

from trustgraph_prompt.broker import Consumer, Message
from trustgraph_prompt.errors import BrokerError, MessageTooLarge
from trustgraph_prompt.wire import Error
from trustgraph_prompt.worker.backoff import through_outages
from trustgraph_prompt.worker.dead_letters import record
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.messages.request import Request, request_id
from trustgraph_prompt.worker.messages.response import refusal, send_response
from trustgraph_prompt.worker.request.disposition import Acknowledge, GiveUp, Leave, Retry, Settlement
from trustgraph_prompt.worker.services import Services

log = logging.getLogger(__name__)


class Settler:
    """Settles the messages of one consumer."""

    def __init__(self, flow: Flow, consumer: Consumer, services: Services) -> None:
        self._flow = flow
        self._consumer = consumer
        self._services = services

    async def settle(self, message: Message, settlement: Settlement, request: Request | None) -> bool:
        """Whether the message is settled, through any outage of the broker.

        Otherwise the broker delivers it again when the consumer ends.
        """
        if isinstance(settlement, GiveUp) and settlement.answer:
            try:
                await through_outages(partial(self._answer, message, settlement.error), self._services.sleep)
            except BrokerError as error:
                log.error("nobody is told that there is no answer: %s", error)
        try:
            await through_outages(partial(self._settle, message, settlement, request), self._services.sleep)
        except BrokerError as error:
            log.error("the message stays unacknowledged: %s", error)
            self._services.metrics.unsettled(self._flow.name)
            return False
        return True

    async def settle_now(self, message: Message, settlement: Settlement, request: Request | None) -> None:
        """Settle the message without waiting for anything. Raises `BrokerError`."""
        if isinstance(settlement, GiveUp) and settlement.answer:
            await self._answer(message, settlement.error)
        await self._settle(message, settlement, request)

    async def _settle(self, message: Message, settlement: Settlement, request: Request | None) -> None:
        match settlement:
            case Acknowledge():
                await self._consumer.acknowledge(message)
            case Retry():
                again = message if settlement.counted else replace(message, deliveries=message.deliveries - 1)
                await self._consumer.retry(again, settlement.seconds)
                self._services.metrics.put_off(self._flow.name)
                log.warning("%s; again in %.1f s", settlement.why, settlement.seconds)
            case GiveUp(dead_letter=True):
                log.error("dead letter: %s: %s", settlement.error.type, settlement.why)
                await self._bury(message, settlement.error, request)
                self._services.metrics.buried(self._flow.name, settlement.error.type)
            case GiveUp():
                log.error("no answer: %s: %s", settlement.error.type, settlement.why)
                await self._consumer.acknowledge(message)
            case Leave():
                pass
            case _:
                assert_never(settlement)

    async def _answer(self, message: Message, error: Error) -> None:
        id = request_id(message)
        if id is not None:
            await send_response(self._services.producers, self._flow, id, refusal(self._flow, error))

    async def _bury(self, message: Message, error: Error, request: Request | None) -> None:
        prompt = None if request is None else request.prompt
        properties = record.remarks(error.type, self._flow.name, prompt, self._services.clock())
        try:
            await self._consumer.bury(message, error.message, properties)
        except MessageTooLarge:
            head, said = record.shortened(message)
            await self._consumer.bury(head, error.message, properties | said)
