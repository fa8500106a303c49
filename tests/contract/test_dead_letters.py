"""Dead letters over all brokers: looked through without taking, and put back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import replace

import pytest

from tests.support.brokers import every_broker
from tests.support.pulsar_server import PulsarServer
from tests.support.workers import House
from trustgraph_prompt.broker import Broker, Consumer, Message, connect
from trustgraph_prompt.broker.topics import dead_letter_topic
from trustgraph_prompt.cost import Budget
from trustgraph_prompt.errors import BrokerUnavailable, ProviderAuthentication, SubscriptionBusy
from trustgraph_prompt.llm import Call, ScriptedAnswer
from trustgraph_prompt.wire import PromptRequest
from trustgraph_prompt.worker.dead_letters.browse_and_replay import (
    DeadLetterFilter,
    browse_topic,
    discard,
    replay,
)
from trustgraph_prompt.worker.dead_letters.letters import DeadLetter, LetterSource

broker_kind = every_broker

SUBSCRIPTION = "readers"


@pytest.fixture
def place(house: House) -> LetterSource:
    return LetterSource(house.topic("requests"), SUBSCRIPTION)


async def bury(broker: Broker, place: LetterSource, payloads: Iterable[bytes], **why: str) -> None:
    """Messages that nobody could serve."""
    consumer = await broker.consumer(place.topic, place.subscription)
    producer = await broker.producer(place.topic)
    for payload in payloads:
        await producer.send(payload, properties={"id": f"r-{payload.decode()}"}, key="k")
        await consumer.bury(await received(consumer), "because", {"error": "bad", "flow": "f", **why})
    await producer.close()
    await consumer.close()


async def received(consumer: Consumer) -> Message:
    async with asyncio.timeout(60):
        message = await consumer.receive()
    assert message is not None
    return message


async def seen(broker: Broker, *places: LetterSource, **choice: object) -> list[DeadLetter]:
    async with asyncio.timeout(90):
        chosen = DeadLetterFilter(**choice)  # type: ignore[arg-type]
        return [
            DeadLetter(place, letter.message)
            for place in places
            async for letter in browse_topic(broker, place.dead_letter_topic, chosen)
        ]


async def replayed(broker: Broker, *places: LetterSource, **choice: object) -> list[tuple[bytes, str | None]]:
    async with asyncio.timeout(90):
        chosen = DeadLetterFilter(**choice)  # type: ignore[arg-type]
        return [(letter.message.data, why) async for letter, why in replay(broker, places, chosen)]


def payloads(letters: list[DeadLetter]) -> list[bytes]:
    return [letter.message.data for letter in letters]


async def test_browsing_takes_no_letter_and_shows_the_oldest_first(
    broker: Broker, place: LetterSource
) -> None:
    assert await seen(broker, place) == []
    await bury(broker, place, [b"1", b"2", b"3"], prompt="define")

    for _ in range(2):
        letters = await seen(broker, place)
        assert payloads(letters) == [b"1", b"2", b"3"]
    [first, *_] = letters
    assert (first.request, first.flow, first.prompt, first.error, first.reason) == (
        *("r-1", "f", "define", "bad", "because"),
    )
    assert (first.size, first.truncated, first.message.deliveries, first.message.topic) == (
        1,
        False,
        1,
        place.topic,
    )


async def test_a_replayed_letter_is_as_it_was_and_counted_anew(broker: Broker, place: LetterSource) -> None:
    await bury(broker, place, [b"1"], prompt="define")
    [letter] = await seen(broker, place)

    assert await replayed(broker, place) == [(b"1", None)]

    consumer = await broker.consumer(place.topic, place.subscription)
    message = await received(consumer)
    assert replace(message, published=0) == Message(b"1", place.topic, letter.id, {"id": "r-1"}, "k")
    assert message.published >= letter.message.published
    await consumer.acknowledge(message)
    await consumer.close()
    assert await seen(broker, place) == []


async def test_a_letter_that_dies_again_has_the_same_id(broker: Broker, place: LetterSource) -> None:
    await bury(broker, place, [b"1"])
    [letter] = await seen(broker, place)
    await replayed(broker, place)
    consumer = await broker.consumer(place.topic, place.subscription)
    await consumer.bury(await received(consumer), "still")
    await consumer.close()

    [again] = await seen(broker, place)
    assert (again.id, again.reason, again.message.deliveries) == (letter.id, "still", 1)


async def test_letters_that_are_not_chosen_stay_in_their_order(broker: Broker, place: LetterSource) -> None:
    await bury(broker, place, [b"1", b"2"], prompt="define")
    await bury(broker, place, [b"3"], prompt="define", error="worse")
    await bury(broker, place, [b"4", b"5"])
    [second] = [letter.id for letter in await seen(broker, place) if letter.message.data == b"2"]

    assert payloads(await seen(broker, place, prompt="define", error="bad")) == [b"1", b"2"]
    assert await replayed(broker, place, ids=frozenset([second, "r-4", "nobody"])) == [
        (b"2", None),
        (b"4", None),
    ]
    assert payloads(await seen(broker, place)) == [b"1", b"3", b"5"]
    assert await replayed(broker, place, prompt="define", error="worse") == [(b"3", None)]
    assert payloads(await seen(broker, place)) == [b"1", b"5"]


async def test_a_discarded_letter_is_gone_and_the_others_stay(broker: Broker, place: LetterSource) -> None:
    await bury(broker, place, [b"1", b"2", b"3"])

    assert await discard(broker, [place], DeadLetterFilter(frozenset(["r-2", "nobody"]))) == 1

    assert payloads(await seen(broker, place)) == [b"1", b"3"]
    assert await discard(broker, [place], DeadLetterFilter(frozenset(["r-2"]))) == 0


async def test_a_replayed_request_has_the_terms_that_are_given(broker: Broker, place: LetterSource) -> None:
    mistyped = json.loads(PromptRequest.asking("define", {"txt": "chalk", "n": 3}).encode()) | {"more": 1}
    await bury(broker, place, [json.dumps(mistyped).encode(), b'{"chunk": "a text"}', b"no json"])
    terms = {"text": "chalk", "n": [4]}

    async with asyncio.timeout(90):
        done = [why async for _, why in replay(broker, [place], terms=terms)]

    assert done[0] is None
    assert done[1] == "it is no prompt request, so it has no terms"
    assert (done[2] or "").startswith("PromptRequest is not JSON")
    consumer = await broker.consumer(place.topic, place.subscription)
    again = json.loads((await received(consumer)).data)
    assert again["terms"] == {"txt": '"chalk"', "text": '"chalk"', "n": "[4]"}
    assert (again["id"], again["more"]) == ("define", 1)
    await consumer.close()
    assert payloads(await seen(broker, place)) == [b'{"chunk": "a text"}', b"no json"]


async def test_only_the_subscription_it_died_in_gets_a_letter_again(
    broker: Broker, place: LetterSource
) -> None:
    other = await broker.consumer(place.topic, "others")
    await bury(broker, place, [b"1"])
    await other.acknowledge(await received(other))

    await replayed(broker, place)
    producer = await broker.producer(place.topic)
    await producer.send(b"2")

    assert (await received(other)).data == b"2"


async def test_letters_name_the_subscription_that_they_are_from(broker: Broker, place: LetterSource) -> None:
    other = LetterSource(place.topic, "others")
    for each in (place, other):
        (await (await broker.consumer(each.topic, each.subscription)).close())
    await bury(broker, place, [b"1"])
    await bury(broker, other, [])
    others = await broker.consumer(other.topic, other.subscription)
    await others.bury(await received(others), "theirs")
    await others.close()

    letters = await seen(broker, place, other)
    assert [(letter.source, letter.reason) for letter in letters] == [(place, "because"), (other, "theirs")]


async def test_truncated_letter_is_not_replayed_and_the_reason_is_given(
    broker: Broker, place: LetterSource
) -> None:
    await bury(broker, place, [b"head"], bytes="5000000", sha256="abc")
    await bury(broker, place, [b"whole"], bytes="5000000")

    [(cut, why), (whole, no_reason)] = await replayed(broker, place)
    assert (cut, why) == (b"head", "only 4 of its 5,000,000 bytes were kept")
    assert (whole, no_reason) == (b"whole", None)
    [letter] = await seen(broker, place)
    assert (letter.truncated, letter.size) == (True, 5_000_000)


async def test_second_replay_is_refused_and_burying_goes_on_meanwhile(
    broker: Broker, place: LetterSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trustgraph_prompt.worker.dead_letters.browse_and_replay.SECONDS_TO_WAIT", 0.2)
    await bury(broker, place, [b"1", b"2"])
    async with aclosing(browse_topic(broker, place.dead_letter_topic)) as letters:
        assert (await anext(letters)).message.data == b"1"
        with pytest.raises(SubscriptionBusy, match="another client is reading or replaying"):
            await replayed(broker, place)
        await bury(broker, place, [b"3"])
        rest = [letter.message.data async for letter in letters]
    assert rest == [b"2"], "what comes meanwhile is for the next time, or there may be no end"
    monkeypatch.undo()
    assert payloads(await seen(broker, place)) == [b"1", b"2", b"3"]


async def test_two_readers_at_once_wait_for_each_other(broker: Broker, place: LetterSource) -> None:
    await bury(broker, place, [b"1", b"2"])

    both = await asyncio.gather(seen(broker, place), seen(broker, place))

    assert [payloads(letters) for letters in both] == [[b"1", b"2"]] * 2


class Failing:
    """A broker whose producers fail from some message on."""

    def __init__(self, broker: Broker, good: int) -> None:
        self._broker = broker
        self._left = good

    def __getattr__(self, name: str) -> object:
        return getattr(self._broker, name)

    async def producer(self, topic: str, *, batch: bool = False) -> object:
        producer = await self._broker.producer(topic, batch=batch)
        if topic.endswith("-RETRY"):
            send = producer.send

            async def failing(*args: object, **options: object) -> str:
                self._left -= 1
                if self._left < 0:
                    raise BrokerUnavailable("gone")
                return await send(*args, **options)  # type: ignore[arg-type]

            producer.send = failing  # type: ignore[method-assign]
        return producer


async def test_letters_that_could_not_be_replayed_are_still_there(
    broker: Broker, place: LetterSource
) -> None:
    await bury(broker, place, [b"1", b"2", b"3"])

    with pytest.raises(BrokerUnavailable):
        await replayed(Failing(broker, 1), place)  # type: ignore[arg-type]

    left = payloads(await seen(broker, place))
    assert left[-2:] == [b"2", b"3"]
    assert await replayed(broker, place) == [(payload, None) for payload in left]


async def test_end_mark_of_a_killed_reader_is_no_letter(broker: Broker, place: LetterSource) -> None:
    await bury(broker, place, [b"1"])
    producer = await broker.producer(dead_letter_topic(place.topic, place.subscription))
    await producer.send(b"", key="trustgraph-prompt/end", properties={"mark": "of one who was killed"})
    await bury(broker, place, [b"2"])

    assert payloads(await seen(broker, place)) == [b"1", b"2"]
    assert await replayed(broker, place) == [(b"1", None), (b"2", None)]


async def test_replay_on_a_non_persistent_topic_reaches_the_consumer_that_is_there(
    broker: Broker, house: House
) -> None:
    place = LetterSource(f"{house.volatile_prefix}/requests", SUBSCRIPTION)
    await bury(broker, place, [b"1"])
    consumer = await broker.consumer(place.topic, place.subscription)

    assert await replayed(broker, place) == [(b"1", None)]

    message = await received(consumer)
    assert (message.data, message.key, dict(message.properties)) == (b"1", "k", {"id": "r-1"})
    assert await seen(broker, place) == []


async def test_letters_of_a_non_persistent_topic_stay_while_it_has_no_consumer(
    broker: Broker, house: House
) -> None:
    place = LetterSource(f"{house.volatile_prefix}/requests", SUBSCRIPTION)
    await bury(broker, place, [b"1", b"2"])
    other = await broker.consumer(place.topic, "others")

    durable = LetterSource(house.topic("others"), SUBSCRIPTION)
    await bury(broker, durable, [b"3"])
    done: list[bytes] = []

    async def replay_both() -> None:
        async for letter, _ in replay(broker, [place, durable]):
            done.append(letter.message.data)

    told = f"subscription {SUBSCRIPTION} has no consumer.* 2 dead letters not replayed"
    with pytest.raises(BrokerUnavailable, match=told):
        await asyncio.wait_for(replay_both(), 90)

    assert done == [b"3"]
    assert payloads(await seen(broker, place, durable)) == [b"1", b"2"]
    await other.close()


async def test_dead_letter_that_its_reader_retried_is_still_a_dead_letter(
    broker: Broker, place: LetterSource
) -> None:
    await bury(broker, place, [b"1"])
    dead = await broker.consumer(dead_letter_topic(place.topic, place.subscription), "dead")
    await dead.retry(await received(dead), after=0)
    assert (await received(dead)).data == b"1"
    await dead.close()

    [letter] = await seen(broker, place)
    assert (letter.reason, letter.request, letter.error) == ("because", "r-1", "bad")


@pytest.mark.pulsar
async def test_browse_and_replay_need_no_other_topic_than_the_prepared_ones(
    pulsar: PulsarServer, pulsar_space: str
) -> None:
    namespace = f"{pulsar_space}/prepared"
    pulsar.put(f"namespaces/{namespace}", {"autoTopicCreationOverride": {"allowAutoTopicCreation": False}})
    place = LetterSource(f"persistent://{namespace}/requests", SUBSCRIPTION)
    for name in ("requests", f"requests-{SUBSCRIPTION}-RETRY", f"requests-{SUBSCRIPTION}-DLQ"):
        pulsar.put(f"persistent/{namespace}/{name}")
    async with await connect(pulsar.url) as broker:
        await bury(broker, place, [b"1"])
        assert payloads(await seen(broker, place)) == [b"1"]
        assert await replayed(broker, place) == [(b"1", None)]


async def test_replayed_request_is_answered_once_the_model_accepts_the_key(house: House) -> None:
    flow = house.flow(budget=Budget(seconds=30))
    responses = await house.hear(house.topic("responses"))
    key = "wrong"

    def model(call: Call) -> str | ScriptedAnswer:
        return "hi" if key == "right" else ScriptedAnswer(error=ProviderAuthentication("who are you?"))

    await house.work(flow, model)
    id = await house.send(flow, "say", text="chalk")
    [refused] = await responses.under(id)
    assert refused["error"]
    async with asyncio.timeout(60):
        while not (letters := await seen(house.broker, LetterSource.of(flow))):
            await asyncio.sleep(0.05)
    [letter] = letters
    assert (letter.request, letter.prompt, letter.error, letter.flow) == (id, "say", "llm-error", "f")
    assert letter.content() == {"id": "say", "terms": {"text": "chalk"}, "streaming": False}
    assert letter.died is not None
    assert letter.died >= letter.message.published - 1

    key = "right"
    assert len(await replayed(house.broker, LetterSource.of(flow))) == 1

    await responses.until(2)
    answer = json.loads(responses.messages[-1].data)
    assert (answer["error"], answer["text"]) == (None, "hi")
    assert await seen(house.broker, LetterSource.of(flow)) == []


async def test_more_letters_than_one_batch_are_all_replayed(broker: Broker, place: LetterSource) -> None:
    consumer = await broker.consumer(place.topic, place.subscription)
    producer = await broker.producer(place.topic)
    for number in range(100):
        await producer.send(str(number).encode())
    for number in range(100):
        kind = "odd" if number % 2 else "even"
        await consumer.bury(await received(consumer), "because", {"error": kind})

    assert len(await replayed(broker, place, error="odd")) == 50

    again = sorted([int((await received(consumer)).data) for _ in range(50)])
    assert again == list(range(1, 100, 2))
    assert len(await seen(broker, place)) == 50


def test_content_of_a_letter_is_shown_as_far_as_it_can_be_read() -> None:
    def content(data: bytes, **properties: str) -> object:
        return DeadLetter(LetterSource("t", "s"), Message(data, "t", "1", properties)).content()

    assert content(b'{"id": "p", "terms": {"a": "[1]", "b": "no json", "c": 2}}') == {
        "id": "p",
        "terms": {"a": [1], "b": "no json", "c": 2},
    }
    assert content(b'{"terms": [1]}') == {"terms": [1]}
    assert content(b"{no json") == "{no json"
    assert content(b"\xff\xfe") is None
    assert content("{é".encode()[:-1], bytes="100", sha256="a") == "{"
    for size in ("1" * 5000, "many", "²"):
        assert (
            DeadLetter(LetterSource("t", "s"), Message(b"x", "t", "1", {"bytes": size, "sha256": "a"})).size
            == 1
        )
