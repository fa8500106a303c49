"""The file that a run keeps its answers in: an embedded broker, with a topic for each kind of entry."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from trustgraph_prompt import wire
from trustgraph_prompt.broker import Broker, Message, connect
from trustgraph_prompt.broker.opened import opened

ANSWERS: Final = "persistent://local/extract/answers"
OBJECTS: Final = "persistent://local/extract/objects"
RECORD: Final = "persistent://local/extract/record"
LOCK: Final = "persistent://local/extract/lock"

OWNER: Final = "run"
"""The key in the record of the command that the state belongs to, and of how the run asks."""


def read_state(state: Path, topic: str) -> dict[str, Message]:
    """The last message of each key; none if there is no state. Raises `BrokerError` if it is unusable."""

    async def read() -> dict[str, Message]:
        async with await connect(f"embedded:{state}") as kept:
            return await entries(kept, topic)

    return asyncio.run(read()) if state.exists() else {}


def write_state(state: Path, topic: str, values: Mapping[str, object]) -> None:
    """Keep values as the last of their keys. Raises `BrokerError`."""

    async def write() -> None:
        async with await connect(f"embedded:{state}") as kept:
            await send(kept, topic, values)

    asyncio.run(write())


async def entries(kept: Broker, topic: str) -> dict[str, Message]:
    """The last message of each key. Opening the topic as a table also makes it compacted."""
    async with opened(kept.table(topic)) as table:
        return dict(table.entries)


async def send(kept: Broker, topic: str, values: Mapping[str, object]) -> None:
    """Send values under their keys."""
    async with opened(kept.producer(topic)) as producer:
        await asyncio.gather(*(producer.send(wire.encode(value), key=key) for key, value in values.items()))
