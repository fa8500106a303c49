"""What is running and what was answered, so that a redelivery is answered again and not paid again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic

from cachetools import TTLCache

from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.reader import Outcome

MAX_ENTRIES = 20_000
SECONDS_TO_LIVE = 3600.0
MAX_TEXT = 64 * 1024 * 1024
"""Characters of answers kept, about; a broker redelivers within seconds, so that little is enough."""

ENTRY_OVERHEAD = MAX_TEXT // MAX_ENTRIES


@dataclass(slots=True)
class Entry:
    """One request of one flow. `paid` is what the model said, `answered` that everything went out."""

    paid: tuple[PromptDefinition, Outcome] | None = None
    answered: bool = False
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _users: int = 0

    def forget(self) -> None:
        """As if it had never been asked."""
        self.paid, self.answered = None, False

    @property
    def weight(self) -> int:
        texts = sum(len(call.text) for call in self.paid[1].calls) if self.paid else 0
        return ENTRY_OVERHEAD + texts


class Journal:
    """In process, bounded in entries and text, with a time to live; what is running is never forgotten."""

    def __init__(self) -> None:
        self._running: dict[tuple[str, str], Entry] = {}
        self._done: TTLCache[tuple[str, str], Entry] = TTLCache(
            MAX_TEXT, SECONDS_TO_LIVE, timer=monotonic, getsizeof=lambda entry: entry.weight
        )

    @asynccontextmanager
    async def entry(self, flow: str, request: str) -> AsyncIterator[Entry]:
        """The entry of a request, to one task at a time: a redelivery waits for the run that is under way."""
        key = (flow, request)
        entry = self._running.setdefault(key, self._done.pop(key, Entry()))
        entry._users += 1
        try:
            async with entry._turn:
                yield entry
        finally:
            entry._users -= 1
            if not entry._users:
                del self._running[key]
                if entry.paid is not None and entry.weight <= MAX_TEXT:
                    self._done[key] = entry
