"""One flow at work: take a slot, receive, handle, settle."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from trustgraph_prompt.broker import Consumer, Message
from trustgraph_prompt.errors import BrokerError
from trustgraph_prompt.worker.backoff import unless_stopped
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.request.delivery import Delivery
from trustgraph_prompt.worker.request.settle import Settler
from trustgraph_prompt.worker.services import Services
from trustgraph_prompt.worker.telemetry import logs
from trustgraph_prompt.worker.telemetry.tracing import Tell

log = logging.getLogger(__name__)

SECONDS_BEFORE_ANOTHER = 0.5
"""Between the loss of a consumer and the next, so that a broker which takes each away is not besieged."""


class FlowLoop:
    """Serves one flow until it is stopped; `subscribe` gives it a consumer, and None when it is too late.

    `stopping` is set by `stop`, for whoever wants to know.
    """

    def __init__(
        self,
        flow: Flow,
        subscribe: Callable[[], Awaitable[Consumer | None]],
        desk: Services,
        stopping: asyncio.Event | None = None,
    ) -> None:
        self._flow = flow
        self._part = f"consumer of flow {flow.name}"
        self._subscribe = subscribe
        self._desk = desk
        self._slots = asyncio.Semaphore(flow.concurrency)
        self._consumer: Consumer | None = None
        self._successor: asyncio.Task[Consumer | None] | None = None
        self._open: set[Consumer] = set()
        self._tasks: asyncio.TaskGroup
        self._in_work: set[asyncio.Task[None]] = set()
        self._stopping = stopping or asyncio.Event()
        self._giving_up = False

    async def serve(self) -> None:
        """Until `stop`, and everything in work is settled. A consumer that breaks is replaced at once."""
        self._successor = None
        try:
            async with asyncio.TaskGroup() as self._tasks:
                while consumer := await self._next_consumer():
                    try:
                        check, renew = partial(self._check, consumer), partial(self._renew, consumer)
                        with self._desk.watch.over(self._part, check, renew):
                            await self._receive(consumer)
                    except BrokerError as error:
                        log.error("flow %s lost its consumer: %s", self._flow.name, error)
                        await self._close(consumer)  # what it holds comes back, and the journal knows it
                        await self._desk.sleep(SECONDS_BEFORE_ANOTHER)
        finally:
            await asyncio.gather(*map(self._close, list(self._open)))
        self._desk.watch.forget(self._part)

    async def stop(self) -> None:
        """Take in nothing more; `serve` ends when what is in work is done."""
        self._stopping.set()
        for consumer in (self._consumer, self._waiting_consumer()):
            if consumer is not None:
                await _stop(consumer)

    def give_up(self) -> None:
        """End now: persistent requests are left for others, all else gets an error for an answer."""
        self._giving_up = True
        for task in self._in_work:
            task.cancel()

    async def _next_consumer(self) -> Consumer | None:
        """One that takes in messages, or holds some; None once there is nothing more to receive."""
        if self._successor is not None:
            self._consumer = await self._successor
            self._successor = None
        else:
            self._consumer = None if self._stopping.is_set() else await self._take_place()
        return self._consumer

    async def _take_place(self) -> Consumer | None:
        consumer = await self._subscribe()
        if consumer is not None:
            self._open.add(consumer)
            if self._stopping.is_set():
                await _stop(consumer)
        return consumer

    def _waiting_consumer(self) -> Consumer | None:
        """The one that takes in messages already while the one before is worked off."""
        successor = self._successor
        return successor.result() if successor is not None and successor.done() else None

    async def _check(self, consumer: Consumer) -> None:
        if not self._stopping.is_set():  # then it has left its place, and means to
            await (self._waiting_consumer() or consumer).check()

    async def _renew(self, consumer: Consumer) -> None:
        """The consumer's place is gone: take another at once, and receive there when this one is worked off.

        A persistent one holds nothing that would not come back.
        """
        if not self._stopping.is_set():
            self._successor = self._tasks.create_task(self._replace(consumer))

    async def _replace(self, consumer: Consumer) -> Consumer | None:
        await (self._close(consumer) if self._flow.input.persistent else _stop(consumer))
        return await self._take_place()

    async def _receive(self, consumer: Consumer) -> None:
        """Until the consumer gives nothing more; it is closed when all is settled. Raises `BrokerError`."""
        settler = Settler(self._flow, consumer, self._desk)
        unsettled: set[asyncio.Task[None]] = set()

        def settled(task: asyncio.Task[None]) -> None:
            unsettled.discard(task)
            self._slots.release()

        while message := await self._next(consumer):
            task = self._tasks.create_task(self._one(message, settler))
            unsettled.add(task)
            task.add_done_callback(settled)
        self._tasks.create_task(self._close_after(unsettled, consumer))

    async def _close_after(self, unsettled: set[asyncio.Task[None]], consumer: Consumer) -> None:
        if unsettled:
            await asyncio.wait(unsettled)
        await self._close(consumer)

    async def _close(self, consumer: Consumer) -> None:
        self._open.discard(consumer)
        try:
            await consumer.close()
        except BrokerError as error:
            log.warning("a consumer could not be closed: %s", error)

    async def _next(self, consumer: Consumer) -> Message | None:
        """A free slot, then a message; without one the slot is free again.

        Persistent topics keep what comes while the model is away.
        """
        await self._slots.acquire()
        message = None
        try:
            if self._flow.input.persistent and self._desk.circuits.is_full(self._flow):
                await unless_stopped(self._desk.circuits.room(self._flow), self._stopping)
            message = await consumer.receive()
            if message is not None:
                self._desk.metrics.received(self._flow.name)
            return message
        finally:
            if message is None:
                self._slots.release()

    async def _one(self, message: Message, settler: Settler) -> None:
        """A message from its receipt to its settlement; whatever goes wrong stays here."""
        request = message.properties.get("id") or message.id
        with logs.about(flow=self._flow.name, request=request):
            try:
                with self._desk.tracing.request(self._flow, message) as tell:
                    await self._until_given_up(Delivery(message, self._flow, settler, self._desk), tell)
            except Exception:
                log.exception("this is a defect of the worker; the message stays unacknowledged")

    async def _until_given_up(self, delivery: Delivery, tell: Tell) -> None:
        """Work on a message, unless it is given up."""
        task = asyncio.current_task()
        assert task is not None
        if not self._giving_up:
            self._in_work.add(task)
            try:
                with self._desk.metrics.in_work(self._flow.name):
                    if (result := await delivery.run()) is not None:
                        tell(result)
                    return
            except asyncio.CancelledError:
                if task.cancelling() > 1:  # there is no time even to say so
                    raise
            finally:
                self._in_work.discard(task)
        await delivery.abandon()


async def _stop(consumer: Consumer) -> None:
    try:
        await consumer.stop()
    except BrokerError as error:
        log.warning("a consumer could not be stopped: %s", error)
