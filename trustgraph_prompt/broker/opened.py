"""Opens something of a broker for a block."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

from trustgraph_prompt.broker.shutdown import H


@asynccontextmanager
async def opened(opening: Awaitable[H]) -> AsyncIterator[H]:
    """Yield what `opening` opens, and close it at the end of the block."""
    handle = await opening
    try:
        yield handle
    finally:
        await handle.close()
