"""Callers of a process: opened when needed, and again when they broke; over every broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from tests.support.brokers import every_broker
from trustgraph_prompt.broker import Broker, Caller
from trustgraph_prompt.broker.caller import CallerPool, TopicCaller
from trustgraph_prompt.errors import BrokerClosed, BrokerUnavailable

broker_kind = every_broker

Pair = tuple[str, str]


@pytest.fixture
async def echo(broker: Broker, space: str) -> AsyncIterator[Pair]:
    """Topics on which every request is answered with itself."""
    pair = f"persistent://{space}/flow/in", f"persistent://{space}/flow/out"
    consumer, producer = await broker.consumer(pair[0], "echo"), await broker.producer(pair[1])

    async def answer() -> None:
        while message := await consumer.receive():
            await producer.send(message.data, properties=message.properties)

    answering = asyncio.create_task(answer())
    yield pair
    await consumer.close()
    await answering


async def ask(caller: Caller, data: bytes) -> bytes:
    async with aclosing(caller.call(data, timeout=60)) as responses:
        return (await anext(responses)).data


async def test_one_caller_serves_all_calls_over_a_pair_of_topics(broker: Broker, echo: Pair) -> None:
    callers = CallerPool(broker)

    answers = await asyncio.gather(*(ask(callers.between(*echo), b"%d" % n) for n in range(20)))

    assert answers == [b"%d" % n for n in range(20)]
    assert callers.between(*echo) is callers.between(*echo)
    await callers.close()


async def test_a_caller_that_was_forgotten_is_opened_again(broker: Broker, echo: Pair) -> None:
    callers = CallerPool(broker)
    await ask(callers.between(*echo), b"a")
    await callers.forget(*echo)

    assert await ask(callers.between(*echo), b"b") == b"b"

    await callers.close()


async def test_callers_that_were_closed_open_no_other(broker: Broker, echo: Pair) -> None:
    callers = CallerPool(broker)
    caller = callers.between(*echo)
    await ask(caller, b"a")
    await callers.close()

    with pytest.raises(BrokerUnavailable):
        await ask(caller, b"b")


async def test_callers_are_closed_at_once_however_long_each_takes(broker: Broker, echo: Pair) -> None:
    all_are_being_closed = asyncio.Barrier(5)

    class Slow:
        """A broker whose callers end when the last of them is being closed."""

        async def caller(self, request: str, response: str) -> Caller:
            caller = await broker.caller(*echo)
            close = caller.close

            async def wait() -> None:
                await all_are_being_closed.wait()
                await close()

            caller.close = wait  # type: ignore[method-assign]
            return caller

    callers = CallerPool(Slow())  # type: ignore[arg-type]
    for n in range(5):
        await ask(callers.between(f"{n}", "out"), b"a")

    async with asyncio.timeout(30):
        await callers.close()


async def test_closing_ends_the_calls_under_way(broker: Broker, space: str) -> None:
    pair = f"persistent://{space}/flow/in", f"persistent://{space}/flow/out"
    callers = CallerPool(broker)
    requests = await broker.consumer(pair[0], "silent")
    asking = asyncio.create_task(ask(callers.between(*pair), b"a"))
    await requests.receive()

    await callers.close()

    with pytest.raises(BrokerClosed):
        await asking


async def test_broken_caller_is_replaced_before_the_next_call(broker: Broker, echo: Pair) -> None:
    class Breakable:
        """A broker whose callers a test can break."""

        def __init__(self) -> None:
            self.opened: list[Caller] = []

        async def caller(self, request: str, response: str) -> Caller:
            self.opened.append(await broker.caller(request, response))
            return self.opened[-1]

    breakable = Breakable()
    callers = CallerPool(breakable)  # type: ignore[arg-type]
    assert await ask(callers.between(*echo), b"a") == b"a"

    await breakable.opened[0].close()

    assert await ask(callers.between(*echo), b"b") == b"b"
    assert len(breakable.opened) == 2
    await callers.close()


async def test_caller_that_cannot_be_opened_leaves_nothing_open(broker: Broker, space: str) -> None:
    class Deaf:
        """A broker on which nobody may subscribe, or nobody may publish."""

        def __init__(self, fails: str) -> None:
            self.fails = fails
            self.open: list[Closing] = []

        def __getattr__(self, name: str) -> Any:
            async def opened(topic: str, *args: Any, **options: Any) -> Closing:
                if name == self.fails:
                    raise BrokerUnavailable("TopicNotFound")
                self.open.append(Closing(self.open, topic))
                return self.open[-1]

            return opened

    class Closing:
        def __init__(self, others: list[Closing], topic: str) -> None:
            self._open, self.topic = others, topic

        async def close(self) -> None:
            self._open.remove(self)

    for fails in ("consumer", "producer"):
        deaf = Deaf(fails)
        with pytest.raises(BrokerUnavailable):
            await TopicCaller.open(deaf, "flow:tg:in", "non-persistent://tg/response/out")
        assert deaf.open == []


async def test_call_without_a_broker_is_unavailable() -> None:
    with pytest.raises(BrokerUnavailable):
        await ask(CallerPool().between("flow:tg:in", "flow:tg:out"), b"a")
