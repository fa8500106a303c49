"""One flow at work: take a slot, receive, handle, settle."""

from __future__ import annotations

import asyncio
import logging

from trustgraph_prompt.broker import Consumer, Message
from trustgraph_prompt.errors import BrokerError, RequestError
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.worker import logs
from trustgraph_prompt.worker.answer import is_served
from trustgraph_prompt.worker.desk import Desk
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.handle import handle
from trustgraph_prompt.worker.journal import Entry
from trustgraph_prompt.worker.request import Request, decode
from trustgraph_prompt.worker.settle import abandon, settle

log = logging.getLogger(__name__)


class FlowLoop:
    """Serves one flow from one consumer, until the consumer is stopped."""

    def __init__(self, flow: Flow, consumer: Consumer, desk: Desk) -> None:
        self._flow = flow
        self._consumer = consumer
        self._desk = desk
        self._in_work: set[asyncio.Task[None]] = set()
        self._giving_up = False

    async def serve(self) -> None:
        """Until the consumer gives nothing more and everything in work is settled. Raises `BrokerError`."""
        slots = asyncio.Semaphore(self._flow.concurrency)
        trouble: BrokerError | None = None
        try:
            async with asyncio.TaskGroup() as tasks:
                try:
                    while await slots.acquire() and (message := await self._consumer.receive()):
                        task = tasks.create_task(self._one(message))
                        self._in_work.add(task)
                        task.add_done_callback(self._in_work.discard)
                        task.add_done_callback(lambda _: slots.release())
                except BrokerError as error:
                    trouble = error  # raised when what is in work, and paid for, has come to its end
        finally:
            await self._consumer.close()
        if trouble is not None:
            raise trouble

    async def stop(self) -> None:
        """Take in nothing more; `serve` ends when what is in work is done."""
        await self._consumer.stop()

    def give_up(self) -> None:
        """End now: persistent requests are left for others, all else gets an error for an answer."""
        self._giving_up = True
        for task in self._in_work:
            task.cancel()

    async def _one(self, message: Message) -> None:
        """All that happens to one message; whatever goes wrong stays here."""
        with logs.about(flow=self._flow.name, request=message.properties.get("id") or message.id):
            if self._giving_up:
                await abandon(message, self._flow, self._desk)
                return
            try:
                with self._desk.metrics.in_work(self._flow.name):
                    await self._work(message)
            except asyncio.CancelledError:
                await abandon(message, self._flow, self._desk)
            except Exception:
                log.exception("this is a defect of the worker; the message will be delivered again")

    async def _work(self, message: Message) -> None:
        try:
            request = decode(message, self._flow)
        except RequestError as error:
            await self._settle(message, error)
            return
        async with self._desk.journal.entry(self._flow.name, request.id) as entry:
            again: Message | None = message
            while again is not None:
                result = await self._result(again, request, entry)
                again = await self._settle(again, result, request)
            if not (isinstance(result, Outcome) and is_served(result)):
                entry.forget()  # a dead letter that is replayed is asked anew

    async def _result(self, message: Message, request: Request, entry: Entry) -> Outcome | Exception:
        try:
            last = message.deliveries >= self._flow.deliveries
            return await handle(request, self._flow, self._desk, entry, last=last)
        except Exception as error:
            return error

    async def _settle(
        self, message: Message, result: Outcome | Exception, request: Request | None = None
    ) -> Message | None:
        return await settle(message, result, request, self._flow, self._consumer, self._desk)
