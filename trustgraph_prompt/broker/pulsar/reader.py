"""Reads Pulsar topics without a subscription."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

import pulsar
from pulsar.asyncio import Client, PulsarException

from trustgraph_prompt.broker import retry_and_dead_letters
from trustgraph_prompt.broker.protocol import CHECK_SECONDS, Message
from trustgraph_prompt.broker.pulsar.errors import is_forgotten, translated, translating
from trustgraph_prompt.broker.pulsar.messages import message_of
from trustgraph_prompt.broker.pulsar.pending_receives import PendingReceives
from trustgraph_prompt.broker.pulsar.subscription import DISCONNECTED_SECONDS, check_partitions, partitions_of
from trustgraph_prompt.broker.shutdown import Shutdown, wait_for_close
from trustgraph_prompt.errors import BrokerClosed, BrokerUnavailable

#: Seconds between two looks at the connection. The client reports no disconnection, and reconnects after a
#: tenth of a second at the earliest.
_WATCH_SECONDS: Final = 0.05

log = logging.getLogger(__name__)


class PulsarReader:
    """Reads a persistent topic; from the earliest message, in its compacted form.

    Has a client reader for each partition: the client's own reader of several reports that it has read
    everything while it still holds messages.

    An `unbroken` reader ends with `BrokerClosed` when its connection is lost. The client would reconnect and
    read on, but would miss changes, even deletions, that were compacted away in the meantime.
    """

    def __init__(
        self, client: Client, readers: Sequence[pulsar.asyncio.Reader], topic: str, *, unbroken: bool
    ) -> None:
        self._client = client
        self._readers = readers
        self._topic = topic
        self._receives = PendingReceives([reader.read_next for reader in readers])
        self._nonempty: Callable[[], Awaitable[pulsar.Message]] | None = None
        self._lost: BrokerClosed | None = None
        self._closed = False
        self._watching = asyncio.create_task(self._watch_connection()) if unbroken else None
        self._shutdown = Shutdown(self._end)

    @classmethod
    async def open(
        cls, client: Client, topic: str, *, earliest: bool, unbroken: bool = False
    ) -> PulsarReader:
        start = pulsar.MessageId.earliest if earliest else pulsar.MessageId.latest
        readers: list[pulsar.asyncio.Reader] = []
        try:
            for partition in await partitions_of(client, topic):
                with translating(partition):
                    readers.append(
                        await client.create_reader(
                            partition,
                            start,
                            subscription_role_prefix=_process(),
                            is_read_compacted=earliest,
                        )
                    )
        except BaseException:
            await wait_for_close(_close(readers))
            raise
        return cls(client, readers, topic, unbroken=unbroken)

    async def receive(self) -> Message | None:
        nonempty, self._nonempty = self._nonempty, None
        with translating(self._topic):
            received = await self._receives.get(nonempty)
        if received is None:
            return None
        try:
            message = message_of(received, self._topic)
        except UnicodeDecodeError as error:
            message = message_of(received, self._topic, bare=True)
            log.warning(
                "%s: dropped key and properties of message %s, not UTF-8: %s", self._topic, message.id, error
            )
        return retry_and_dead_letters.restore(message)

    async def behind(self) -> bool:
        if self._receives.ready:
            return True
        with translating(self._topic):
            for reader in self._readers:
                if await reader.has_message_available():
                    # The next receive uses this partition only: a pending receive of another would take a
                    # message that `has_message_available` then no longer sees.
                    self._nonempty = reader.read_next
                    return True
        return False

    async def check(self) -> None:
        if self._closed:
            raise BrokerClosed(f"the reader of {self._topic} has been closed")
        if self._lost:
            raise self._lost
        connected = all(reader.is_connected() for reader in self._readers)
        seconds = CHECK_SECONDS if connected else DISCONNECTED_SECONDS
        try:
            async with asyncio.timeout(seconds):
                for reader in self._readers:
                    await reader.has_message_available()
                topics = [reader.topic() for reader in self._readers]
                await check_partitions(self._client, [self._topic], topics)
        except TimeoutError:
            raise BrokerUnavailable(f"{self._topic}: no answer in {seconds:g} s") from None
        except PulsarException as error:
            if is_forgotten(error):
                raise BrokerClosed(f"{self._topic}: the broker knows of no such reader any more") from error
            raise translated(error.error(), self._topic, str(error)) from error

    async def close(self) -> None:
        self._closed = True
        self._receives.end()
        await wait_for_close(self._shutdown.run())

    async def _watch_connection(self) -> None:
        while all(reader.is_connected() for reader in self._readers):  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(_WATCH_SECONDS)
        self._lost = BrokerClosed(f"the connection of the reader of {self._topic} was lost")
        self._receives.end(self._lost)

    async def _end(self) -> None:
        if self._watching:
            self._watching.cancel()
        await _close(self._readers)
        await self._receives.wait_ended()


def _process() -> str:
    """Begins the names of subscriptions, so that topic statistics tell who reads.

    It also makes them distinct: the random names of the client repeat in processes forked from one parent.
    """
    return f"{socket.gethostname()}-{os.getpid()}"


async def _close(readers: Iterable[pulsar.asyncio.Reader]) -> None:
    for reader in readers:
        with suppress(PulsarException):
            await reader.close()
