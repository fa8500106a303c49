"""Serves one flow: take a slot, receive a message, process it, settle it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from trustgraph_prompt.broker import Consumer, Message
from trustgraph_prompt.worker.consumer_keeper import ConsumerKeeper
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.request.delivery import NOT_ERRORS, Delivery, Settler
from trustgraph_prompt.worker.request_services import Services
from trustgraph_prompt.worker.retry_broker import cancel_when_stopped
from trustgraph_prompt.worker.telemetry import logs
from trustgraph_prompt.worker.telemetry.tracing import RecordResult

log = logging.getLogger(__name__)

SECONDS_BETWEEN_LOOKS = 0.5
"""How often to look whether the prompt of a flow exists."""

SECONDS_TO_GIVE_UP = 5.0
"""How long requests that are given up may take to finish a response, or to send an error."""


class FlowLoop:
    """Serves one flow until it is stopped. `subscribe` returns a consumer, None once `stopping` is set."""

    def __init__(
        self,
        flow: Flow,
        subscribe: Callable[[], Awaitable[Consumer | None]],
        services: Services,
        stopping: asyncio.Event | None = None,
    ) -> None:
        self._flow = flow
        self._services = services
        self._stopping = stopping or asyncio.Event()
        self._consumers = ConsumerKeeper(flow, subscribe, services, self._stopping)
        self._slots = asyncio.Semaphore(flow.concurrency)
        self._in_progress: dict[asyncio.Task[None], Delivery] = {}
        self._given_up = False

    async def serve(self) -> None:
        """Serve until `stop` is called and all messages in progress are settled.

        If it fails or is cancelled, it gives up the requests in progress, and takes at most
        `SECONDS_TO_GIVE_UP` for that.
        """
        try:
            await self._receive_until_stopped()
            await self._until_settled()
        except BaseException:
            await self._give_up_in_time()
            raise
        finally:
            await self._consumers.close_all()
        self._consumers.forget()

    async def stop(self) -> None:
        """Receive no more messages; `serve` ends when those in progress are settled."""
        self._stopping.set()
        await self._consumers.stop()

    def give_up(self) -> None:
        """Cancel all requests: persistent ones are left for other workers, others get errors.

        A response that is being sent is sent to its end. A second call cuts it off.
        """
        self._cancel(cut_off=self._given_up)
        self._given_up = True

    async def _give_up_in_time(self) -> None:
        self._cancel()
        try:
            await self._until_settled(SECONDS_TO_GIVE_UP)
        finally:
            self._cancel(cut_off=True)
            await self._until_settled()

    def _cancel(self, *, cut_off: bool = False) -> None:
        for delivery in self._in_progress.values():
            delivery.cancel(cut_off=cut_off)

    async def _receive_until_stopped(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            while consumer := await self._consumers.next():
                async with self._consumers.watched(consumer, tasks):
                    await self._receive(consumer)
                    tasks.create_task(self._close_when_settled(consumer))

    async def _receive(self, consumer: Consumer) -> None:
        """Process messages until the consumer ends. Raises `BrokerError`."""
        settler = Settler(self._flow, consumer, self._services)
        while message := await self._next(consumer):
            delivery = Delivery(message, self._flow, settler, self._services)
            if self._given_up:
                delivery.cancel()
            task = asyncio.create_task(self._process(message, delivery))
            self._in_progress[task] = delivery
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._in_progress[task]
        self._slots.release()

    async def _close_when_settled(self, consumer: Consumer) -> None:
        await self._until_settled()
        await self._consumers.close(consumer)

    async def _until_settled(self, timeout: float | None = None) -> None:
        """Wait for the messages that are in progress now."""
        if self._in_progress:
            await asyncio.wait(self._in_progress, timeout=timeout)

    async def _next(self, consumer: Consumer) -> Message | None:
        """Take a slot and receive a message; without a message the slot is released.

        While the model is away, the flow's prompt does not exist or a message waits for suspects, messages
        stay in a persistent topic.
        """
        await self._slots.acquire()
        message = None
        try:
            if self._flow.input.persistent and not self._flow.has_prompt(self._services.prompts):
                await cancel_when_stopped(self._until_prompt(), self._stopping)
            if self._flow.input.persistent and self._services.circuits.is_blocked(self._flow):
                await cancel_when_stopped(self._services.circuits.until_unblocked(self._flow), self._stopping)
            if (record := self._services.crash_record) is not None and record.is_isolating:
                await cancel_when_stopped(record.until_not_holding(), self._stopping)
            message = await consumer.receive()
            if message is not None:
                self._services.metrics.received(self._flow.name)
            return message
        finally:
            if message is None:
                self._slots.release()

    async def _until_prompt(self) -> None:
        """Wait until somebody pushes the prompt of the flow."""
        while not self._flow.has_prompt(self._services.prompts):
            await self._services.sleep(SECONDS_BETWEEN_LOOKS)

    async def _process(self, message: Message, delivery: Delivery) -> None:
        """Process and settle a message. Raises only `CancelledError`."""
        request = message.properties.get("id") or message.id
        with logs.about(flow=self._flow.name, request=request):
            try:
                with self._services.tracing.request(self._flow, message) as record_result:
                    await self._run_or_abandon(delivery, record_result)
            except NOT_ERRORS:
                raise
            except BaseException:
                log.exception("internal error, the message stays unacknowledged")

    async def _run_or_abandon(self, delivery: Delivery, record_result: RecordResult) -> None:
        """Process a message; if that is cancelled, settle it without retries."""
        try:
            with self._services.metrics.in_work(self._flow.name):
                if (result := await delivery.run()) is not None:
                    record_result(result)
        except asyncio.CancelledError:
            if delivery.is_cut_off:
                raise
            await delivery.abandon()
