"""Implements the `Broker` protocol with Pulsar's client."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, Literal

import pulsar
from pulsar.asyncio import Client, PulsarException

from trustgraph_prompt.broker import topics
from trustgraph_prompt.broker.caller import TopicCaller
from trustgraph_prompt.broker.compacted_table import ReaderTable
from trustgraph_prompt.broker.protocol import SubscriptionType
from trustgraph_prompt.broker.pulsar.client_log import CLIENT_LOG
from trustgraph_prompt.broker.pulsar.consumers import PersistentConsumer, VolatileConsumer
from trustgraph_prompt.broker.pulsar.credentials import Credentials
from trustgraph_prompt.broker.pulsar.errors import check_reachable, failures, translated
from trustgraph_prompt.broker.pulsar.producer import PulsarProducer
from trustgraph_prompt.broker.pulsar.reader import PulsarReader
from trustgraph_prompt.broker.shutdown import CLOSE_SECONDS, Handles, Shutdown, run_all
from trustgraph_prompt.broker.urls import address, pulsar_hosts
from trustgraph_prompt.errors import BrokerClosed, BrokerUnavailable, ConfigError

_CONNECT_SECONDS: Final = 10.0
#: Looked up to see whether the broker answers. It need not exist. It is a partition, because looking up a
#: topic would create it on brokers that create partitioned topics.
_PROBE: Final = "persistent://public/default/trustgraph-prompt-{}-partition-0"


class PulsarBroker:
    """A connection to a Pulsar cluster."""

    def __init__(self, client: Client, url: str) -> None:
        self._client = client
        self._log = asyncio.create_task(CLIENT_LOG.follow(), name="log of Pulsar's client")
        self.address = url
        self._handles = Handles()
        self._closed = False
        self._shutdown = Shutdown(lambda: run_all([self._handles.close, self._close_client, self._end_log]))

    @classmethod
    async def connect(cls, url: str, *, access: Credentials | None = None) -> PulsarBroker:
        """Connect, and wait until a broker answers. `access` defaults to the credentials in the environment.

        Raises `ConfigError` (URL, environment), `BrokerUnavailable`, `BrokerError` (access denied).
        """
        pulsar_hosts(url)
        access = access or Credentials.from_environment()
        try:
            with CLIENT_LOG.logger() as log:
                client = Client(url, logger=log, **access.options())
        except ValueError as error:
            raise ConfigError(
                f"not a Pulsar URL: {error}",
                found=address(url),
                expected="pulsar://HOST:PORT or pulsar+ssl://HOST:PORT",
            ) from error
        broker = cls(client, address(url))
        try:
            await broker._check_answers()
        except BaseException:
            await broker.close()
            raise
        return broker

    async def consumer(
        self, topic: str, subscription: str, *, type: SubscriptionType = "shared", buffer: int = 1000
    ) -> PersistentConsumer | VolatileConsumer:
        self._check_open()
        topic = topics.resolve(topic)
        name = topics.check_subscription(subscription)
        topics.check_own_topics(topic, name)
        if topics.is_persistent(topic):
            return await self._handles.open(PersistentConsumer.open(self._client, topic, name, type))
        return await self._handles.open(VolatileConsumer.open(self._client, topic, name, type, buffer))

    async def producer(self, topic: str, *, batch: bool = False) -> PulsarProducer:
        self._check_open()
        return await self._handles.open(PulsarProducer.open(self._client, topics.resolve(topic), batch=batch))

    async def reader(self, topic: str, *, start: Literal["earliest", "latest"] = "earliest") -> PulsarReader:
        return await self._reader(topic, earliest=start == "earliest")

    async def table(self, topic: str) -> ReaderTable:
        reader = await self._reader(topic, earliest=True, unbroken=True)
        return self._handles.keep(await ReaderTable.open(reader))

    async def compact(self, topic: str) -> None:
        pass

    async def caller(self, request: str, response: str) -> TopicCaller:
        return self._handles.keep(await TopicCaller.open(self, request, response))

    async def bury_unreceivable(
        self, topic: str, subscription: str, consumers: int, properties: Mapping[str, str]
    ) -> Sequence[str]:
        """Uses the admin API at `TRUSTGRAPH_PROMPT_ADMIN_URL`, by default on the host of the broker."""
        self._check_open()
        from trustgraph_prompt.broker.pulsar.unreceivable import bury_unreceivable  # slow to import

        topic = topics.resolve(topic)
        return await bury_unreceivable(self._client, self.address, topic, subscription, consumers, properties)

    async def close(self) -> None:
        """Close the connection. Must run before the event loop ends, as the client's threads report to it."""
        self._closed = True
        await self._shutdown.run()

    async def __aenter__(self) -> PulsarBroker:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def _check_answers(self) -> None:
        # One lookup for each host, as a host may be silent: each lookup goes to the next one.
        probes = [_PROBE.format(number) for number, _ in enumerate(pulsar_hosts(self.address))]
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await check_reachable(self.address)
                errors = await failures(PulsarException, map(self._look_up, probes))
        except TimeoutError:
            raise BrokerUnavailable(
                f"{self.address}: no answer in {_CONNECT_SECONDS:g} s: the broker rejects the credentials "
                "(authentication), or the port is not one of Pulsar with this protocol (pulsar://, pulsar+ssl://)"
            ) from None
        if errors:
            raise translated(errors[0].error(), self.address, str(errors[0])) from errors[0]

    async def _look_up(self, topic: str) -> None:
        try:
            await self._client.get_topic_partitions(topic)
        except PulsarException as error:
            # A denied lookup is an answer, too.
            if error.error().name not in ("TopicNotFound", "AuthorizationError"):
                raise

    async def _reader(self, topic: str, *, earliest: bool, unbroken: bool = False) -> PulsarReader:
        self._check_open()
        topic = topics.check_readable(topic)
        return await self._handles.open(
            PulsarReader.open(self._client, topic, earliest=earliest, unbroken=unbroken)
        )

    def _check_open(self) -> None:
        if self._closed:
            raise BrokerClosed(f"the connection to {self.address} has been closed")

    async def _close_client(self) -> None:
        # Not the asynchronous close: it ends in a thread of the client that releases a Python object. If the
        # interpreter is exiting by then, that aborts the process (14 of 60 short ones).
        client = self._client._client
        closing = asyncio.create_task(asyncio.to_thread(client.close))
        await asyncio.wait({closing}, timeout=CLOSE_SECONDS)
        if not closing.done():
            await asyncio.to_thread(client.shutdown)  # does not wait for the broker, and ends `close`
        with suppress(pulsar.PulsarException):
            await closing

    async def _end_log(self) -> None:
        self._log.cancel()
        await asyncio.wait({self._log})
        CLIENT_LOG.forward()
