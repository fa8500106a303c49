"""What one process has to do with the store: its connection, its waiting listeners, its peers on the file."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from trustgraph_prompt.broker.embedded.database_file import MEMORY, FileGone
from trustgraph_prompt.broker.embedded.engine import Effect, Engine
from trustgraph_prompt.broker.embedded.peer_processes import PeerProcesses
from trustgraph_prompt.broker.embedded.store import Listener, Store
from trustgraph_prompt.broker.shutdown import Shutdown, run_all
from trustgraph_prompt.errors import BrokerClosed, BrokerUnavailable

T = TypeVar("T")

_log = logging.getLogger(__name__)

#: How often a process looks for the dead, and for news it was not told of.
_PATROL_SECONDS: Final = 1.0


class Connection:
    """A connection to the store. Waiting is an `asyncio.Event` that somebody's commit sets."""

    def __init__(self, path: str, clock: Callable[[], float]) -> None:
        if path != MEMORY:
            path = _real(path)
        self.path = path
        self.connection = 0
        self._loop = asyncio.get_running_loop()
        self.clock = clock
        self._engine = Engine(path, self._committed, clock)
        self._bells: defaultdict[int, set[asyncio.Event]] = defaultdict(set)
        self._peers: PeerProcesses | None = None
        self._patrol: asyncio.Task[None] | None = None
        self._patrol_early = asyncio.Event()
        self._owed: deque[Callable[[Store], None]] = deque()
        self._version = 0
        self._closed = False
        self._shutdown = Shutdown(lambda: run_all([self._depart, self._end]))

    @classmethod
    async def open(cls, path: str, clock: Callable[[], float]) -> Connection:
        link = cls(path, clock)
        try:
            await link._start()
        except BaseException:
            await link._end()
            raise
        return link

    async def run(self, step: Callable[[Store], T], effect: Effect = Effect.WRITE) -> T:
        """Do a step in a transaction; returns once it is committed."""
        if self._closed:
            raise BrokerClosed("the broker has been closed")
        return await self._engine.run(step, effect)

    async def owe(self, step: Callable[[Store], None]) -> None:
        """Do a step that must be done sometime, and does no harm twice: where it fails it is tried again.

        That the file is away is no error here; others are raised all the same.
        """
        try:
            await self.run(step)
        except BrokerUnavailable as error:
            self._owed.append(step)
            if not isinstance(error, FileGone):
                raise

    async def check(self, listener: Listener) -> None:
        """Whether the listener's place still stands, and what is sent to it now would be kept."""
        if self._closed:
            raise BrokerClosed("the broker has been closed")
        await self._engine.check(lambda store: store.check_present(listener))

    def listen(self, listener: Listener) -> asyncio.Event:
        """The event that is set whenever one of the listener's topics may have news."""
        bell = asyncio.Event()
        for topic in listener.topics:
            self._bells[topic].add(bell)
        return bell

    def unlisten(self, listener: Listener, bell: asyncio.Event) -> None:
        for topic in listener.topics:
            self._bells[topic].discard(bell)
            if not self._bells[topic]:
                del self._bells[topic]

    async def close(self) -> None:
        """Where the row of the connection stays behind, others will find that nobody answers for it."""
        self._closed = True
        await self._shutdown.run()

    async def _start(self) -> None:
        await self.run(Store.prepare, Effect.DURABLE)
        if self.path == MEMORY:
            self.connection = await self.run(Store.connect)
        else:
            self._peers = await self._appear()
            await self._look_around(self._peers)
            self._patrol = asyncio.create_task(self._walk(), name=f"patrol of {self.path}")

    async def _depart(self) -> None:
        if self._patrol:
            self._patrol.cancel()
            await asyncio.wait({self._patrol})
        with suppress(BrokerClosed, FileGone):
            await self._engine.run(lambda store: store.disconnect(self.connection))

    async def _end(self) -> None:
        await self._engine.close()
        if self._peers:
            self._peers.close()

    async def _appear(self) -> PeerProcesses:
        """Take a place among the processes on the file."""
        peers = PeerProcesses(self.path, self._ring_all)

        def connect(store: Store) -> int:
            connection = store.connect()
            try:
                peers.appear(connection)
            except OSError as error:
                raise BrokerUnavailable(f"{self.path}-peers: no place for a socket: {error}") from error
            return connection

        try:
            self.connection = await self.run(connect)
        except BaseException:
            peers.close()
            raise
        peers.listen()
        return peers

    def _committed(self, store: Store, topics: set[int]) -> None:
        """Tell who waits, here and elsewhere. Runs in the engine's thread."""
        self._loop.call_soon_threadsafe(self._ring, topics)
        if self._peers and not self._peers.wake(store.listening(topics)):
            self._loop.call_soon_threadsafe(self._patrol_early.set)

    def _ring(self, topics: set[int]) -> None:
        for topic in topics:
            for bell in self._bells.get(topic, ()):
                bell.set()

    def _ring_all(self) -> None:
        self._ring(set(self._bells))

    async def _walk(self) -> None:
        while peers := self._peers:
            self._patrol_early.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_PATROL_SECONDS):
                    await self._patrol_early.wait()
            try:
                await self._look_around(peers)
            except (BrokerUnavailable, BrokerClosed):
                pass  # whoever uses the broker is told of it there
            except Exception as error:
                _log.warning("%s: cannot look for processes that died: %s", self.path, error)

    async def _look_around(self, peers: PeerProcesses) -> None:
        """Free what the dead held, look for news, as a datagram may have been lost, and do what is owed."""
        version, connections = await self.run(
            lambda store: (store.version(), store.connections()), Effect.READ
        )
        if self.connection not in connections:
            _log.warning(
                "%s: others took this process for dead, its socket is gone; it joins anew", self.path
            )
            self._peers = await self._appear()
            peers.close()
            return
        for connection in peers.dead(connections):
            await self.run(partial(Store.disconnect, connection=connection))
            peers.remove(connection)
        if version != self._version:
            self._version = version
            self._ring_all()
        while self._owed:
            await self.run(self._owed[0])
            self._owed.popleft()


def _real(path: str) -> str:
    """The one name by which all processes find each other, whatever links lead to the file."""
    try:
        return os.path.realpath(os.path.expanduser(path))
    except ValueError as error:
        raise BrokerUnavailable(f"{path!r} cannot be opened: {error}") from error
