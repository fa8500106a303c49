"""Matches requests and responses by id, over a producer and a consumer of any broker (TrustGraph's RPC)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from itertools import count
from typing import Any
from uuid import uuid4

from trustgraph_prompt.broker import topics
from trustgraph_prompt.broker.listen import listen
from trustgraph_prompt.broker.protocol import Broker, Caller, Consumer, Message, Producer, Reader, Resending
from trustgraph_prompt.broker.shutdown import Shutdown, run_all, wait_for_close
from trustgraph_prompt.errors import BrokerClosed, BrokerError, BrokerUnavailable, CallTimeout


class TopicCaller:
    """Sends requests on one topic, receives on another, and gives each call the responses with its id."""

    def __init__(self, producer: Producer, responses: Consumer | Reader, address: str) -> None:
        self._producer = producer
        self._responses = responses
        self._address = address
        self._name = uuid4().hex
        self._numbers = count(1)
        self._calls: dict[str, Callable[[Message | BrokerError], None]] = {}
        self._failure: BrokerError | None = None
        self._shutdown = Shutdown(lambda: run_all([self._stop_receiving, producer.close]))
        self._receiving = asyncio.create_task(self._receive(), name=f"responses to {producer.topic}")

    @classmethod
    async def open(cls, broker: Broker, request: str, response: str) -> TopicCaller:
        """Open a caller. Subscribes to the responses before it returns, so none can arrive too early."""
        responses: Consumer | Reader
        if topics.is_persistent(response):
            responses = await broker.reader(response, start="latest")
        else:
            name = f"rr-{uuid4().hex[:12]}"
            responses = await broker.consumer(response, name, type="exclusive")
        try:
            return cls(await broker.producer(request), responses, broker.address)
        except BaseException:
            await responses.close()
            raise

    @property
    def closed(self) -> bool:
        """Whether no more responses are received."""
        return self._failure is not None

    async def call(
        self,
        data: bytes,
        *,
        properties: Mapping[str, str] | None = None,
        timeout: float = 600.0,
        resending: Resending | None = None,
    ) -> AsyncGenerator[Message, None]:
        clock = asyncio.get_running_loop().time
        responses = _Mailbox()
        ids: list[str] = []
        timed_out = False

        async def send() -> None:
            ids.append(id := self._register(responses))
            if resending is not None:
                resending.sent(id)
            await self._send(data, {**(properties or {}), "id": id})

        try:
            await send()
            heard = clock()
            while (left := heard + timeout - clock()) > 0:
                wait = left if resending is None else resending.wait(timeout - left)
                if wait is None:
                    break
                if wait == 0:
                    await send()
                elif response := await responses.next(min(wait, left)):
                    yield response
                    heard = clock()
            timed_out = True
            raise CallTimeout(
                f"{self._address}: no response from {self._producer.topic} in {timeout:g} s; "
                "check /readyz of the worker that should answer"
            )
        finally:
            for id in ids:
                del self._calls[id]
            if resending is not None and (timed_out or len(ids) > 1):
                self._take_late(ids, resending, timeout)

    def _take_late(self, ids: Sequence[str], resending: Resending, seconds: float) -> None:
        """Give late responses to these ids to `resending`."""

        def take(response: Message | BrokerError) -> None:
            if isinstance(response, Message):
                resending.late(response)

        forget_later = asyncio.get_running_loop().call_later
        for id in ids:
            self._calls[id] = take
            forget_later(seconds, self._calls.pop, id, None)

    def _register(self, responses: _Mailbox) -> str:
        """Return a new request id, whose responses go to `responses`. Raises `BrokerClosed`."""
        if self._failure:
            raise BrokerClosed(str(self._failure))
        id = f"{self._name}-{next(self._numbers)}"
        self._calls[id] = responses.put
        return id

    async def _send(self, data: bytes, properties: Mapping[str, str]) -> None:
        try:
            await self._producer.send(data, properties=properties)
        except BrokerClosed as error:
            self._fail(error)  # later calls could not be sent either
            raise

    async def close(self) -> None:
        self._fail(BrokerClosed(f"the caller of {self._producer.topic} has been closed"))
        await wait_for_close(self._shutdown.run())

    async def _stop_receiving(self) -> None:
        await self._responses.close()
        await self._receiving

    async def _receive(self) -> None:
        try:
            async with aclosing(listen(self._responses)) as messages:
                async for message in messages:
                    if take := self._calls.get(message.properties.get("id", "")):
                        take(message)
        except BrokerError as error:
            self._fail(error)
        except Exception as error:  # the calls must end whatever the cause
            self._fail(
                BrokerError(f"responses to {self._producer.topic} can no longer be received: {error!r}")
            )
        else:
            self._fail(BrokerClosed(f"the caller of {self._producer.topic} has been closed"))

    def _fail(self, error: BrokerError) -> None:
        self._failure = self._failure or error
        for take in self._calls.values():
            take(self._failure)


class _Mailbox:
    """The responses to one call; an error is the last. Faster than a queue with a timer for each message."""

    def __init__(self) -> None:
        self._unread: deque[Message | BrokerError] = deque()
        self._arrival: asyncio.Future[None] | None = None

    def put(self, response: Message | BrokerError) -> None:
        self._unread.append(response)
        self._wake()

    async def next(self, seconds: float) -> Message | None:
        """Return the next response, None after so many seconds. Raises the error that ended the caller."""
        if not self._unread:
            await self._wait(seconds)
        response = self._unread.popleft() if self._unread else None
        if isinstance(response, BrokerError):
            raise response
        return response

    async def _wait(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._arrival = loop.create_future()
        timer = loop.call_later(seconds, self._wake)
        try:
            await self._arrival
        finally:
            timer.cancel()
            self._arrival = None

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)


class CallerPool:
    """Opens each caller on first use, and again after it has failed.

    `broker` may be set later. Without one, and after `close`, calls raise `BrokerUnavailable`.
    """

    def __init__(self, broker: Broker | None = None) -> None:
        self.broker = broker
        self._callers: dict[tuple[str, str], _PooledCaller] = {}

    def between(self, request: str, response: str) -> Caller:
        """Return the caller that sends on one topic and receives on the other."""
        return self._callers.setdefault((request, response), _PooledCaller(self, request, response))

    async def forget(self, request: str, response: str) -> None:
        """Close and forget the caller of two topics."""
        if caller := self._callers.pop((request, response), None):
            await caller.close()

    async def close(self) -> None:
        """Close all callers for good; calls in progress raise `BrokerClosed`."""
        self.broker = None
        await asyncio.gather(*(caller.close() for caller in self._callers.values()))


class _PooledCaller:
    def __init__(self, pool: CallerPool, request: str, response: str) -> None:
        self._pool = pool
        self._request = request
        self._response = response
        self._opened: Caller | None = None
        self._opening = asyncio.Lock()

    def call(self, data: bytes, **options: Any) -> AsyncGenerator[Message, None]:
        if self._opened is not None and not self._opened.closed:
            return self._opened.call(data, **options)
        return self._open_and_call(data, **options)

    @property
    def closed(self) -> bool:
        return False  # the next call opens another

    async def close(self) -> None:
        caller, self._opened = self._opened, None
        if caller is not None:
            with suppress(BrokerError):
                await caller.close()

    async def _open_and_call(self, data: bytes, **options: Any) -> AsyncGenerator[Message, None]:
        caller = await self._open()
        async with aclosing(caller.call(data, **options)) as responses:
            async for response in responses:
                yield response

    async def _open(self) -> Caller:
        async with self._opening:
            if self._opened is not None and self._opened.closed:
                await self.close()
            if self._opened is None:
                if self._pool.broker is None:
                    raise BrokerUnavailable(f"{self._request}: cannot call without a connection to a broker")
                self._opened = await self._pool.broker.caller(self._request, self._response)
            return self._opened
