"""Keeps a flow subscribed: replaces a consumer that fails or that the broker has lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from trustgraph_prompt.broker import Consumer
from trustgraph_prompt.errors import BrokerError
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.services import Services

log = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class FlowSubscription:
    """The subscription of one flow, under successive consumers.

    `subscribe` opens a consumer, or returns None during shutdown. Two are open while the messages of a
    replaced one are still processed.
    """

    flow: Flow
    subscribe: Callable[[], Awaitable[Consumer | None]]
    services: Services
    stopping: asyncio.Event

    def __post_init__(self) -> None:
        self._part = f"consumer of flow {self.flow.name}"
        self._consumer: Consumer | None = None
        self._successor: asyncio.Task[Consumer | None] | None = None
        self._open: set[Consumer] = set()

    async def next(self) -> Consumer | None:
        """The next consumer; None after `stop`."""
        if self._successor is not None:
            self._consumer = await self._successor
            self._successor = None
        else:
            self._consumer = None if self.stopping.is_set() else await self._open_another()
        return self._consumer

    @asynccontextmanager
    async def watched(self, consumer: Consumer, tasks: asyncio.TaskGroup) -> AsyncIterator[None]:
        """Watch a consumer during the block; a `BrokerError` in the block closes it."""
        try:
            check, renew = partial(self._check, consumer), partial(self._renew, consumer, tasks)
            with self.services.watch.over(self._part, check, renew):
                yield
        except BrokerError as error:
            log.error("flow %s lost its consumer: %s", self.flow.name, error)
            # The broker redelivers its messages, and the journal has their outcomes.
            await self.close(consumer)
            await asyncio.sleep(self.services.timeouts.before_reopening)

    async def stop(self) -> None:
        """Receive no more messages; the consumers stay open for acknowledgements."""
        for consumer in (self._consumer, self._waiting_successor()):
            if consumer is not None:
                await _stop(consumer)

    async def close(self, consumer: Consumer) -> None:
        """Close a consumer; logs a `BrokerError`."""
        self._open.discard(consumer)
        try:
            await consumer.close()
        except BrokerError as error:
            log.warning("flow %s: cannot close a consumer: %s", self.flow.name, error)

    async def close_all(self) -> None:
        """Close all consumers."""
        self._successor = None
        await asyncio.gather(*map(self.close, list(self._open)))

    def forget(self) -> None:
        """Stop watching; after a defect the part stays unhealthy until the flow is served again."""
        self.services.watch.forget(self._part)

    async def _open_another(self) -> Consumer | None:
        consumer = await self.subscribe()
        if consumer is not None:
            self._open.add(consumer)
            if self.stopping.is_set():
                await _stop(consumer)
        return consumer

    def _waiting_successor(self) -> Consumer | None:
        """The consumer that already receives while the messages of the previous one are processed."""
        successor = self._successor
        return successor.result() if successor is not None and successor.done() else None

    async def _check(self, consumer: Consumer) -> None:
        if not self.stopping.is_set():  # a stopped consumer has left the subscription on purpose
            await (self._waiting_successor() or consumer).check()

    async def _renew(self, consumer: Consumer, tasks: asyncio.TaskGroup) -> None:
        """Replace a consumer that the broker has lost; the new one is used when this one has ended.

        One of a persistent topic is closed, so that the broker redelivers its messages.
        """
        if not self.stopping.is_set():
            self._successor = tasks.create_task(self._replace(consumer))

    async def _replace(self, consumer: Consumer) -> Consumer | None:
        await (self.close(consumer) if self.flow.input.persistent else _stop(consumer))
        return await self._open_another()


async def _stop(consumer: Consumer) -> None:
    try:
        await consumer.stop()
    except BrokerError as error:
        log.warning("%s: cannot stop a consumer: %s", consumer.topic, error)
