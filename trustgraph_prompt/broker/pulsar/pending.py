"""The one receive of a consumer or reader that is under way.

The client's `receive` must never be cancelled (the message it was for would be held, unseen, until the
consumer closes), so it lives in a task of its own, and we wait beside it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pulsar

from trustgraph_prompt.broker.pulsar.errors import translating

#: How long a receive may take to end after its consumer was closed; it is milliseconds where all is well.
GRACE_SECONDS: Final = 2.0


class PendingReceive:
    """Waited for beside the order to end; stays when the wait is cancelled, for who asks next."""

    def __init__(self, receive: Callable[[], Awaitable[pulsar.Message]], where: str) -> None:
        self._receive = receive
        self._where = where
        self._pending: asyncio.Future[pulsar.Message] | None = None
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def arrived(self) -> bool:
        """Whether a message is here that nobody has been given."""
        return self._pending is not None and self._pending.done()

    async def get(self) -> pulsar.Message | None:
        """The next message; None once it is over."""
        if not self._over.done():
            self._pending = self._pending or asyncio.ensure_future(self._receive())
            first: set[asyncio.Future[Any]] = {self._pending, self._over}
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        if self._over.done():
            return None
        received, self._pending = self._pending, None
        with translating(self._where):
            return received.result() if received else None

    def end(self) -> None:
        if not self._over.done():
            self._over.set_result(None)

    async def settle(self) -> None:
        """The consumer is closed: see the receive end."""
        if self._pending is not None:
            await asyncio.wait({self._pending}, timeout=GRACE_SECONDS)
            if self._pending.done():
                self._pending.exception()
