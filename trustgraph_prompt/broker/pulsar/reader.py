"""Readers of Pulsar."""

from __future__ import annotations

import logging
from contextlib import suppress

import pulsar
from pulsar.asyncio import Client, PulsarException

from trustgraph_prompt.broker import envelope
from trustgraph_prompt.broker.closing import Ending
from trustgraph_prompt.broker.protocol import Message
from trustgraph_prompt.broker.pulsar.errors import translating
from trustgraph_prompt.broker.pulsar.messages import bare_message_of, message_of
from trustgraph_prompt.broker.pulsar.receives import Receives

log = logging.getLogger(__name__)


class PulsarReader:
    """Follows a persistent topic; from the earliest on, it reads what compaction has left."""

    def __init__(self, reader: pulsar.asyncio.Reader, topic: str) -> None:
        self._topic = topic
        self._reader = reader
        self._receives = Receives([reader.read_next], topic)
        self._ending = Ending(self._end)

    @classmethod
    async def open(cls, client: Client, topic: str, *, earliest: bool) -> PulsarReader:
        start = pulsar.MessageId.earliest if earliest else pulsar.MessageId.latest
        with translating(topic):
            return cls(await client.create_reader(topic, start, is_read_compacted=earliest), topic)

    async def receive(self) -> Message | None:
        while received := await self._receives.get():
            try:
                return envelope.opened(message_of(received))
            except UnicodeDecodeError as error:
                id = bare_message_of(received).id
                log.warning("%s: message %s is passed over, it cannot be read: %s", self._topic, id, error)
        return None

    async def behind(self) -> bool:
        with translating(self._topic):
            return self._receives.arrived or await self._reader.has_message_available()

    async def close(self) -> None:
        self._receives.end()
        await self._ending.reach()

    async def _end(self) -> None:
        with suppress(PulsarException):
            await self._reader.close()
        await self._receives.settle()
