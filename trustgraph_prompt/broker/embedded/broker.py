"""Implements the `Broker` protocol over SQLite."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from trustgraph_prompt.broker import topics
from trustgraph_prompt.broker.caller import TopicCaller
from trustgraph_prompt.broker.compacted_table import ReaderTable
from trustgraph_prompt.broker.embedded.clients import (
    EmbeddedConsumer,
    EmbeddedProducer,
    EmbeddedReader,
    EmbeddedVolatileConsumer,
)
from trustgraph_prompt.broker.embedded.database_file import MEMORY
from trustgraph_prompt.broker.embedded.store import Listener, Store
from trustgraph_prompt.broker.embedded.store_connection import Connection
from trustgraph_prompt.broker.embedded.transactions import Effect
from trustgraph_prompt.broker.protocol import SubscriptionType
from trustgraph_prompt.broker.shutdown import Handles, Shutdown, run_all
from trustgraph_prompt.errors import ConfigError


class EmbeddedBroker:
    """A broker in the memory of this process, or in a file that several processes share."""

    def __init__(self, connection: Connection) -> None:
        self.address = f"embedded:{'' if connection.path == MEMORY else connection.path}"
        self._connection = connection
        self._handles = Handles()
        self._shutdown = Shutdown(lambda: run_all([self._handles.close, connection.close]))

    @classmethod
    async def connect(cls, path: str = MEMORY, *, clock: Callable[[], float] = time.time) -> EmbeddedBroker:
        """Open the file, created if missing. `clock` returns seconds since the epoch.

        Raises `ConfigError` if its directory does not exist, `BrokerUnavailable` if it is another file.
        """
        if path != MEMORY and not Path(path).parent.is_dir():
            raise ConfigError(
                "no such directory",
                where=f"embedded:{path}",
                found=str(Path(path).parent),
                expected="an existing one",
            )
        return cls(await Connection.open(path, clock))

    async def consumer(
        self, topic: str, subscription: str, *, type: SubscriptionType = "shared", buffer: int = 1000
    ) -> EmbeddedConsumer | EmbeddedVolatileConsumer:
        topic = topics.resolve(topic)
        name = topics.check_subscription(subscription)
        topics.check_own_topics(topic, name)
        return await self._handles.open(self._consumer(topic, name, type, buffer))

    async def producer(self, topic: str, *, batch: bool = False) -> EmbeddedProducer:
        topic = topics.resolve(topic)
        number = await self._connection.run(lambda store: store.topic(topic))
        return self._handles.keep(EmbeddedProducer(self._connection, topic, number))

    async def reader(
        self, topic: str, *, start: Literal["earliest", "latest"] = "earliest"
    ) -> EmbeddedReader:
        return await self._handles.open(self._reader(topics.check_readable(topic), start))

    async def table(self, topic: str) -> ReaderTable:
        await self.compact(topic)
        return self._handles.keep(await ReaderTable.open(await self.reader(topic)))

    async def compact(self, topic: str) -> None:
        topic = topics.resolve(topic)
        await self._connection.run(lambda store: store.compact(store.topic(topic)))

    async def caller(self, request: str, response: str) -> TopicCaller:
        return self._handles.keep(await TopicCaller.open(self, request, response))

    async def bury_unreceivable(
        self, topic: str, subscription: str, consumers: int, properties: Mapping[str, str]
    ) -> Sequence[str]:
        """Do nothing: the size of a message is limited when it is published."""
        return ()

    async def subscriptions(self) -> dict[str, frozenset[str]]:
        """Return the persistent topics with their subscriptions. (Opening a topic creates it.)"""
        found = await self._connection.run(Store.subscriptions, Effect.READ)
        return {topic: names for topic, names in found.items() if topics.is_persistent(topic)}

    async def close(self) -> None:
        await self._shutdown.run()

    async def __aenter__(self) -> EmbeddedBroker:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def _consumer(
        self, topic: str, name: str, type: SubscriptionType, buffer: int
    ) -> EmbeddedConsumer | EmbeddedVolatileConsumer:
        id, exclusive = self._connection.id, type == "exclusive"
        if not topics.is_persistent(topic):
            listener = await self._connection.run(
                lambda store: store.subscribe(id, store.topic(topic), name, exclusive, room=buffer)
            )
            return EmbeddedVolatileConsumer(self._connection, listener, topic, name)
        retry = topics.retry_topic(topic, name)
        listener = await self._connection.run(
            lambda store: store.subscribe(id, store.topic(topic), name, exclusive, retry=store.topic(retry)),
            Effect.DURABLE,
        )
        return EmbeddedConsumer(self._connection, listener, topic, name)

    async def _reader(self, topic: str, start: Literal["earliest", "latest"]) -> EmbeddedReader:
        def follow(store: Store) -> tuple[Listener, int]:
            number = store.topic(topic)
            listener = store.follow(self._connection.id, number)
            return listener, store.last(number) if start == "latest" else 0

        listener, position = await self._connection.run(follow)
        return EmbeddedReader(self._connection, listener, topic, position)
