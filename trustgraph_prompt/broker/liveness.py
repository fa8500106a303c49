"""Hearing a topic for months: now and then the broker is asked whether anything can be heard there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Final

from trustgraph_prompt.broker.protocol import Consumer, Message, Reader
from trustgraph_prompt.errors import BrokerError, BrokerUnavailable

#: Seconds between two times that it is asked.
CHECK_EVERY: Final = 30.0


async def listen(source: Consumer | Reader) -> AsyncGenerator[Message, None]:
    """Message after message until the source is closed. Raises `BrokerClosed` where none can come any more.

    A broker that does not answer is waited for: the client connects again by itself.
    """
    lost: Exception | None = None

    async def check() -> None:
        nonlocal lost
        while True:
            await asyncio.sleep(CHECK_EVERY)
            try:
                await source.check()
            except BrokerUnavailable:
                continue
            except Exception as error:
                lost = error
                with suppress(BrokerError):
                    await source.close()  # which ends the waiting below
                return

    checking = asyncio.create_task(check(), name="check of what is listened to")
    try:
        while message := await source.receive():
            yield message
    finally:
        checking.cancel()
    if lost is not None:
        raise lost
