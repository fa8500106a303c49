"""Request and response by id, over any broker's consumer and producer (TrustGraph's RPC)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from itertools import count
from uuid import uuid4

from trustgraph_prompt.broker import topics
from trustgraph_prompt.broker.liveness import listen
from trustgraph_prompt.broker.protocol import Broker, Consumer, Message, Producer, Reader
from trustgraph_prompt.broker.shutdown import Shutdown, each, farewell
from trustgraph_prompt.errors import BrokerClosed, BrokerError, CallTimeout


class TopicCaller:
    """Sends on one topic, hears on another, and gives each call the responses with its id."""

    def __init__(self, producer: Producer, responses: Consumer | Reader) -> None:
        self._producer = producer
        self._responses = responses
        self._name = uuid4().hex
        self._numbers = count(1)
        self._calls: dict[str, _Mailbox] = {}
        self._ended: BrokerError | None = None
        self._ending = Shutdown(lambda: each([self._stop_hearing, producer.close]))
        self._hearing = asyncio.create_task(self._hear(), name=f"responses to {producer.topic}")

    @classmethod
    async def open(cls, broker: Broker, request: str, response: str) -> TopicCaller:
        """Hears before it returns, so that no response can come too early."""
        responses: Consumer | Reader
        if topics.is_persistent(response):
            responses = await broker.reader(response, start="latest")
        else:
            name = f"rr-{uuid4().hex[:12]}"
            responses = await broker.consumer(response, name, type="exclusive")
        try:
            return cls(await broker.producer(request), responses)
        except BaseException:
            await responses.close()
            raise

    @property
    def closed(self) -> bool:
        """Whether nobody hears any more."""
        return self._ended is not None

    async def call(
        self,
        data: bytes,
        *,
        properties: Mapping[str, str] | None = None,
        timeout: float = 600.0,
        again: float | None = None,
        failed: Callable[[bytes], bool] | None = None,
    ) -> AsyncGenerator[Message, None]:
        ends = asyncio.get_running_loop().time() + timeout
        deadline = [timeout] if again is None or again >= timeout else [again, timeout - again]
        responses = _Mailbox()
        ids: list[str] = []
        try:
            response = None
            while response is None and deadline:
                ids.append(self._register(responses))
                await self._send(data, {**(properties or {}), "id": ids[-1]})
                response = await responses.next(deadline.pop(0))
            if response is not None and len(ids) > 1 and failed is not None and failed(response.data):
                left = ends - asyncio.get_running_loop().time()
                response = await responses.next(left) or response
            answered = response and response.properties["id"]
            while response is not None:
                if response.properties["id"] == answered:
                    yield response
                response = await responses.next(timeout)
            raise CallTimeout(f"no response from {self._producer.topic} in {timeout:g} s")
        finally:
            for id in ids:
                del self._calls[id]

    def _register(self, responses: _Mailbox) -> str:
        """The id of a request that the responses are to; raises `BrokerClosed`."""
        if self._ended:
            raise BrokerClosed(str(self._ended))
        id = f"{self._name}-{next(self._numbers)}"
        self._calls[id] = responses
        return id

    async def _send(self, data: bytes, properties: Mapping[str, str]) -> None:
        try:
            await self._producer.send(data, properties=properties)
        except BrokerClosed as error:
            self._end(error)  # nobody who calls later can be heard either
            raise

    async def close(self) -> None:
        self._end(BrokerClosed("the caller has been closed"))
        await farewell(self._ending.reach())

    async def _stop_hearing(self) -> None:
        await self._responses.close()
        await self._hearing

    async def _hear(self) -> None:
        try:
            async with aclosing(listen(self._responses)) as messages:
                async for message in messages:
                    if call := self._calls.get(message.properties.get("id", "")):
                        call.put(message)
        except BrokerError as error:
            self._end(error)
        except Exception as error:  # whatever it was: nobody hears any more, and the calls must not wait on
            self._end(BrokerError(f"responses can no longer be heard: {error!r}"))
        else:
            self._end(BrokerClosed("the caller has been closed"))

    def _end(self, error: BrokerError) -> None:
        self._ended = self._ended or error
        for call in self._calls.values():
            call.put(self._ended)


class _Mailbox:
    """What comes for one call; an error is the last of it."""

    def __init__(self) -> None:
        self._unread: deque[Message | BrokerError] = deque()
        self._news: asyncio.Future[None] | None = None

    def put(self, response: Message | BrokerError) -> None:
        self._unread.append(response)
        self._wake()

    async def next(self, seconds: float) -> Message | None:
        """None where nothing came in so many seconds. Raises what ended the caller."""
        if not self._unread:
            await self._wait(seconds)
        response = self._unread.popleft() if self._unread else None
        if isinstance(response, BrokerError):
            raise response
        return response

    async def _wait(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._news = loop.create_future()
        timer = loop.call_later(seconds, self._wake)
        try:
            await self._news
        finally:
            timer.cancel()
            self._news = None

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)
