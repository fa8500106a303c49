"""What every broker promises about request and response by id."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field

import pytest

from tests.support.brokers import every_broker
from trustgraph_prompt.broker import Broker, Caller, Message, connect
from trustgraph_prompt.broker.caller import TopicCaller
from trustgraph_prompt.errors import BrokerClosed, BrokerError, CallTimeout

broker_kind = every_broker


@pytest.fixture(params=["non-persistent", "persistent"])
def topics(request: pytest.FixtureRequest, namespace: str) -> tuple[str, str]:
    return f"{request.param}://{namespace}/ask", f"{request.param}://{namespace}/answer"


@asynccontextmanager
async def server(broker: Broker, topics: tuple[str, str], parts: int = 1) -> AsyncIterator[None]:
    """Answers each request, in several parts, with noise around them."""
    consumer = await broker.consumer(topics[0], "server")
    producer = await broker.producer(topics[1])

    async def serve() -> None:
        while request := await consumer.receive():
            await consumer.acknowledge(request)
            for part in range(parts):
                await producer.send(b"noise", properties={"id": "somebody else's"})
                await producer.send(b"noise")
                answer = request.data + b":%d" % part
                await producer.send(answer, properties={"id": request.properties["id"]})

    flow_set = asyncio.create_task(serve())
    yield
    await consumer.stop()
    await flow_set


async def ask(caller: Caller, data: bytes, parts: int = 1, timeout: float = 60.0) -> list[bytes]:
    answers: list[bytes] = []
    async with aclosing(caller.call(data, properties={"id": "mine", "x": "y"}, timeout=timeout)) as responses:
        async for response in responses:
            answers.append(response.data)
            if len(answers) == parts:
                break
    return answers


async def test_a_call_hears_its_own_responses_in_order(broker: Broker, topics: tuple[str, str]) -> None:
    async with server(broker, topics, parts=3):
        caller = await broker.caller(*topics)
        assert await ask(caller, b"q", parts=3) == [b"q:0", b"q:1", b"q:2"]


async def test_many_calls_share_a_caller(broker: Broker, topics: tuple[str, str]) -> None:
    async with server(broker, topics, parts=2):
        caller = await broker.caller(*topics)
        answers = await asyncio.gather(*(ask(caller, b"%d" % number, parts=2) for number in range(50)))
    assert answers == [[b"%d:0" % number, b"%d:1" % number] for number in range(50)]


async def test_callers_do_not_disturb_each_other(broker: Broker, topics: tuple[str, str]) -> None:
    async with server(broker, topics):
        one, other = await broker.caller(*topics), await broker.caller(*topics)
        answers = await asyncio.gather(ask(one, b"1"), ask(other, b"2"))
    assert list(answers) == [[b"1:0"], [b"2:0"]]


async def test_each_call_has_a_fresh_id_whatever_the_properties_say(
    broker: Broker, topics: tuple[str, str]
) -> None:
    requests = await broker.consumer(topics[0], "server")
    caller = await broker.caller(*topics)
    ids = set()
    for _ in range(2):
        calling = asyncio.create_task(ask(caller, b"q"))
        request = await requests.receive()
        assert request is not None
        assert request.properties["x"] == "y"
        ids.add(request.properties["id"])
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
    assert len(ids - {"mine"}) == 2


async def test_a_call_without_a_response_times_out(broker: Broker, topics: tuple[str, str]) -> None:
    caller = await broker.caller(*topics)
    with pytest.raises(CallTimeout, match="ask"):
        await ask(caller, b"q", timeout=0.2)


@dataclass
class Twice:
    """Has a request sent a second time after some seconds without a response, and gives up after more."""

    seconds: float = 0.01
    patience: float = 60.0
    ids: list[str] = field(default_factory=list)
    too_late: list[bytes] = field(default_factory=list)

    def sent(self, id: str) -> None:
        self.ids.append(id)

    def wait(self, silent: float) -> float | None:
        if len(self.ids) > 1:
            return self.patience - silent if silent < self.patience else None
        return max(0.0, self.seconds - silent)

    def late(self, response: Message) -> None:
        self.too_late.append(response.data)


async def test_responses_to_both_sendings_of_a_request_are_heard(
    broker: Broker, topics: tuple[str, str]
) -> None:
    requests = await broker.consumer(topics[0], "server")
    producer = await broker.producer(topics[1])
    caller = await broker.caller(*topics)
    resending = Twice()
    async with aclosing(caller.call(b"q", resending=resending)) as responses:
        hearing = asyncio.ensure_future(anext(responses))
        asked = [await requests.receive(), await requests.receive()]
        assert [(request.data, request.properties["id"]) for request in asked if request] == [
            (b"q", id) for id in resending.ids
        ]
        for answer, id in zip((b"a", b"b", b"c"), [*resending.ids, resending.ids[0]], strict=True):
            await producer.send(answer, properties={"id": id})
        heard = [await hearing, await anext(responses), await anext(responses)]
    assert [message.data for message in heard] == [b"a", b"b", b"c"]
    assert len(set(resending.ids)) == 2


async def test_response_that_comes_after_a_call_was_sent_twice_is_not_missed(
    broker: Broker, topics: tuple[str, str]
) -> None:
    requests = await broker.consumer(topics[0], "server")
    producer = await broker.producer(topics[1])
    caller = await broker.caller(*topics)
    resending = Twice()
    async with aclosing(caller.call(b"q", resending=resending)) as responses:
        hearing = asyncio.ensure_future(anext(responses))
        assert await requests.receive()
        assert await requests.receive()
        await producer.send(b"a", properties={"id": resending.ids[1]})
        assert (await hearing).data == b"a"
    await producer.send(b"late", properties={"id": resending.ids[0]})
    async with asyncio.timeout(30):
        while not resending.too_late:
            await asyncio.sleep(0.01)
    assert resending.too_late == [b"late"]


@pytest.mark.parametrize(("timeout", "patience"), [(0.2, 60.0), (60.0, 0.2)])
async def test_call_that_was_sent_again_times_out(
    broker: Broker, topics: tuple[str, str], timeout: float, patience: float
) -> None:
    caller = await broker.caller(*topics)
    requests = await broker.consumer(topics[0], "server")
    with pytest.raises(CallTimeout, match=f"in {timeout:g} s"):
        async for _ in caller.call(b"q", timeout=timeout, resending=Twice(patience=patience)):
            pass
    assert await requests.receive()
    assert await requests.receive()


async def test_closing_a_caller_ends_its_calls(broker: Broker, topics: tuple[str, str]) -> None:
    caller = await broker.caller(*topics)
    calling = asyncio.create_task(ask(caller, b"q"))
    await asyncio.sleep(0.2)
    await caller.close()
    await caller.close()
    with pytest.raises(BrokerClosed):
        await asyncio.wait_for(calling, 10)
    with pytest.raises(BrokerClosed):
        await ask(caller, b"q")


class Broken:
    """Responses that cannot be received, for a reason that no broker should let out."""

    async def receive(self) -> Message | None:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")

    async def behind(self) -> bool:
        return False

    async def check(self) -> None:
        pass

    async def close(self) -> None:
        pass


async def test_calls_end_when_responses_can_no_longer_be_heard() -> None:
    async with await connect("embedded:") as broker:
        caller = TopicCaller(await broker.producer("request:tg:ask"), Broken(), "embedded:")
        with pytest.raises(BrokerError, match="can no longer be received"):
            await asyncio.wait_for(ask(caller, b"q"), 30)
        await caller.close()
