"""Hearing a topic for months: who hears nothing asks now and then whether he still can."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from trustgraph_prompt.broker.protocol import Consumer, Message, Reader
from trustgraph_prompt.errors import BrokerUnavailable

#: Seconds of silence after which the place is checked.
PATIENCE_SECONDS: Final = 30.0


async def receive(source: Consumer | Reader) -> Message | None:
    """The next message, however long it takes; None once closed. Raises `BrokerClosed` where none can come.

    A broker that does not answer is waited for: the client connects again by itself.
    """
    while True:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await source.receive()
        except TimeoutError:
            with suppress(BrokerUnavailable):
                await source.check()
