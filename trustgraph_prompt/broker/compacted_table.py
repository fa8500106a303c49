"""Reads a compacted topic as a table, over the reader of any broker."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from trustgraph_prompt.broker.listen import listen
from trustgraph_prompt.broker.protocol import Message, Reader


class ReaderTable:
    """The last message of each key, and all changes after that. Ignores messages without a key."""

    def __init__(self, reader: Reader, entries: Mapping[str, Message]) -> None:
        self.entries = entries
        self._reader = reader

    @classmethod
    async def open(cls, reader: Reader) -> ReaderTable:
        """Read all messages that are on the topic now. Closes the reader on failure."""
        entries: dict[str, Message] = {}
        try:
            while await reader.behind() and (message := await reader.receive()):
                if message.key is None:
                    continue
                if message.data:
                    entries[message.key] = message
                else:
                    entries.pop(message.key, None)
        except BaseException:
            await reader.close()
            raise
        return cls(reader, entries)

    async def changes(self) -> AsyncGenerator[Message, None]:
        async with aclosing(listen(self._reader)) as messages:
            async for message in messages:
                if message.key is not None:
                    yield message

    async def check(self) -> None:
        await self._reader.check()

    async def close(self) -> None:
        await self._reader.close()
