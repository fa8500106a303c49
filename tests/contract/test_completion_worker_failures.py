"""The completion worker when something fails in the middle, when it is stopped, and when strangers ask."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.support.workers import Heard, House, Working
from trustgraph_prompt.broker import topics
from trustgraph_prompt.broker.caller import CallerPool
from trustgraph_prompt.cost import Budget, Usage
from trustgraph_prompt.errors import ProviderAuthentication
from trustgraph_prompt.llm import Call, Delta, Provider, ScriptedAnswer, ScriptedProvider, TopicProvider
from trustgraph_prompt.llm.complete import Completer
from trustgraph_prompt.llm.records import Identity
from trustgraph_prompt.worker import Flow
from trustgraph_prompt.worker.flow import Input, Outputs
from trustgraph_prompt.worker.telemetry.metrics import MAX_MODELS

STREAMED = '{"prompt": "p", "streaming": true}'
LIMIT = 5_000_000


@pytest.fixture
def broker_kind() -> str:
    """The broker's own behaviour is the matter of other tests."""
    return "memory"


@pytest.fixture(params=["persistent", "non-persistent"])
def persistent(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "persistent")


def completions(house: House, *, persistent: bool = True, **changes: Any) -> Flow:
    topic = house.topic("asked") if persistent else f"{house.volatile_prefix}/asked"
    return house.flow(
        input=Input(topic, "text-completion--default--f--request", kind="text-completion"),
        outputs=Outputs(response=house.topic("answered")),
        **changes,
    )


async def ask(house: House, flow: Flow, heard: Heard, request: str, id: str = "r") -> list[dict[str, Any]]:
    await house.put(flow.input.topic, request.encode(), {"id": id})
    return await heard.under(id)


class Model(Completer):
    """A model that says what a test wants, counting."""

    prefill = False
    identity = Identity("model")

    def __init__(self, text: str = "half ") -> None:
        self.calls = 0
        self.text = text

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        self.calls += 1
        yield Delta(self.text)
        await self.then()
        yield Delta("whole", finish_reason="stop")

    async def then(self) -> None: ...

    async def close(self) -> None: ...


class Faulty(Model):
    async def then(self) -> None:
        raise ZeroDivisionError("a defect")


class Endless(Model):
    async def then(self) -> None:
        await asyncio.Event().wait()


async def test_an_answer_that_a_defect_breaks_ends_with_an_error_and_is_not_begun_anew(
    house: House, persistent: bool
) -> None:
    flow, model = completions(house, persistent=persistent), Faulty()
    heard = await house.hear(house.topic("answered"))
    working = await house.work(flow, model)

    responses = await ask(house, flow, heard, STREAMED)
    await working.stop()

    assert [response["response"] for response in responses] == ["half ", None]
    assert responses[-1]["error"]["type"] == "internal-error"
    assert model.calls == 1
    assert len(await heard.all()) == 2


async def test_answer_given_up_in_the_middle_is_not_begun_by_others(house: House, persistent: bool) -> None:
    flow, model = completions(house, persistent=persistent), Endless()
    heard = await house.hear(house.topic("answered"))
    working = await house.work(flow, model, drain_timeout=0.1)
    await house.put(flow.input.topic, STREAMED.encode(), {"id": "begun"})
    await heard.until(1)

    await working.stop()

    responses = await heard.under("begun")
    assert [response["response"] for response in responses] == ["half ", None]
    assert responses[-1]["error"]["type"] == "shutting-down"
    await house.work(flow, Model())
    await ask(house, flow, heard, STREAMED, "other")
    assert len(await heard.under("begun")) == 2


async def test_answer_given_up_before_its_first_piece_is_left_to_others(
    house: House,
) -> None:
    flow = completions(house)
    heard = await house.hear(house.topic("answered"))
    working = await house.work(flow, Endless(text=""), drain_timeout=0.1)
    await house.put(flow.input.topic, STREAMED.encode(), {"id": "r"})
    await in_work(working)

    await working.stop()
    await house.work(flow, Model())

    responses = await heard.under("r")
    assert "".join(response["response"] for response in responses) == "half whole"


async def in_work(working: Working) -> None:
    async with asyncio.timeout(60):
        while b'requests_in_work{flow="f"} 1.0' not in working.worker.metrics.text():
            await asyncio.sleep(0.01)


async def test_a_prompt_that_is_streamed_is_not_begun_anew_either(house: House, persistent: bool) -> None:
    flow, model = house.flow(persistent=persistent), Faulty()
    heard = await house.hear(house.topic("responses"))
    dead = await house.hear(topics.dead_letter_topic(flow.input.topic, flow.input.subscription))
    await house.work(flow, model)

    responses = await heard.under(await house.send(flow, "say", streaming=True, text="x"))

    assert [response["text"] for response in responses] == ["half ", None]
    assert responses[-1]["error"]["type"] == "internal-error"
    await dead.until(1)
    assert model.calls == 1


class Blind:
    """Metrics that cannot count an outcome."""

    def __call__(self, *args: object, **names: object) -> None:
        raise ValueError("counters can only go up")


async def test_failing_metrics_cost_no_answer_and_no_second_call(house: House, persistent: bool) -> None:
    flow, model = completions(house, persistent=persistent), Model()
    heard = await house.hear(house.topic("answered"))
    working = await house.work(flow, model)
    working.worker.metrics.asked = Blind()  # type: ignore[method-assign]

    responses = await ask(house, flow, heard, STREAMED)

    assert "".join(response["response"] for response in responses) == "half whole"
    assert model.calls == 1


async def test_invalid_token_count_is_left_out_and_the_answer_kept(house: House) -> None:
    requests, answers = f"{house.volatile_prefix}/q", f"{house.volatile_prefix}/a"
    consumer, producer = await house.broker.consumer(requests, "s"), await house.broker.producer(answers)
    asked = 0

    async def worker() -> None:
        nonlocal asked
        while message := await consumer.receive():
            asked += 1
            response = {"response": "hello", "in_token": -1, "out_token": 3, "end_of_stream": True}
            await producer.send(json.dumps(response).encode(), properties=message.properties)

    working = asyncio.create_task(worker())
    callers = CallerPool(house.broker)
    heard = await house.hear(house.topic("responses"))
    await house.work(house.flow(), TopicProvider(callers.between(requests, answers), timeout=60))

    [response] = await heard.under(await house.send(house.flow(), "say", text="x"))

    assert (response["error"], response["text"]) == (None, "hello")
    assert (response["in_token"], response["out_token"], asked) == (None, 3, 1)
    await callers.close()
    await consumer.close()
    await working


async def test_a_request_whose_sender_has_left_costs_nothing(house: House) -> None:
    flow, model = completions(house), Model()
    heard = await house.hear(house.topic("answered"))
    await house.put(flow.input.topic, b'{"prompt": "p", "direct": true, "seconds_left": 0.001}', {"id": "r"})
    await asyncio.sleep(0.01)
    await house.work(flow, model)

    [response] = await heard.under("r")

    assert "deadline passed" in response["error"]["message"]
    assert model.calls == 0


async def test_call_is_left_once_the_deadline_of_its_request_passed(house: House) -> None:
    flow, model = completions(house), Slow()
    heard = await house.hear(house.topic("answered"))
    await house.work(flow, model)

    [response] = await ask(house, flow, heard, '{"prompt": "p", "direct": true, "seconds_left": 0.2}')

    assert "deadline passed" in response["error"]["message"]
    assert model.left


class Slow(Model):
    """Never begins to answer."""

    left = False

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        try:
            await asyncio.Event().wait()
            yield Delta()
        finally:
            self.left = True


async def test_an_answer_that_has_begun_in_time_may_take_longer(house: House) -> None:
    flow = completions(house)
    heard = await house.hear(house.topic("answered"))
    model = Slowly()
    await house.work(flow, model)
    request = '{"prompt": "p", "direct": true, "streaming": true, "seconds_left": 5}'
    await house.put(flow.input.topic, request.encode(), {"id": "r"})
    await heard.until(1)

    model.go.set()

    responses = await heard.under("r")
    assert "".join(response["response"] for response in responses) == "half whole"


class Slowly(Model):
    """Waits longer than anybody has time for, and then goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()

    async def then(self) -> None:
        await self.go.wait()
        await asyncio.sleep(5)


@pytest.mark.parametrize("streaming", ["true", "false"])
async def test_piece_over_the_brokers_limit_comes_in_parts_and_a_whole_answer_not(
    house: House, streaming: str
) -> None:
    flow = completions(house, budget=Budget(characters=None))
    heard = await house.hear(house.topic("answered"))
    text = "a" * (2 * LIMIT) + "é" * 10
    await house.work(flow, lambda call: [Delta(text), Delta("b", finish_reason="stop", usage=Usage(1, 2, 3))])

    responses = await ask(house, flow, heard, f'{{"prompt": "p", "streaming": {streaming}}}')

    if streaming == "true":
        assert [response["error"] for response in responses] == [None] * len(responses)
        assert "".join(response["response"] for response in responses) == text + "b"
        assert responses[-1]["out_token"] == 2
    else:
        assert [response["error"]["type"] for response in responses] == ["too-large"]


async def test_a_streamed_prompt_over_the_brokers_limit_comes_in_parts(house: House) -> None:
    heard = await house.hear(house.topic("responses"))
    text = "a" * (2 * LIMIT)
    flow = house.flow(budget=Budget(characters=None))
    await house.work(flow, lambda call: [Delta(text, finish_reason="stop")])

    responses = await heard.under(await house.send(flow, "say", streaming=True, text="x"))

    # the record of the answer, which has the whole text, is too large for its topic
    assert "".join(response["text"] or "" for response in responses) == text
    assert responses[-1]["error"]["type"] == "too-large"


async def test_models_are_counted_separately_up_to_a_number(house: House) -> None:
    named = iter(range(10_000))
    answer = ScriptedProvider(lambda call: ScriptedAnswer("x", model=f"{next(named)}" + "y" * 1000))
    flow = completions(house, persistent=False)
    heard = await house.hear(house.topic("answered"))
    working = await house.work(flow, answer)

    for n in range(MAX_MODELS + 50):
        await ask(house, flow, heard, '{"prompt": "p"}', str(n))

    lines = [line for line in working.worker.metrics.text().split(b"\n") if b"calls_total{" in line]
    assert len(lines) == MAX_MODELS + 1
    assert any(b'model="other"' in line and line.endswith(b" 50.0") for line in lines)
    assert max(map(len, lines)) < 300


async def test_labels_of_a_request_do_not_replace_our_own(house: House) -> None:
    seen: list[Call] = []

    def model(call: Call) -> str:
        seen.append(call)
        return "x"

    flow = completions(house)
    heard = await house.hear(house.topic("answered"))
    await house.work(flow, model)

    await ask(house, flow, heard, '{"prompt": "p", "labels": {"prompt": "theirs", "call": "7", "a": "b"}}')

    assert seen[0].labels == {"prompt": "text-completion", "call": "1", "why": "first", "a": "b"}


async def test_scripted_model_behind_topics_gives_its_answers_in_turn(house: House) -> None:
    answers = [ScriptedAnswer("one"), ScriptedAnswer("two")]
    flow = completions(house)
    await house.work(flow, ScriptedProvider(answers))
    callers = CallerPool(house.broker)
    provider: Provider = TopicProvider(callers.between(flow.input.topic, house.topic("answered")), timeout=60)

    texts = []
    for _ in range(2):
        async for delta in provider.stream(Call([])):
            texts.append(delta.text)

    assert [text for text in texts if text] == ["one", "two"]
    await callers.close()


async def test_same_id_after_an_error_is_answered_anew(house: House, persistent: bool) -> None:
    flow = completions(house, persistent=persistent)
    heard = await house.hear(house.topic("answered"))
    answers = iter([ScriptedAnswer(error=ProviderAuthentication("who are you?")), ScriptedAnswer("here")])
    await house.work(flow, lambda call: next(answers))
    request = '{"prompt": "p"}'

    [refused] = await ask(house, flow, heard, request)
    await house.put(flow.input.topic, request.encode(), {"id": "r"})

    assert refused["error"]
    last = (await heard.until(2))[-1]
    assert json.loads(last.data)["response"] == "here"
