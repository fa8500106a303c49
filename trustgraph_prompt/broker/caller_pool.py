"""Shares the callers of a process: one for each pair of topics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any

from trustgraph_prompt.broker import Broker, Caller, Message
from trustgraph_prompt.errors import BrokerError, BrokerUnavailable


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
