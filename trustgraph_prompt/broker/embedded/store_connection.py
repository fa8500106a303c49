"""Connects a process to the store: runs steps, wakes listeners, and removes dead processes."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

from trustgraph_prompt.broker.embedded.database_file import MEMORY, FileGone
from trustgraph_prompt.broker.embedded.peer_processes import PeerProcesses
from trustgraph_prompt.broker.embedded.store import Listener, Store
from trustgraph_prompt.broker.embedded.transactions import Effect, Engine
from trustgraph_prompt.broker.shutdown import Shutdown, run_all
from trustgraph_prompt.errors import BrokerClosed, BrokerUnavailable

T = TypeVar("T")

_log = logging.getLogger(__name__)

#: Seconds between two looks for dead processes and for news whose datagram was lost.
_PATROL_SECONDS: Final = 1.0


class Connection:
    """A connection to the store. Listeners wait for an `asyncio.Event`, which a commit sets."""

    def __init__(self, path: str, clock: Callable[[], float]) -> None:
        if path != MEMORY:
            path = _real_path(path)
        self.path = path
        self.id = 0
        self._loop = asyncio.get_running_loop()
        self.clock = clock
        self._engine = Engine(path, self._committed, clock)
        self._events: defaultdict[int, set[asyncio.Event]] = defaultdict(set)
        self._peers: PeerProcesses | None = None
        self._patrol: asyncio.Task[None] | None = None
        self._patrol_early = asyncio.Event()
        self._deferred: deque[Callable[[Store], None]] = deque()
        self._version = 0
        self._closed = False
        self._shutdown = Shutdown(lambda: run_all([self._disconnect, self._end]))

    @classmethod
    async def open(cls, path: str, clock: Callable[[], float]) -> Connection:
        connection = cls(path, clock)
        try:
            await connection._start()
        except BaseException:
            await connection._end()
            raise
        return connection

    def run(self, step: Callable[[Store], T], effect: Effect = Effect.WRITE) -> Coroutine[Any, Any, T]:
        """Run a step in a transaction; returns once it is committed."""
        if self._closed:
            raise BrokerClosed(f"{self.path}: the broker has been closed")
        return self._engine.run(step, effect)

    async def run_or_defer(self, step: Callable[[Store], None]) -> None:
        """Run an idempotent step; retry it later if it fails. Raises its error, except for a missing file."""
        try:
            await self.run(step)
        except BrokerUnavailable as error:
            self._deferred.append(step)
            if not isinstance(error, FileGone):
                raise

    async def check(self, listener: Listener) -> None:
        """Raise an error if the listener is gone, or if a message sent now might be lost."""
        if self._closed:
            raise BrokerClosed(f"{self.path}: the broker has been closed")
        await self._engine.check(lambda store: store.check_present(listener))

    def listen(self, listener: Listener) -> asyncio.Event:
        """Return an event that is set whenever a topic of the listener may have news."""
        event = asyncio.Event()
        for topic in listener.topics:
            self._events[topic].add(event)
        return event

    def unlisten(self, listener: Listener, event: asyncio.Event) -> None:
        for topic in listener.topics:
            self._events[topic].discard(event)
            if not self._events[topic]:
                del self._events[topic]

    async def close(self) -> None:
        """Close the connection. If its row cannot be deleted, other processes delete it later."""
        self._closed = True
        await self._shutdown.run()

    async def _start(self) -> None:
        await self.run(Store.prepare, Effect.DURABLE)
        if self.path == MEMORY:
            self.id = await self.run(Store.connect)
        else:
            self._peers = await self._register()
            await self._inspect_peers(self._peers)
            self._patrol = asyncio.create_task(self._patrol_loop(), name=f"patrol of {self.path}")

    async def _disconnect(self) -> None:
        if self._patrol:
            self._patrol.cancel()
            await asyncio.wait({self._patrol})
        with suppress(BrokerClosed, FileGone):
            await self._engine.run(lambda store: store.disconnect(self.id))

    async def _end(self) -> None:
        await self._engine.close()
        if self._peers:
            self._peers.close()

    async def _register(self) -> PeerProcesses:
        """Register this process with the others on the file."""
        peers = PeerProcesses(self.path, self._notify_all)

        def connect(store: Store) -> int:
            connection = store.connect()
            try:
                peers.bind(connection)
            except OSError as error:
                raise BrokerUnavailable(f"{self.path}-peers: cannot create a socket: {error}") from error
            return connection

        try:
            self.id = await self.run(connect)
        except BaseException:
            peers.close()
            raise
        peers.listen()
        return peers

    def _committed(self, store: Store, topics: set[int]) -> None:
        """Notify listeners of this process and the others. Runs in the engine's thread."""
        self._loop.call_soon_threadsafe(self._notify, topics)
        if self._peers and not self._peers.notify(store.listening(topics)):
            self._loop.call_soon_threadsafe(self._patrol_early.set)

    def _notify(self, topics: set[int]) -> None:
        for topic in topics:
            for event in self._events.get(topic, ()):
                event.set()

    def _notify_all(self) -> None:
        self._notify(set(self._events))

    async def _patrol_loop(self) -> None:
        while peers := self._peers:
            self._patrol_early.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_PATROL_SECONDS):
                    await self._patrol_early.wait()
            try:
                await self._inspect_peers(peers)
            except (BrokerUnavailable, BrokerClosed):
                pass  # raised to the users of the broker as well
            except Exception as error:
                _log.warning("%s: cannot look for dead processes: %s", self.path, error)

    async def _inspect_peers(self, peers: PeerProcesses) -> None:
        """Disconnect dead processes, look for news, as datagrams may be lost, and run deferred steps."""
        version, connections = await self.run(
            lambda store: (store.version(), store.connections()), Effect.READ
        )
        if self.id not in connections:
            _log.warning(
                "%s: other processes considered this one dead, as its socket is gone; it reconnects",
                self.path,
            )
            self._peers = await self._register()
            peers.close()
            return
        for connection in peers.dead(connections):
            await self.run(partial(Store.disconnect, connection=connection))
            peers.remove(connection)
        if version != self._version:
            self._version = version
            self._notify_all()
        while self._deferred:
            await self.run(self._deferred[0])
            self._deferred.popleft()


def _real_path(path: str) -> str:
    """Resolve links, so that all processes on the file use the same sockets."""
    try:
        return os.path.realpath(os.path.expanduser(path))
    except ValueError as error:
        raise BrokerUnavailable(f"{path!r} cannot be opened: {error}") from error
