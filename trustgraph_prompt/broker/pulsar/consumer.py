"""What consumers of both kinds of topic share: the subscription, dead letters, and an end."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress

from pulsar.asyncio import Client

from trustgraph_prompt.broker import envelope
from trustgraph_prompt.broker.closing import Ending, farewell
from trustgraph_prompt.broker.protocol import Message
from trustgraph_prompt.broker.pulsar.letter_box import LetterBox
from trustgraph_prompt.broker.pulsar.messages import bare_message_of, message_of
from trustgraph_prompt.broker.pulsar.partition_consumer import Receipt
from trustgraph_prompt.broker.pulsar.subscription import Subscription
from trustgraph_prompt.errors import BrokerClosed, BrokerError

log = logging.getLogger(__name__)


class PulsarConsumer(ABC):
    """A part in a subscription, until `close`."""

    def __init__(self, client: Client, joined: Subscription, topic: str, name: str) -> None:
        self.topic = topic
        self.subscription = name
        self._joined = joined
        self._letters = LetterBox(client)
        self._closed = False
        self._ending = Ending(self._end)

    @abstractmethod
    async def acknowledge(self, message: Message) -> None: ...

    async def bury(self, message: Message, reason: str, properties: Mapping[str, str] | None = None) -> None:
        self._check_open()
        await self._letters.post(envelope.dead_letter(self, message, reason, properties), retained=True)
        await self.acknowledge(message)

    async def check(self) -> None:
        self._check_open()
        await self._joined.check()

    async def close(self) -> None:
        self._closed = True
        await farewell(self._ending.reach())

    @abstractmethod
    async def _end(self) -> None: ...

    async def _read(self, receipt: Receipt) -> Message | None:
        """The message; None where it cannot be read, and then it is out of the way."""
        try:
            return message_of(receipt.received, receipt.place.topic, receipt)
        except UnicodeDecodeError as error:
            message = bare_message_of(receipt.received, receipt.place.topic, receipt)
            await self._set_aside(message, f"key or properties are no text: {error}")
            return None

    async def _set_aside(self, message: Message, reason: str) -> None:
        try:
            await self.bury(message, reason)
        except BrokerError as failure:
            log.error("%s: message %s is lost: %s; %s", self.topic, message.id, reason, failure)
            with suppress(BrokerError):
                await self.acknowledge(message)

    def _check_open(self) -> None:
        if self._closed:
            raise BrokerClosed(f"the consumer of {self.topic} has been closed")
