"""What is running and what was answered, so that a redelivery is answered again and not paid again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from time import monotonic

from cachetools import TTLCache

from trustgraph_prompt.llm.circuit import ProviderAway
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.worker.request.disposition import AnswerSent

SECONDS_TO_LIVE = 3600.0

MAX_WEIGHT = 64 * 1024 * 1024
"""Bytes that are kept, about: 3,500 answers of 20 objects.

What a broker gives out again is what it had not yet written down as acknowledged, the last few seconds.
"""

ENTRY_WEIGHT = 4 * 1024
"""What an entry weighs beside its answer."""

PARSED = 6
"""How many times the size of its text an answer takes, read into objects."""


Asked = tuple[PromptDefinition, Outcome]
"""What was put to a model, and what came of it."""


@dataclass(slots=True)
class Entry:
    """One request of one flow.

    `asked` is what was paid for. `begun` says that the requester has some of the answer, which is then never
    begun anew; `told` how many characters of its text. `answered` says that everything went out.
    """

    asked: Asked | None = None
    begun: bool = False
    told: int = 0
    answered: bool = False
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _users: int = 0

    @property
    def heard(self) -> AnswerSent:
        """How much of the answer has gone out."""
        return AnswerSent.ALL if self.answered else AnswerSent.SOME if self.begun else AnswerSent.NOTHING

    @property
    def is_away(self) -> bool:
        """Whether what came of it is that the provider is away."""
        return self.asked is not None and isinstance(self.asked[1].cause, ProviderAway)

    def forget(self) -> None:
        """As if it had never been asked."""
        self.asked, self.begun, self.told, self.answered = None, False, 0, False

    @property
    def of_use(self) -> bool:
        """Whether it spares a redelivery anything. What came from a cache and went out is had there again."""
        return self.asked is not None and not (self.asked[1].cached and self.answered)

    @property
    def weight(self) -> int:
        texts = sum(len(call.text) for call in self.asked[1].calls) if self.asked else 0
        return ENTRY_WEIGHT + PARSED * texts


class Journal:
    """In process, bounded in size, with a time to live; what is running is never forgotten."""

    def __init__(self) -> None:
        self._running: dict[tuple[str, str, bytes], Entry] = {}
        self._done: TTLCache[tuple[str, str, bytes], Entry] = TTLCache(
            MAX_WEIGHT, SECONDS_TO_LIVE, timer=monotonic, getsizeof=lambda entry: entry.weight
        )

    @asynccontextmanager
    async def entry(self, flow: str, request: str, data: bytes) -> AsyncIterator[Entry]:
        """The entry of a request, to one task at a time: a redelivery waits for the run that is under way.

        `data` is what is asked: who counts requests from 1 after each start means another one.
        """
        key = (flow, request, blake2b(data, digest_size=16).digest())
        entry = self._running.get(key) or self._done.pop(key, None) or Entry()
        self._running[key] = entry
        entry._users += 1
        try:
            async with entry._turn:
                yield entry
        finally:
            entry._users -= 1
            if not entry._users:
                del self._running[key]
                if entry.of_use and entry.weight <= MAX_WEIGHT:
                    self._done[key] = entry
