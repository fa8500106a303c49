from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import cast

import pytest

from tests.support.flaky_broker import FlakyBroker
from tests.support.own_pulsar import locked as locked
from tests.support.trustgraph_place import Place
from tests.support.trustgraph_services import config_service
from tests.support.workers import House
from trustgraph_prompt.broker import Broker


@pytest.fixture
async def house(broker: Broker, space: str) -> AsyncIterator[House]:
    """A broker with the topics of one flow, and workers for it."""
    async with AsyncExitStack() as stack:
        yield House(broker, f"persistent://{space}/flow", f"non-persistent://{space}/flow", stack)


@pytest.fixture
def flaky(house: House) -> FlakyBroker:
    """The broker of the house, which fails as a test tells it to."""
    flaky = FlakyBroker(house.broker)
    house.broker = cast(Broker, flaky)
    return flaky


@pytest.fixture
async def place(broker: Broker, space: str) -> AsyncIterator[Place]:
    """A broker with TrustGraph on it, and workers for it."""
    async with AsyncExitStack() as stack:
        config = await stack.enter_async_context(config_service(broker, space))
        yield Place(broker, space, config, stack)
