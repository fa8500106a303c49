"""A provider around a provider that bounds how many calls are in flight."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from trustgraph_prompt.llm.provider import Around, Provider
from trustgraph_prompt.llm.records import Call, Delta


class Limiter(Around):
    """Waits for a slot before each call and keeps it until the answer has ended.

    Several limiters given the same semaphore share its slots: the cap of a whole process.
    """

    def __init__(self, provider: Provider, slots: asyncio.Semaphore) -> None:
        super().__init__(provider)
        self._slots = slots

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        """The provider's own answer, once there is a slot."""
        async with self._slots, aclosing(self.provider.stream(call)) as deltas:
            async for delta in deltas:
                yield delta
