"""Receives messages for as long as the broker still knows the consumer or reader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Final

from trustgraph_prompt.broker.protocol import Consumer, Message, Reader
from trustgraph_prompt.errors import BrokerError, BrokerUnavailable

#: Seconds between two checks.
CHECK_EVERY: Final = 30.0


async def listen(source: Consumer | Reader) -> AsyncGenerator[Message, None]:
    """Yield messages until the source is closed. Raises `BrokerClosed` if the broker no longer knows it.

    An unavailable broker is no error: its client reconnects by itself.
    """
    failure: Exception | None = None

    async def check() -> None:
        nonlocal failure
        while True:
            await asyncio.sleep(CHECK_EVERY)
            try:
                await source.check()
            except BrokerUnavailable:
                continue
            except Exception as error:
                failure = error
                with suppress(BrokerError):
                    await source.close()  # ends the `receive` below
                return

    checking = asyncio.create_task(check(), name="liveness check")
    try:
        while message := await source.receive():
            yield message
    finally:
        checking.cancel()
    if failure is not None:
        raise failure
