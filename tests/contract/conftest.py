from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from tests.support.workers import House
from trustgraph_prompt.broker import Broker


@pytest.fixture
async def house(broker: Broker, space: str) -> AsyncIterator[House]:
    """A broker with the topics of one flow, and workers for it."""
    async with AsyncExitStack() as stack:
        yield House(broker, f"persistent://{space}/flow", f"non-persistent://{space}/flow", stack)
