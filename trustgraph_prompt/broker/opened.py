"""Opens something of a broker for a block."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar


class Closable(Protocol):
    """A consumer, producer, reader or table."""

    async def close(self) -> None: ...


R = TypeVar("R", bound=Closable)


@asynccontextmanager
async def opened(opening: Awaitable[R]) -> AsyncIterator[R]:
    """Yield what `opening` opens, and close it at the end of the block."""
    resource = await opening
    try:
        yield resource
    finally:
        await resource.close()
