"""What every provider promises, over all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager
from copy import deepcopy
from dataclasses import replace

import pytest

from tests.support.deltas import CALL, heard, last, text_of
from tests.support.model_server import DONE, ModelServer, Reply, Then, in_chunks, said, used
from tests.support.workers import Working
from trustgraph_prompt import errors
from trustgraph_prompt.ask import ask
from trustgraph_prompt.broker import connect
from trustgraph_prompt.broker.caller import CallerPool
from trustgraph_prompt.cost import Usage
from trustgraph_prompt.llm import (
    Call,
    Message,
    OpenAIProvider,
    Provider,
    RetryPolicy,
    RuntimeConfig,
    ScriptedAnswer,
    ScriptedProvider,
    TopicProvider,
)
from trustgraph_prompt.prompts import PromptDefinition, Question
from trustgraph_prompt.worker import Flow, Prompts, Service
from trustgraph_prompt.worker.flow import Input, Outputs

Play = Callable[[Iterable[ScriptedAnswer]], Provider]
REFUSALS = {
    errors.ProviderAuthentication: (401, b'{"error": {"message": "no", "code": "invalid_api_key"}}'),
    errors.ProviderUnavailable: (500, b"no"),
    errors.ProviderInvalidModel: (404, b'{"error": {"message": "no", "code": "model_not_found"}}'),
    errors.ProviderModelNotLoaded: (503, b'{"error": {"message": "no", "type": "model_not_loaded"}}'),
    errors.ProviderRateLimit: (429, b'{"error": "no"}'),
    errors.ProviderInvalidResponse: (200, b"<html>no</html>"),
    errors.ProviderInvalidRequest: (400, b'{"detail": "no"}'),
    errors.ProviderUnsupportedContentBlock: (400, b'{"message": "no: does not support image inputs"}'),
}


def over_http(answer: ScriptedAnswer) -> Reply:
    """The bytes with which a server gives a scripted answer."""
    if answer.error is not None and not answer.text:
        status, body = REFUSALS[type(answer.error)]
        headers = {} if answer.error.retry_after is None else {"Retry-After": str(answer.error.retry_after)}
        return Reply([body], status, headers, "text/plain")
    text = answer.text[: answer.cut_after]
    body = said(reasoning_content=answer.thinking) if answer.thinking else b""
    body += b"".join(said(character) for character in text)
    if answer.error is not None:
        return Reply([*in_chunks(body, 5), Then.DROP])
    body += said(finish_reason="length" if len(text) < len(answer.text) else answer.finish_reason)
    if answer.usage is not None:
        body += used(answer.usage.prompt_tokens or 0, answer.usage.completion_tokens or 0)
    return Reply(in_chunks(body + DONE, 5 if len(body) < 10_000 else 997))


@asynccontextmanager
async def over_topics(url: str, space: str) -> AsyncIterator[Play]:
    """By way of a completion worker, as whose model the answers are given."""
    scripts: list[Iterator[ScriptedAnswer]] = []
    model = ScriptedProvider(lambda _: next(scripts[-1]))
    flow = Flow(
        "default",
        Input(f"non-persistent://{space}/request/text-completion", "c", kind="text-completion"),
        Outputs(response=f"non-persistent://{space}/response/text-completion"),
        concurrency=50,
    )
    async with await connect(url) as broker:
        prompts = Prompts(workspaces=[flow.workspace])
        working = Working(Service(broker, [flow], prompts, lambda _: model, config_topic=None))
        await working.ready()
        callers = CallerPool(broker)
        assert flow.outputs.response is not None
        provider = TopicProvider(callers.between(flow.input.topic, flow.outputs.response))

        def over_the_wire(answers: Iterable[ScriptedAnswer]) -> Provider:
            scripts.append(iter(answers))
            return provider

        yield over_the_wire
        await callers.close()
        await working.stop()


@pytest.fixture(params=["scripted", "openai", "topic", pytest.param("pulsar", marks=pytest.mark.pulsar)])
async def play(request: pytest.FixtureRequest) -> AsyncIterator[Play]:
    """A provider that gives the answers it is handed, one a call."""
    if request.param == "scripted":
        yield ScriptedProvider
        return
    if request.param in ("topic", "pulsar"):
        wanted = ("pulsar_url", "pulsar_space") if request.param == "pulsar" else ()
        url, space = map(request.getfixturevalue, wanted) if wanted else ("embedded:", "tg")
        async with over_topics(url, space) as through:
            yield through
        return
    async with ModelServer() as server, OpenAIProvider(server.url, "small") as provider:

        def over_the_wire(answers: Iterable[ScriptedAnswer]) -> Provider:
            script = iter(answers)
            server.reply = lambda body: over_http(next(script))
            return provider

        yield over_the_wire


@pytest.mark.parametrize("text", ["Hello.", 'żółć 🦉 \u2028 { "a": 1 }\r\n', "data: [DONE]\n\n", "x" * 3000])
async def test_the_text_arrives_as_it_was_written(play: Play, text: str) -> None:
    deltas = await heard(play([ScriptedAnswer(text)]))

    assert text_of(deltas) == text
    assert last(deltas, "finish_reason") == "stop"


async def test_a_long_answer_comes_in_pieces(play: Play) -> None:
    deltas = await heard(play([ScriptedAnswer("word " * 200)]))

    assert sum(bool(delta.text) for delta in deltas) > 5


async def test_usage_and_model_are_reported(play: Play) -> None:
    deltas = await heard(play([ScriptedAnswer("Hello.", usage=Usage(7, 3, 10), model="small")]))

    assert last(deltas, "usage") == Usage(7, 3, 10)
    assert last(deltas, "model") == "small"


async def test_a_cut_answer_says_length(play: Play) -> None:
    deltas = await heard(play([ScriptedAnswer("Hello, world.", cut_after=5)]))

    assert text_of(deltas) == "Hello"
    assert last(deltas, "finish_reason") == "length"


@pytest.mark.parametrize("finish_reason", ["content_filter", "length", None])
async def test_the_finish_reason_is_what_the_model_said(play: Play, finish_reason: None) -> None:
    deltas = await heard(play([ScriptedAnswer("Hello.", finish_reason=finish_reason)]))

    assert last(deltas, "finish_reason") == finish_reason


async def test_thinking_is_not_part_of_the_answer(play: Play) -> None:
    deltas = await heard(play([ScriptedAnswer("42", thinking="let me see")]))

    assert text_of(deltas) == "42"
    assert "".join(delta.thinking for delta in deltas) == "let me see"


async def test_an_answer_may_be_empty(play: Play) -> None:
    deltas = await heard(play([ScriptedAnswer("")]))

    assert text_of(deltas) == ""
    assert last(deltas, "finish_reason") == "stop"


@pytest.mark.parametrize("kind", REFUSALS)
async def test_every_refusal_has_its_category(play: Play, kind: type[errors.ProviderError]) -> None:
    with pytest.raises(kind, match="no") as caught:
        await heard(play([ScriptedAnswer(error=kind("no"))]))

    assert type(caught.value) is kind


async def test_rate_limit_error_has_retry_after(play: Play) -> None:
    with pytest.raises(errors.ProviderRateLimit) as caught:
        await heard(play([ScriptedAnswer(error=errors.ProviderRateLimit("no", retry_after=30))]))

    assert caught.value.retry_after == 30


async def test_text_before_a_broken_connection_is_delivered(play: Play) -> None:
    provider = play([ScriptedAnswer("Hello, wor", error=errors.ProviderUnavailable("gone"))])
    given = []

    async def take() -> None:
        async for delta in provider.stream(CALL):
            given.append(delta)

    with pytest.raises(errors.ProviderUnavailable):
        await take()

    assert text_of(given) == "Hello, wor"


async def test_an_answer_that_is_not_streamed_is_the_same(play: Play) -> None:
    call = replace(CALL, stream=False)

    deltas = await heard(play([ScriptedAnswer("żółć 🦉", usage=Usage(7, 3, 10))]), call)

    assert text_of(deltas) == "żółć 🦉"
    assert last(deltas, "finish_reason") == "stop"
    assert last(deltas, "usage") == Usage(7, 3, 10)


async def test_call_is_not_modified(play: Play) -> None:
    schema = {"type": "object", "properties": {"zoo": {}, "ant": {}}}
    config = RuntimeConfig(temperature=0.5, stop_sequences=("A",), extras={"stop": ["B"]})
    call = Call(list(CALL.messages), config=config, response_schema=schema)
    before = deepcopy(call)

    await heard(play([ScriptedAnswer("{}")]), call)

    assert call == before
    assert list(schema["properties"]) == ["zoo", "ant"]


async def test_caller_that_leaves_early_does_not_disturb_the_next(play: Play) -> None:
    provider = play([ScriptedAnswer("word " * 500), ScriptedAnswer("word " * 500)])
    async with aclosing(provider.stream(CALL)) as deltas:
        first = await anext(deltas)

    assert first.text
    assert text_of(await heard(provider)) == "word " * 500


async def test_many_calls_are_answered_at_a_time(play: Play) -> None:
    provider = play([ScriptedAnswer("Hello.")] * 20)

    answers = await asyncio.gather(*(heard(provider) for _ in range(20)))

    assert [text_of(deltas) for deltas in answers] == ["Hello."] * 20


async def test_provider_can_be_closed_twice(play: Play) -> None:
    provider = play([ScriptedAnswer("Hello.")])

    await heard(provider)

    await provider.close()
    await provider.close()


async def test_ask_has_the_same_outcome_with_every_provider(play: Play) -> None:
    def lines(*numbers: int) -> str:
        return "".join(f'{{"n": {n}, "s": "żółć"}}\n' for n in numbers)

    async def no_waiting(seconds: float) -> None:
        pass

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    entry = {"prompt": "unused", "response-type": "jsonl", "schema": schema}
    script = [
        ScriptedAnswer(error=errors.ProviderUnavailable("not now")),
        ScriptedAnswer(lines(1, 2) + '{"n": 3, "s": "żó', error=errors.ProviderUnavailable("gone")),
        ScriptedAnswer(f"Sure!\n{lines(2, 3, 4)}" + '{"n"', finish_reason="length"),
        ScriptedAnswer(lines(5) + '{"n": "six"}\n', usage=Usage(7, 3, 10)),
    ]

    outcome = await ask(
        PromptDefinition.from_entry("numbers", entry), Question("", "?"), play(script), sleep=no_waiting
    )

    assert [value["n"] for value in outcome.value] == [1, 2, 3, 4, 5]
    assert outcome.truncated is False
    assert [call.why for call in outcome.calls] == ["first", "transient", "continue", "continue"]
    assert [call.text for call in outcome.calls] == [answer.text for answer in script]
    assert [call.finish_reason for call in outcome.calls] == [None, None, "length", "stop"]
    assert outcome.calls[-1].usage == Usage(7, 3, 10)


@pytest.mark.parametrize("stream", [True, False])
async def test_complete_has_the_same_response_with_every_provider(play: Play, stream: bool) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    script = [
        ScriptedAnswer('{"n": "żółć"}', match=r"^\?$", usage=Usage(1, 2, 3)),
        ScriptedAnswer('{"n": 5, "s', match=r"integer.*$", finish_reason="length", usage=Usage(1, 2, 3)),
        ScriptedAnswer(' {"n": 7}\n', match=r"integer.*\n.*truncated", usage=Usage(7, 3, 10), thinking="hm"),
    ]
    policy = RetryPolicy(reask=lambda error: error.error_message)
    response = await play(script).complete(
        [{"role": "user", "content": "?"}], response_schema=schema, retry=policy, stream=stream
    )

    assert response.parsed == {"n": 7}
    assert response.message == Message("assistant", ' {"n": 7}\n')
    assert (response.finish_reason, response.thinking) == ("stop", "hm")
    assert response.usage == Usage(9, 7, 16)
    assert [call.why for call in response.calls] == ["first", "invalid", "invalid"]
    assert [call.text for call in response.calls] == [answer.text for answer in script]
    assert [call.finish_reason for call in response.calls] == ["stop", "length", "stop"]
