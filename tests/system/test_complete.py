"""`complete` over real HTTP: what goes onto the wire, what comes of what came back, and many at a time."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from tests.support.model_server import DONE, ModelServer, Reply, Then, event, in_chunks, said, streamed, used
from trustgraph_prompt.cost import Usage
from trustgraph_prompt.errors import ProviderInvalidRequest, ProviderUnavailable, StructuredOutputInvalid
from trustgraph_prompt.llm import (
    Delta,
    Message,
    OpenAIProvider,
    Response,
    RetryPolicy,
    RuntimeConfig,
    Tool,
    ToolCall,
)

SCHEMA = {
    "type": "object",
    "properties": {"reasoning": {"type": "string"}, "answer": {"type": "integer"}},
    "required": ["reasoning", "answer"],
    "additionalProperties": False,
}
ANSWER = '{"reasoning": "żółć 🦉", "answer": 7}'
ASKED = [{"role": "user", "content": "Which number?"}]
LOOK = Tool("look", "Look there.", {"type": "object", "properties": {"at": {"type": "string"}}})


def whole(content: str | None, finish_reason: str = "stop", **message: Any) -> Reply:
    """An answer in one piece."""
    choice = {"message": {"role": "assistant", "content": content, **message}, "finish_reason": finish_reason}
    usage = {"prompt_tokens": 11, "completion_tokens": 22, "total_tokens": 33}
    body = orjson.dumps({"id": "x", "model": "small", "choices": [{"index": 0, **choice}], "usage": usage})
    return Reply(in_chunks(body, 13), content_type="application/json")


def either(text: str, finish_reason: str = "stop") -> Callable[[dict[str, Any]], Reply]:
    """The answer as it was asked for: streamed, or in one piece."""
    return lambda body: (
        Reply(streamed(text, finish_reason)) if body.get("stream") else whole(text, finish_reason)
    )


def at_once(**more: Any) -> RetryPolicy:
    return RetryPolicy(backoff=lambda attempt: 0.0, **more)


async def test_an_answer_is_the_same_streamed_and_in_one_piece(
    server: ModelServer, provider: OpenAIProvider
) -> None:
    server.reply = either(ANSWER)
    heard: list[Delta] = []

    async def listen(delta: Delta) -> None:
        heard.append(delta)

    at_a_time = await provider.complete(ASKED, response_schema=SCHEMA)
    in_pieces = await provider.complete(ASKED, response_schema=SCHEMA, stream=True, listen=listen)

    for response in (at_a_time, in_pieces):
        assert response.message == Message("assistant", ANSWER)
        assert response.parsed == {"reasoning": "żółć 🦉", "answer": 7}
        assert (response.finish_reason, response.model) == ("stop", "small")
        assert response.usage == Usage(11, 22, 33)
        assert response.raw["usage"]["total_tokens"] == 33
    assert [body.get("stream", False) for body in server.bodies] == [False, True]
    assert len(heard) > 3
    assert "".join(delta.text for delta in heard) == ANSWER


async def test_schema_is_sent_verbatim_and_its_path_is_reported(
    server: ModelServer, provider: OpenAIProvider
) -> None:
    server.reply = either(ANSWER)

    response = await provider.complete(ASKED, response_schema=SCHEMA)

    sent = server.bodies[0]["response_format"]["json_schema"]["schema"]
    assert orjson.dumps(sent) == orjson.dumps(SCHEMA)
    assert response.schema_path == "strict"


async def test_request_and_response_without_a_schema_do_not_mention_one(
    server: ModelServer, provider: OpenAIProvider
) -> None:
    server.reply = either(ANSWER)

    response = await provider.complete(ASKED)

    assert "response_format" not in server.bodies[0]
    assert response.parsed is None


async def test_invalid_call_is_refused_before_it_is_sent(
    server: ModelServer, provider: OpenAIProvider
) -> None:
    for arguments in (([],), ([{"role": "user", "content": ""}],), (ASKED, [LOOK, LOOK])):
        with pytest.raises(ProviderInvalidRequest):
            await provider.complete(*arguments)
    with pytest.raises(ProviderInvalidRequest):
        await provider.complete(ASKED, response_schema={"type": "array"})

    assert server.bodies == []


@pytest.mark.parametrize("stream", [True, False])
async def test_tool_results_lead_to_a_structured_answer(
    server: ModelServer, provider: OpenAIProvider, stream: bool
) -> None:
    function = {"name": "look", "arguments": '{"at": "sea"}'}
    call = {"id": "call_1", "type": "function", "function": function}

    def reply(body: dict[str, Any]) -> Reply:
        if body["messages"][-1]["role"] == "tool":
            return either(ANSWER)(body)
        if not body.get("stream"):
            return whole(None, "tool_calls", tool_calls=[call])
        pieces = [{"index": 0, **call}]
        return Reply([said(tool_calls=pieces), said(finish_reason="tool_calls"), used(11, 22), DONE])

    server.reply = reply
    asked: list[Any] = list(ASKED)
    first = await provider.complete(asked, [LOOK], None, SCHEMA, stream=stream)
    assert (first.finish_reason, first.parsed) == ("tool_calls", None)
    assert first.message.tool_calls == (ToolCall("call_1", "look", {"at": "sea"}),)

    asked += [first.message, {"role": "tool", "tool_call_id": "call_1", "content": "blue"}]
    last = await provider.complete(asked, [LOOK], None, SCHEMA, stream=stream)
    assert last.parsed is not None
    assert last.parsed["answer"] == 7


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("text", "finish_reason"),
    [(ANSWER[:20], "length"), (ANSWER, "length"), ("", "length"), ("No.", "content_filter"), ("No.", "stop")],
)
async def test_invalid_answer_has_its_finish_reason_usage_and_schema(
    server: ModelServer, provider: OpenAIProvider, text: str, finish_reason: str, stream: bool
) -> None:
    server.reply = either(text, finish_reason)

    with pytest.raises(StructuredOutputInvalid) as caught:
        await provider.complete(ASKED, response_schema=SCHEMA, stream=stream)

    error = caught.value
    assert (error.output_content, error.finish_reason) == (text, finish_reason)
    assert (error.usage, error.response_schema) == (Usage(11, 22, 33), SCHEMA)


async def test_transient_errors_are_retried_and_usage_is_that_of_all_attempts(
    server: ModelServer, provider: OpenAIProvider
) -> None:
    busy = Reply([b"busy"], 429, {"Retry-After": "0.05"}, "text/plain")
    replies = iter([busy, Reply([b"down"], 500), whole('{"answer": 7}'), whole(ANSWER)])
    server.reply = lambda body: next(replies)
    told: list[str] = []

    async def on_retry(error: Exception, attempt: int) -> None:
        told.append(type(error).__name__)

    policy = at_once(max_attempts=4, reask=lambda error: error.error_message, on_retry=on_retry)
    response = await provider.complete(ASKED, response_schema=SCHEMA, retry=policy)

    assert response.parsed is not None
    assert told == ["ProviderRateLimit", "ProviderUnavailable", "StructuredOutputInvalid"]
    assert [call.why for call in response.calls] == ["first", "transient", "transient", "invalid"]
    assert response.usage == Usage(22, 44, 66)
    assert [message["role"] for message in server.bodies[-1]["messages"]] == ["user", "assistant", "user"]
    assert '"reasoning" is missing' in server.bodies[-1]["messages"][-1]["content"]


async def test_broken_stream_is_retried_unless_a_listener_has_heard_of_it(
    server: ModelServer, provider: OpenAIProvider
) -> None:
    replies = iter([Reply([said("Sev"), Then.DROP]), Reply(streamed("Seven."))] * 2)
    server.reply = lambda body: next(replies)

    async def listen(delta: Delta) -> None:
        pass

    response = await provider.complete(ASKED, stream=True, retry=at_once())
    assert response.message.content == "Seven."
    assert [call.text for call in response.calls] == ["Sev", "Seven."]
    with pytest.raises(ProviderUnavailable) as caught:
        await provider.complete(ASKED, stream=True, retry=at_once(), listen=listen)
    assert [call.text for call in caught.value.calls] == ["Sev"]


async def test_an_answer_that_never_ends_is_left_at_the_deadline(
    server: ModelServer, provider: OpenAIProvider
) -> None:
    server.reply = lambda body: Reply([said("Sev"), Then.HANG])

    with pytest.raises(ProviderUnavailable, match=r"0\.3 seconds") as caught:
        await provider.complete(ASKED, stream=True, retry=at_once(deadline=0.3))

    [call] = caught.value.calls
    assert (call.text, call.error) == ("Sev", "cancelled before the answer ended")
    await asyncio.wait_for(server.left.wait(), 30)


@pytest.mark.parametrize("policy", [None, at_once(classifier=lambda error: True)])
async def test_cancelling_ends_the_call_on_the_wire(
    server: ModelServer, provider: OpenAIProvider, policy: RetryPolicy | None
) -> None:
    begun = asyncio.Event()
    server.reply = lambda body: Reply([said("Sev"), Then.HANG])

    async def listen(delta: Delta) -> None:
        begun.set()

    asking = asyncio.create_task(provider.complete(ASKED, stream=True, listen=listen, retry=policy))
    await asyncio.wait_for(begun.wait(), 30)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking

    await asyncio.wait_for(server.left.wait(), 30)
    assert len(server.bodies) == 1


async def test_a_hundred_at_a_time_do_not_mix_and_change_nothing(
    server: ModelServer, provider: OpenAIProvider
) -> None:
    def reply(body: dict[str, Any]) -> Reply:
        number = int(body["messages"][1]["content"])
        first_time = len(body["messages"]) == 2
        if first_time and number % 3 == 0:
            return either("wrong")(body)
        return either(f'{{"reasoning": "", "answer": {number}}}')(body)

    server.reply = reply
    system = {"role": "system", "content": "Count."}
    conversations = [[system, {"role": "user", "content": str(number)}] for number in range(100)]
    tools, config, schema = [LOOK], RuntimeConfig(extras={"a": {"b": [1]}}), copy.deepcopy(SCHEMA)
    passed = (conversations, tools, config, schema)
    before = copy.deepcopy(passed)
    policy = at_once(reask=lambda error: "Again.")

    async def one(number: int) -> Response[dict[str, Any]]:
        return await provider.complete(
            conversations[number],
            tools,
            config,
            schema,
            tool_choice="auto",
            retry=policy,
            stream=number % 2 == 0,
        )

    responses = await asyncio.gather(*map(one, range(100)))

    assert [response.parsed and response.parsed["answer"] for response in responses] == list(range(100))
    assert [len(response.calls) for response in responses] == [1 + (number % 3 == 0) for number in range(100)]
    assert passed == before


async def test_usage_in_a_last_chunk_without_choices_counts(
    server: ModelServer, provider: OpenAIProvider
) -> None:
    last = event({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}})
    server.reply = lambda body: Reply([said("Seven."), said(finish_reason="stop"), last, DONE])

    assert (await provider.complete(ASKED, stream=True)).usage == Usage(1, 2, 3)
