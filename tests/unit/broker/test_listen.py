"""Listening for months ends with an error when nothing can be heard any more, whatever the reason."""

from __future__ import annotations

import asyncio

import pytest

from tests.support import virtual_time
from trustgraph_prompt.broker import listen
from trustgraph_prompt.broker.protocol import Message
from trustgraph_prompt.errors import BrokerClosed, BrokerUnavailable


class Silent:
    """Gives nothing until it is closed; each check fails with the next of the errors."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self._closed = asyncio.Event()

    async def receive(self) -> Message | None:
        await self._closed.wait()
        return None

    async def behind(self) -> bool:
        return False

    async def check(self) -> None:
        raise self._errors.pop(0)

    async def close(self) -> None:
        self._closed.set()


@pytest.mark.parametrize("error", [BrokerClosed("gone"), RuntimeError("a mistake of ours")])
def test_listening_ends_with_the_error_of_a_check_unless_it_is_transient(error: Exception) -> None:
    async def main() -> None:
        await anext(listen.listen(Silent(BrokerUnavailable("away"), error)))

    with pytest.raises(type(error), match=str(error)):
        virtual_time.run(main())
