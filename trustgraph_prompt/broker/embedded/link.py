"""What one process has to do with the file: its connection row, and who in it waits for news of a topic."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import Final, TypeVar

from trustgraph_prompt.broker.embedded.engine import Effect, Engine
from trustgraph_prompt.broker.embedded.store import Listener, Store
from trustgraph_prompt.errors import BrokerClosed

T = TypeVar("T")

MEMORY: Final = ":memory:"


class Link:
    """A connection to the store. Waiting is an `asyncio.Event` that a commit sets."""

    def __init__(self, path: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._engine = Engine(path, self._committed)
        self._bells: defaultdict[int, set[asyncio.Event]] = defaultdict(set)
        self._closed = False
        self.connection = 0

    @classmethod
    async def open(cls, path: str) -> Link:
        link = cls(path)
        try:
            await link.run(Store.prepare, Effect.DURABLE)
            link.connection = await link.run(Store.connect)
        except BaseException:
            await link._engine.close()
            raise
        return link

    async def run(self, step: Callable[[Store], T], effect: Effect = Effect.WRITE) -> T:
        """Do a step in a transaction; returns once it is committed."""
        if self._closed:
            raise BrokerClosed("the broker has been closed")
        return await self._engine.run(step, effect)

    def listen(self, listener: Listener) -> asyncio.Event:
        """The event that is set whenever one of the listener's topics may have news."""
        bell = asyncio.Event()
        for topic in listener.topics:
            self._bells[topic].add(bell)
        return bell

    def unlisten(self, listener: Listener, bell: asyncio.Event) -> None:
        for topic in listener.topics:
            self._bells[topic].discard(bell)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        connection = self.connection
        await self._engine.run(lambda store: store.disconnect(connection))
        await self._engine.close()

    def _committed(self, store: Store, topics: set[int]) -> None:
        """In the engine's thread."""
        self._loop.call_soon_threadsafe(self._ring, topics)

    def _ring(self, topics: set[int]) -> None:
        for topic in topics:
            for bell in self._bells.get(topic, ()):
                bell.set()
