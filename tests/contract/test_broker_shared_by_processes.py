"""Several processes on one file, or on one Pulsar: they wake each other, and survive each other's deaths."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeVar

import pytest

from trustgraph_prompt.broker import Broker, Consumer, Producer, Reader, connect
from trustgraph_prompt.broker.embedded import store_connection, transactions
from trustgraph_prompt.errors import BrokerClosed, BrokerUnavailable, SubscriptionBusy

Process = asyncio.subprocess.Process
Start = Callable[..., Awaitable[Process]]
T = TypeVar("T")

#: Another process: runs the given lines as the body of a coroutine that has `broker` and `topic`.
PROGRAM = """
import asyncio, sys
from trustgraph_prompt.broker import connect

async def main(url, topic):
    async with await connect(url) as broker:
        {body}

asyncio.run(main(*sys.argv[1:]))
"""

HOLD = """
consumer = await broker.consumer(topic, "s", type="{type}")
message = await consumer.receive()
print(message.data.decode(), flush=True)
await asyncio.sleep(600)
"""

#: Nobody looks for news by himself: a message is heard of by being woken, or never.
ECHO = """
from trustgraph_prompt.broker.embedded import store_connection
store_connection._PATROL_SECONDS = 3600.0
consumer = await broker.consumer(topic, "echo")
producer = await broker.producer(topic + "-echo")
print("ready", flush=True)
while message := await consumer.receive():
    await producer.send(message.data)
    await consumer.acknowledge(message)
"""

#: Every process opens the same new file at the same moment, again and again.
OPEN_NEW = """
import time
for _ in range(15):
    await asyncio.sleep(0.2 - time.time() % 0.2)
    await (await connect(f"embedded:{topic}-{time.time() / 0.2:.0f}.db")).close()
"""

#: For longer than a process waits before it looks for the dead, it has no file descriptor left.
SHORT_OF_FILES = """
import resource
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
consumer = await broker.consumer(topic, "s")
resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
await asyncio.sleep(2.5)
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
print("well again", flush=True)
message = await consumer.receive()
print(message.data.decode(), flush=True)
"""

SEND = """
producer = await broker.producer(topic)
number = 0
while True:
    await producer.send(str(number).encode())
    print(number, flush=True)
    number += 1
"""


@pytest.fixture(params=["persistent", "non-persistent"])
def any_topic(request: pytest.FixtureRequest, namespace: str) -> str:
    return f"{request.param}://{namespace}/between"


@pytest.fixture
def topic(namespace: str) -> str:
    return f"persistent://{namespace}/between"


@pytest.fixture
async def start(broker_url: str) -> AsyncIterator[Start]:
    """Start another process with a body for `PROGRAM`."""
    processes: list[Process] = []

    async def run(body: str, topic: str) -> Process:
        program = PROGRAM.format(body=body.strip().replace("\n", "\n        "))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, broker_url, topic, stdout=asyncio.subprocess.PIPE
        )
        processes.append(process)
        return process

    yield run
    for process in processes:
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def said(process: Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().strip()


async def test_processes_wake_each_other(
    broker: Broker, any_topic: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_connection, "_PATROL_SECONDS", 3600.0)
    echoed = await broker.consumer(f"{any_topic}-echo", "s")
    echo = await start(ECHO, any_topic)
    assert await said(echo) == "ready"
    producer = await broker.producer(any_topic)
    for number in range(30):
        await producer.send(b"%d" % number)
        message = await asyncio.wait_for(echoed.receive(), 60)
        assert message is not None
        assert message.data == b"%d" % number
        await echoed.acknowledge(message)


@pytest.mark.parametrize("type", ["shared", "exclusive"])
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
async def test_message_held_by_a_dead_process_comes_again(
    broker: Broker, topic: str, start: Start, type: str, end: signal.Signals
) -> None:
    producer = await broker.producer(topic)
    await producer.send(b"held")
    holder = await start(HOLD.format(type=type), topic)
    assert await said(holder) == "held"
    if type == "exclusive":
        with pytest.raises(SubscriptionBusy):
            await broker.consumer(topic, "s")
    holder.send_signal(end)
    await holder.wait()
    async with asyncio.timeout(60):
        while True:
            try:
                consumer = await broker.consumer(topic, "s")
                break
            except SubscriptionBusy:
                await asyncio.sleep(0.05)
        message = await consumer.receive()
    assert message is not None
    assert message.data == b"held"


async def test_waiting_consumer_is_given_the_message_of_a_dead_process(
    broker: Broker, topic: str, start: Start
) -> None:
    producer = await broker.producer(topic)
    await producer.send(b"held")
    holder = await start(HOLD.format(type="shared"), topic)
    assert await said(holder) == "held"
    consumer = await broker.consumer(topic, "s")
    waiting = asyncio.create_task(consumer.receive())
    await asyncio.sleep(0.2)
    assert not waiting.done()
    holder.kill()
    message = await asyncio.wait_for(waiting, 10)
    assert message is not None
    assert message.data == b"held"


async def test_confirmed_messages_survive_their_sender(broker: Broker, topic: str, start: Start) -> None:
    consumer = await broker.consumer(topic, "s")
    sender = await start(SEND, topic)
    confirmed = [int(await said(sender)) for _ in range(50)]
    sender.kill()
    rest, _ = await sender.communicate()
    confirmed += [int(number) for number in rest.split(b"\n")[:-1]]
    arrived: list[int] = []
    while len(arrived) <= confirmed[-1]:
        message = await consumer.receive()
        assert message is not None
        await consumer.acknowledge(message)
        arrived.append(int(message.data))
    assert arrived == list(range(len(arrived)))


async def test_closing_a_connection_gives_back_what_it_held(
    broker: Broker, broker_url: str, topic: str
) -> None:
    async with await connect(broker_url) as leaving:
        consumer = await leaving.consumer(topic, "s")
        await (await leaving.producer(topic)).send(b"held")
        assert await consumer.receive() is not None
        successor = await broker.consumer(topic, "s")
    message = await successor.receive()
    assert message is not None
    assert message.data == b"held"


class TestOneFile:
    """What concerns the file alone."""

    @pytest.fixture
    def broker_kind(self) -> str:
        return "file"

    async def test_messages_survive_the_process(self, broker_url: str, topic: str) -> None:
        async with await connect(broker_url) as broker:
            await (await broker.producer(topic)).send(b"kept", key="k", properties={"a": "b"})
        async with await connect(broker_url) as broker:
            message = await (await broker.consumer(topic, "s")).receive()
        assert message is not None
        assert (message.data, message.key, message.properties) == (b"kept", "k", {"a": "b"})

    async def test_a_process_that_starts_again_has_its_exclusive_place_at_once(
        self, broker_url: str, topic: str, start: Start
    ) -> None:
        async with await connect(broker_url) as broker:
            await (await broker.producer(topic)).send(b"held")
        holder = await start(HOLD.format(type="exclusive"), topic)
        await said(holder)
        holder.kill()
        await holder.wait()
        async with await connect(broker_url) as broker:
            message = await (await broker.consumer(topic, "s", type="exclusive")).receive()
        assert message is not None
        assert message.data == b"held"

    async def test_work_that_is_done_leaves_the_file(
        self, broker_url: str, topic: str, tmp_path: Path
    ) -> None:
        async with await connect(broker_url) as broker:
            producer, consumer = await broker.producer(topic), await broker.consumer(topic, "s")
            await pass_three_megabytes(producer, consumer)
        assert (tmp_path / "broker.db").stat().st_size < 500_000
        assert left_behind(tmp_path) == []

    async def test_topic_without_a_subscription_keeps_its_messages(self, broker_url: str, topic: str) -> None:
        for number in range(3):
            async with await connect(broker_url) as broker:
                await (await broker.producer(topic)).send(b"%d" % number)
                await (await broker.reader(topic)).receive()
        async with await connect(broker_url) as broker:
            consumer = await broker.consumer(topic, "s")
            assert [m.data for _ in range(3) if (m := await consumer.receive())] == [b"0", b"1", b"2"]

    async def test_cancelled_opening_of_a_reader_keeps_no_message_from_being_deleted(
        self, broker_url: str, topic: str, tmp_path: Path
    ) -> None:
        async with await connect(broker_url) as broker:
            producer, consumer = await broker.producer(topic), await broker.consumer(topic, "s")
            for opening in (broker.reader(topic), broker.reader(topic, start="latest")):
                task = asyncio.create_task(opening)
                await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait({task})
            await pass_three_megabytes(producer, consumer)
        assert (tmp_path / "broker.db").stat().st_size < 500_000

    async def test_processes_whose_sockets_somebody_has_removed_find_back_to_each_other(
        self, broker_url: str, topic: str, tmp_path: Path
    ) -> None:
        async with await connect(broker_url) as one, await connect(broker_url) as two:
            opened: list[Consumer | Reader] = [await one.consumer(topic, "s"), await two.reader(topic)]
            waiting = [asyncio.create_task(source.receive()) for source in opened]
            shutil.rmtree(tmp_path / "broker.db-peers")
            for lost in waiting:
                with pytest.raises(BrokerClosed):
                    await asyncio.wait_for(lost, 30)
            async with asyncio.timeout(30):
                consumer = await patient(lambda: one.consumer(topic, "s"))
                await patient(lambda: two.reader(topic))
            await (await two.producer(topic)).send(b"x")
            message = await asyncio.wait_for(consumer.receive(), 30)
            assert message is not None
            assert message.data == b"x"
            assert len(left_behind(tmp_path)) == 2
        assert left_behind(tmp_path) == []

    async def test_a_table_that_is_opened_again_and_again_stays_small(
        self, broker_url: str, topic: str, tmp_path: Path
    ) -> None:
        for turn in range(20):
            async with await connect(broker_url) as broker:
                producer = await broker.producer(topic)
                for number in range(10):
                    await producer.send(b"%d" % turn * 5000, key=str(number))
                assert len((await broker.table(topic)).entries) == 10
        assert (tmp_path / "broker.db").stat().st_size < 800_000

    async def test_a_file_has_one_name_whatever_links_lead_to_it(self, tmp_path: Path, topic: str) -> None:
        (tmp_path / "link.db").symlink_to(tmp_path / "broker.db")
        async with (
            await connect(f"embedded:{tmp_path}/broker.db") as one,
            await connect(f"embedded:{tmp_path}/link.db") as two,
        ):
            consumer = await one.consumer(topic, "s", type="exclusive")
            with pytest.raises(SubscriptionBusy):
                await two.consumer(topic, "s", type="exclusive")
            await (await two.producer(topic)).send(b"x")
            assert await asyncio.wait_for(consumer.receive(), 30) is not None

    async def test_many_processes_may_open_a_new_file_at_once(self, start: Start, tmp_path: Path) -> None:
        processes = [await start(OPEN_NEW, str(tmp_path / "new")) for _ in range(6)]
        assert [await process.wait() for process in processes] == [0] * 6

    async def test_dead_processes_are_found_after_a_time_without_file_descriptors(
        self, start: Start, broker_url: str, broker: Broker, topic: str
    ) -> None:
        await (await broker.producer(topic)).send(b"x")
        holder = await start(HOLD.format(type="shared"), topic)
        assert await said(holder) == "x"
        survivor = await start(SHORT_OF_FILES, topic)
        assert await said(survivor) == "well again"
        await broker.close()  # this process would find the dead too
        holder.kill()
        assert await asyncio.wait_for(said(survivor), 30) == "x"

    async def test_cancelled_and_repeated_close_frees_an_exclusive_subscription(
        self, broker_url: str, broker: Broker, topic: str
    ) -> None:
        other = await connect(broker_url)
        await other.consumer(topic, "s", type="exclusive")
        cancelled = asyncio.create_task(other.close())
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        await other.close()
        await broker.consumer(topic, "s", type="exclusive")

    async def test_a_close_that_failed_can_be_repeated(
        self, broker_url: str, topic: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(transactions, "BUSY_SECONDS", 0.2)
        async with await connect(broker_url) as broker:
            only = await broker.consumer(topic, "s", type="exclusive")
            volatile = f"non-{topic}"
            stopped = await broker.consumer(volatile, "s", type="exclusive")
            with closing(sqlite3.connect(broker_url.partition(":")[2], isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                with pytest.raises(BrokerUnavailable):
                    await only.close()
                with pytest.raises(BrokerUnavailable):
                    await stopped.stop()
                other.execute("COMMIT")
            await only.close()
            await stopped.stop()
            await broker.consumer(topic, "s", type="exclusive")
            await broker.consumer(volatile, "s", type="exclusive")

    async def test_opening_a_table_keeps_messages_for_later_subscriptions(
        self, broker: Broker, topic: str
    ) -> None:
        await (await broker.producer(topic)).send(b"work")
        await (await broker.table(topic)).close()
        consumer = await broker.consumer(topic, "s")
        message = await asyncio.wait_for(consumer.receive(), 30)
        assert message is not None
        assert message.data == b"work"

    async def test_a_path_longer_than_a_socket_allows_works(self, tmp_path: Path, topic: str) -> None:
        deep = tmp_path / ("d" * 120)
        deep.mkdir()
        async with (
            await connect(f"embedded:{deep}/b.db") as one,
            await connect(f"embedded:{deep}/b.db") as two,
        ):
            consumer = await two.consumer(topic, "s")
            waiting = asyncio.create_task(consumer.receive())
            await (await one.producer(topic)).send(b"x")
            assert await waiting is not None
        assert left_behind(deep) == []

    async def test_a_file_locked_by_another_program_is_waited_for(
        self, broker_url: str, broker: Broker, topic: str
    ) -> None:
        producer = await broker.producer(topic)
        with sqlite3.connect(broker_url.partition(":")[2], isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")
            sending = asyncio.create_task(producer.send(b"x"))
            await asyncio.sleep(0.5)
            assert not sending.done()
            other.execute("COMMIT")
            await sending
        other.close()


async def patient(connecting: Callable[[], Awaitable[T]]) -> T:
    """What is opened, however often it must be tried."""
    while True:
        try:
            return await connecting()
        except BrokerUnavailable:
            await asyncio.sleep(0.05)


async def pass_three_megabytes(producer: Producer, consumer: Consumer) -> None:
    for _ in range(300):
        await producer.send(b"x" * 10_000)
        message = await consumer.receive()
        assert message is not None
        await consumer.acknowledge(message)


def left_behind(directory: Path) -> list[str]:
    return [path.name for path in directory.glob("*-peers/*")]


async def test_locked_database_error_names_the_process_that_holds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "BUSY_SECONDS", 0.2)
    path = tmp_path / "broker.db"
    frozen = "import sqlite3, sys; d = sqlite3.connect(sys.argv[1], isolation_level=None); "
    frozen += "d.execute('BEGIN IMMEDIATE'); print('holds', flush=True); sys.stdin.read()"
    async with await connect(f"embedded:{path}") as broker:
        producer = await broker.producer("flow:tg:x")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", frozen, str(path)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert process.stdout is not None
            assert await process.stdout.readline() == b"holds\n"
            with pytest.raises(BrokerUnavailable, match="database is locked by ") as refusal:
                await producer.send(b"x")
            told = f"process {process.pid} (" if sys.platform == "linux" else "another process"
            assert told in str(refusal.value)
        finally:
            process.kill()
            await process.communicate()
        await producer.send(b"x")
