"""The completion worker at its topics, spoken to in TrustGraph's own words; over every broker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.support.workers import Heard, House, Script
from trustgraph_prompt.broker import topics
from trustgraph_prompt.cost import Budget, Usage
from trustgraph_prompt.errors import ProviderAuthentication, ProviderRateLimit, ProviderUnavailable
from trustgraph_prompt.llm import Call, Completer, Delta, ScriptedAnswer, ScriptedProvider
from trustgraph_prompt.llm.records import Identity
from trustgraph_prompt.worker import Flow
from trustgraph_prompt.worker.flow import Input, Outputs

#: As TrustGraph 2.11.1 writes it.
REQUEST = (
    '{"operation": "completion", "system": "s", "prompt": "p", "streaming": false, '
    '"response_format": null, "schema": null}'
)
STREAMED = REQUEST.replace('"streaming": false', '"streaming": true')

#: The fields of a response in TrustGraph 2.11.1.
FIELDS = ["error", "response", "in_token", "out_token", "model", "end_of_stream", "models"]


class Client:
    """Sends requests, and hears what is answered."""

    def __init__(self, house: House, flow: Flow, heard: Heard) -> None:
        self.house = house
        self.flow = flow
        self.heard = heard

    async def send(self, request: str | bytes, id: str) -> None:
        data = request.encode() if isinstance(request, str) else request
        await self.house.put(self.flow.input.topic, data, {"id": id})

    async def ask(self, request: str | bytes, id: str = "r") -> list[dict[str, Any]]:
        await self.send(request, id)
        return await self.heard.under(id)


def completions(house: House, *, persistent: bool = True, **changes: Any) -> Flow:
    topic = house.topic("requests") if persistent else f"{house.volatile_prefix}/requests"
    return house.flow(
        input=Input(topic, "text-completion--default--f--request", kind="text-completion"),
        outputs=Outputs(response=house.topic("responses")),
        **changes,
    )


@pytest.fixture(params=["persistent", "non-persistent"])
def persistent(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "persistent")


async def serve(house: House, flow: Flow, model: Script | ScriptedProvider, **options: Any) -> Client:
    heard = await house.hear(house.topic("responses"))
    await house.work(flow, model, **options)
    return Client(house, flow, heard)


async def test_a_request_of_trustgraphs_is_answered_in_its_words(house: House, persistent: bool) -> None:
    seen: list[Call] = []

    def model(call: Call) -> ScriptedAnswer:
        seen.append(call)
        return ScriptedAnswer(' <think>no</think> {"a": 1}\n', usage=Usage(7, 3, 10), model="small")

    client = await serve(house, completions(house, persistent=persistent), model)

    [response] = await client.ask(REQUEST)

    assert list(response)[:7] == FIELDS
    assert {name: response[name] for name in FIELDS} == {
        "error": None,
        "response": ' <think>no</think> {"a": 1}\n',
        "in_token": 7,
        "out_token": 3,
        "model": "small",
        "end_of_stream": True,
        "models": [],
    }
    assert response["finish_reason"] == "stop"
    assert [(message.role, message.text) for message in seen[0].messages] == [("system", "s"), ("user", "p")]
    assert not seen[0].stream


async def test_a_stream_ends_with_an_empty_piece_that_has_the_tokens(house: House, persistent: bool) -> None:
    answer = ScriptedAnswer("Hello, world.", chunk=5, usage=Usage(7, 3, 10), model="small")
    client = await serve(house, completions(house, persistent=persistent), ScriptedProvider([answer]))

    responses = await client.ask(STREAMED)

    assert [response["response"] for response in responses] == ["Hello", ", wor", "ld.", ""]
    assert [response["end_of_stream"] for response in responses] == [False, False, False, True]
    assert [response["in_token"] for response in responses] == [None, None, None, 7]
    assert responses[-1]["out_token"] == 3
    assert responses[-1]["model"] == "small"


async def test_thinking_is_not_sent_where_it_was_not_asked_for(house: House) -> None:
    answer = ScriptedAnswer("42", thinking="let me see")
    client = await serve(house, completions(house), ScriptedProvider([answer]))

    responses = await client.ask(STREAMED)

    assert [response["response"] for response in responses] == ["42", ""]
    assert not any(response["thinking"] for response in responses)


async def test_schema_goes_to_the_model_and_the_answer_is_not_validated(house: House) -> None:
    schema = {"type": "object", "properties": {"b": {"type": "integer"}, "a": {}}, "required": ["b"]}
    seen: list[Call] = []

    def model(call: Call) -> list[Delta]:
        seen.append(call)
        return [Delta("no JSON at all", schema_path="strict"), Delta(finish_reason="stop")]

    client = await serve(house, completions(house), model)

    [response] = await client.ask(
        json.dumps({"system": "", "prompt": "p", "response_format": "json", "schema": schema})
    )

    assert response["response"] == "no JSON at all"
    assert response["schema_path"] == "strict"
    assert json.dumps(seen[0].response_schema) == json.dumps(schema)
    assert [message.role for message in seen[0].messages] == ["user"]


@pytest.mark.parametrize("finish_reason", ["length", "content_filter"])
async def test_a_cut_or_refused_answer_is_an_answer_and_says_so(house: House, finish_reason: Any) -> None:
    answer = ScriptedAnswer("I can", finish_reason=finish_reason)
    client = await serve(house, completions(house), ScriptedProvider([answer]))

    [response] = await client.ask(REQUEST)

    assert (response["error"], response["response"]) == (None, "I can")
    assert response["finish_reason"] == finish_reason


@pytest.mark.parametrize("answer", [ScriptedAnswer("I can"), ScriptedAnswer(thinking="Can I?")])
async def test_truncated_answer_is_returned_and_not_continued(house: House, answer: ScriptedAnswer) -> None:
    seen: list[Call] = []

    def model(call: Call) -> ScriptedAnswer:
        seen.append(call)
        return replace(answer, finish_reason="length", usage=Usage(1, 100, 101))

    client = await serve(house, completions(house), ScriptedProvider(model, prefill=True))

    [response] = await client.ask('{"prompt": "p", "settings": {"max_tokens": 100}}')

    assert (response["response"], response["finish_reason"]) == (answer.text, "length")
    assert [call.config.max_tokens for call in seen] == [100]


async def test_an_empty_answer_is_an_empty_text(house: House) -> None:
    client = await serve(house, completions(house), lambda call: "")

    [response] = await client.ask(REQUEST)

    assert (response["error"], response["response"]) == (None, "")


async def test_an_error_has_trustgraphs_type_and_its_category_in_words(house: House) -> None:
    heard, flow = await house.hear(house.topic("responses")), completions(house)
    answer = ScriptedAnswer(error=ProviderAuthentication("the key is bad"))
    working = await house.work(flow, ScriptedProvider([answer]))
    client = Client(house, flow, heard)

    [response] = await client.ask(REQUEST)
    await client.ask(b"oops", "s")
    await working.stop()

    assert response["error"] == {
        "type": "llm-error",
        "message": "provider_authentication: the key is bad",
    }
    assert response["response"] is None
    assert response["end_of_stream"]
    dead = await house.broker.reader(topics.dead_letter_topic(flow.input.topic, flow.input.subscription))
    assert not await dead.behind(), "who asked knows, and nobody else wants the answer"
    await dead.close()


class Busy(Completer):
    """A model that is busy so many times, counting."""

    prefill = False
    identity = Identity("busy")

    def __init__(self, times: int) -> None:
        self.calls, self.times = 0, times

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        self.calls += 1
        if self.calls <= self.times:
            raise ProviderRateLimit("slow down", retry_after=0.01)
        yield Delta("Hello.", finish_reason="stop")

    async def close(self) -> None: ...


async def test_a_rate_limit_is_waited_out(house: House, persistent: bool) -> None:
    model = Busy(4)
    heard = await house.hear(house.topic("responses"))
    flow = completions(house, persistent=persistent)
    await house.work(flow, model)

    [response] = await Client(house, flow, heard).ask(REQUEST)

    assert (response["error"], response["response"]) == (None, "Hello.")
    assert model.calls == 5


async def test_endless_rate_limit_ends_in_a_too_many_requests_error(house: House) -> None:
    heard = await house.hear(house.topic("responses"))
    flow = completions(house, deliveries=2)
    await house.work(flow, Busy(1000))

    [response] = await Client(house, flow, heard).ask(REQUEST)

    assert response["error"] == {"type": "too-many-requests", "message": "slow down"}


async def test_a_direct_request_is_one_call(house: House, persistent: bool) -> None:
    model = Busy(1000)
    heard = await house.hear(house.topic("responses"))
    flow = completions(house, persistent=persistent)
    await house.work(flow, model)

    [response] = await Client(house, flow, heard).ask('{"prompt": "p", "direct": true}')

    assert response["error"]["type"] == "too-many-requests"
    assert response["retry_after"] == 0.01
    assert model.calls == 1


async def test_broken_stream_ends_with_an_error_and_is_not_begun_anew(house: House, persistent: bool) -> None:
    calls: list[Call] = []

    def model(call: Call) -> Iterator[Delta]:
        calls.append(call)
        yield Delta("Hello, wor")
        raise ProviderUnavailable("gone")

    client = await serve(house, completions(house, persistent=persistent), model)

    responses = await client.ask(STREAMED)

    assert [response["response"] for response in responses] == ["Hello, wor", None]
    assert responses[-1]["error"]["message"] == "provider_unavailable: gone"
    assert len(calls) == 1


async def test_answer_that_breaks_before_any_of_it_was_sent_is_asked_for_again(house: House) -> None:
    answers = iter(
        [ScriptedAnswer("Hello, wor", error=ProviderUnavailable("gone")), ScriptedAnswer("Hello.")]
    )
    client = await serve(house, completions(house), lambda call: next(answers))

    [response] = await client.ask(REQUEST)

    assert (response["error"], response["response"]) == (None, "Hello.")


async def test_a_request_that_waited_too_long_costs_nothing(house: House) -> None:
    calls: list[Call] = []

    def model(call: Call) -> str:
        calls.append(call)
        return "Hello."

    flow = completions(house, budget=Budget(seconds=0.001))
    heard = await house.hear(house.topic("responses"))
    client = Client(house, flow, heard)
    await client.send(REQUEST, "r")
    await house.work(flow, model)

    [response] = await heard.under("r")

    assert response["error"]["type"] == "llm-error"
    assert "budget" in response["error"]["message"]
    assert not calls


async def test_the_flow_says_the_temperature_where_the_request_does_not(house: House) -> None:
    seen: list[Call] = []

    def model(call: Call) -> str:
        seen.append(call)
        return "ok"

    client = await serve(house, completions(house, temperature=0.5), model)
    await client.ask(REQUEST)
    await client.ask('{"prompt": "p", "settings": {"temperature": 0, "stop_sequences": ["x"]}}', "s")

    assert [call.config.temperature for call in seen] == [0.5, 0]
    assert seen[1].config.stop_sequences == ("x",)


async def test_the_models_are_listed_where_the_worker_knows_its_own(house: House) -> None:
    class Named(ScriptedProvider):
        pass

    named = Named([])
    named.identity = Identity("openai", "small")
    client = await serve(house, completions(house), named)

    [response] = await client.ask('{"operation": "list-models", "system": "", "prompt": ""}')

    assert [model["id"] for model in response["models"]] == ["small"]
    assert response["error"] is None


async def test_a_worker_that_does_not_know_its_model_says_not_implemented(house: House) -> None:
    client = await serve(house, completions(house), lambda call: "never asked")

    [response] = await client.ask('{"operation": "list-models"}')

    assert response["error"]["type"] == "not-implemented"


BAD = {
    "not JSON": (b"hello", "not JSON"),
    "no object": (b"[1]", "expected an object"),
    "a prompt that is no text": (b'{"prompt": 1}', "TextCompletionRequest/prompt"),
    "a schema that is no object": (b'{"schema": "s"}', "TextCompletionRequest/schema"),
    "messages that are none": (b'{"messages": [1]}', "messages/0"),
    "a role that is none": (b'{"messages": [{"role": "tool", "content": ""}]}', "messages/0/role"),
    "labels that are none": (b'{"labels": {"a": 1}}', "labels/a"),
    "a call without a number": (b'{"labels": {"call": "first"}}', "labels/call"),
    "a call with a huge number": (b'{"labels": {"call": "' + b"9" * 5000 + b'"}}', "labels/call"),
    "settings of another kind": (b'{"settings": {"temperature": "hot"}}', "settings/temperature"),
    "a count that is none": (b'{"settings": {"max_tokens": true}}', "settings/max_tokens"),
    "no room for an answer": (b'{"settings": {"max_tokens": 0}}', "settings/max_tokens"),
    "room that is less than none": (b'{"settings": {"max_tokens": -1000000000000}}', "settings/max_tokens"),
    "room without end": (b'{"settings": {"max_tokens": 1000000000000}}', "settings/max_tokens"),
    "no room by an extra": (b'{"settings": {"extras": {"max_tokens": -1}}}', "extras/max_tokens"),
    "no room by the other extra": (
        b'{"settings": {"extras": {"max_completion_tokens": 0.5}}}',
        "extras/max_completion_tokens",
    ),
    "colder than can be": (b'{"settings": {"temperature": -1}}', "settings/temperature"),
    "a share of more than all": (b'{"settings": {"top_p": 2}}', "settings/top_p"),
    "a label without end": (b'{"labels": {"prompt": "' + b"z" * 1000 + b'"}}', "labels"),
    "labels without end": (json.dumps({"labels": {str(n): "" for n in range(100)}}).encode(), "labels"),
    "a time that is none": (b'{"seconds_left": "long"}', "seconds_left"),
    "extras that are none": (b'{"settings": {"extras": []}}', "settings/extras"),
    "a stop that is none": (b'{"settings": {"stop_sequences": [1]}}', "settings/stop_sequences"),
}


async def test_malformed_request_is_answered_with_invalid_request(house: House) -> None:
    client = await serve(house, completions(house), lambda call: "never asked")

    for kind, (data, says) in BAD.items():
        [response] = await client.ask(data, kind)

        assert response["error"]["type"] == "invalid-request", kind
        assert says in response["error"]["message"], kind


async def test_a_message_without_an_id_becomes_a_dead_letter_and_stops_nothing(house: House) -> None:
    client = await serve(house, completions(house), lambda call: "Hello.")
    dead = await house.hear(topics.dead_letter_topic(client.flow.input.topic, client.flow.input.subscription))

    await house.put(client.flow.input.topic, REQUEST.encode())
    [response] = await client.ask(REQUEST)

    assert response["response"] == "Hello."
    assert "no valid property `id`" in (await dead.until(1))[0].properties["reason"]


async def test_a_redelivery_is_answered_again_and_not_paid_again(house: House) -> None:
    calls: list[Call] = []

    def model(call: Call) -> str:
        calls.append(call)
        return "Hello."

    client = await serve(house, completions(house), model)
    await client.ask(REQUEST)
    await client.send(REQUEST, "r")
    messages = await client.heard.until(2)

    assert [json.loads(message.data)["response"] for message in messages] == ["Hello.", "Hello."]
    assert len(calls) == 1


async def test_requests_left_at_the_end_are_answered_with_shutting_down(house: House) -> None:
    flow = completions(house, persistent=False, concurrency=1)
    heard = await house.hear(house.topic("responses"))
    working = await house.work(flow, ScriptedProvider([ScriptedAnswer("late", delay=600)]), drain_timeout=0.1)
    client = Client(house, flow, heard)
    for id in ("a", "b"):
        await client.send(REQUEST, id)
    async with asyncio.timeout(60):
        while not working.worker.metrics.text().count(b'requests_in_work{flow="f"} 1.0'):
            await asyncio.sleep(0.01)
    await working.stop()

    for id in ("a", "b"):
        [response] = await heard.under(id)
        assert response["error"]["type"] == "shutting-down"
        assert response["response"] is None
