"""Settles messages: acknowledges, retries or dead-letters them."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import assert_never

from trustgraph_prompt.broker import Consumer, Message
from trustgraph_prompt.errors import BrokerError, MessageTooLarge
from trustgraph_prompt.wire import Error
from trustgraph_prompt.worker.dead_letters import record
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.messages.request import Request, request_id
from trustgraph_prompt.worker.messages.response import error_response, send_response
from trustgraph_prompt.worker.request.disposition import Acknowledge, GiveUp, Leave, Retry, Settlement
from trustgraph_prompt.worker.request_services import Services
from trustgraph_prompt.worker.retry_broker import retry_outages

log = logging.getLogger(__name__)


class Settler:
    """Settles the messages of one consumer."""

    def __init__(self, flow: Flow, consumer: Consumer, services: Services) -> None:
        self._flow = flow
        self._consumer = consumer
        self._services = services

    async def settle(self, message: Message, settlement: Settlement, request: Request | None) -> bool:
        """Settle a message, with retries during broker outages; returns whether that succeeded.

        If not, the broker redelivers the message when its consumer closes.
        """
        if isinstance(settlement, GiveUp) and settlement.answer:
            try:
                await retry_outages(partial(self._answer, message, settlement.error), self._services.sleep)
            except BrokerError as error:
                log.error("the broker refused the error response: %s", error)
        try:
            await retry_outages(partial(self._settle, message, settlement, request), self._services.sleep)
        except BrokerError as error:
            log.error("the broker refused to settle the message: %s", error)
            self._services.metrics.unsettled(self._flow.name)
            return False
        return True

    async def settle_now(self, message: Message, settlement: Settlement, request: Request | None) -> None:
        """Settle a message without retries. Raises `BrokerError`."""
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

    async def _answer(self, message: Message, error: Error) -> None:
        id = request_id(message)
        if id is not None:
            await send_response(self._services.producers, self._flow, id, error_response(self._flow, error))

    async def _dead_letter(self, message: Message, error: Error, request: Request | None) -> None:
        prompt = None if request is None else request.prompt
        properties = record.failure_properties(error.type, self._flow.name, prompt, self._services.clock())
        try:
            await self._consumer.bury(message, error.message, properties)
        except MessageTooLarge:
            truncated, size_properties = record.truncated(message)
            await self._consumer.bury(truncated, error.message, properties | size_properties)
