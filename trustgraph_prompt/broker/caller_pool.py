"""The callers of a process: one for each pair of topics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any

from trustgraph_prompt.broker import Broker, Caller, Message
from trustgraph_prompt.errors import BrokerError, BrokerUnavailable


class CallerPool:
    """Opened when first called, and anew after one broke: its calls fail, later ones do not.

    `broker` may be set later; until then there is nobody to call, nor once they are closed.
    """

    def __init__(self, broker: Broker | None = None) -> None:
        self.broker = broker
        self._pairs: dict[tuple[str, str], _Pair] = {}

    def between(self, request: str, response: str) -> Caller:
        """The caller that asks on one topic and hears on the other."""
        return self._pairs.setdefault((request, response), _Pair(self, request, response))

    async def forget(self, request: str, response: str) -> None:
        """Nobody calls between these any more."""
        if pair := self._pairs.pop((request, response), None):
            await pair.close()

    async def close(self) -> None:
        """Close them all for good; calls under way raise `BrokerClosed`."""
        self.broker = None
        await asyncio.gather(*(pair.close() for pair in self._pairs.values()))


class _Pair:
    def __init__(self, callers: CallerPool, request: str, response: str) -> None:
        self._callers = callers
        self._request = request
        self._response = response
        self._opened: Caller | None = None
        self._opening = asyncio.Lock()

    def call(self, data: bytes, **how: Any) -> AsyncGenerator[Message, None]:
        if self._opened is not None and not self._opened.closed:
            return self._opened.call(data, **how)
        return self._call_anew(data, **how)

    @property
    def closed(self) -> bool:
        return False  # it opens another

    async def close(self) -> None:
        caller, self._opened = self._opened, None
        if caller is not None:
            with suppress(BrokerError):
                await caller.close()

    async def _call_anew(self, data: bytes, **how: Any) -> AsyncGenerator[Message, None]:
        caller = await self._open()
        async with aclosing(caller.call(data, **how)) as responses:
            async for response in responses:
                yield response

    async def _open(self) -> Caller:
        async with self._opening:
            if self._opened is not None and self._opened.closed:
                await self.close()
            if self._opened is None:
                if self._callers.broker is None:
                    raise BrokerUnavailable("there is no broker to call over")
                self._opened = await self._callers.broker.caller(self._request, self._response)
            return self._opened
