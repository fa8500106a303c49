"""What an OpenAI-compatible server answers: counters, and the body as a whole."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.support.deltas import heard, last, text_of
from tests.support.model_server import DONE, ModelServer, Reply, event, said, whole
from trustgraph_prompt import errors
from trustgraph_prompt.cost import Usage
from trustgraph_prompt.llm import Call, Delta, Message, OpenAIProvider, Tool, ToolCall

PLACE = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
TOOLS = [Tool("weather", "Tells the weather.", PLACE), Tool("now", "Tells the time.", {"type": "object"})]
CALL = Call([Message("user", "What is the weather?")], tools=TOOLS)
USAGE = {
    "prompt_tokens": 9,
    "completion_tokens": 3,
    "total_tokens": 12,
    "prompt_tokens_details": {"cached_tokens": 8, "audio_tokens": 0},
    "cost": 0.01,
}


def called(name: Any = "weather", arguments: Any = '{"place": "Łódź"}', id: Any = "c1") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def in_pieces(calls: list[Any]) -> list[bytes]:
    """Tool calls as OpenAI streams them: first who is called, then the arguments bit by bit."""
    parts = []
    for index, call in enumerate(calls):
        function = call["function"]
        begun = {**call, "index": index, "function": {**function, "arguments": ""}}
        parts.append(said(tool_calls=[begun]))
        for letter in function["arguments"]:
            parts.append(said(tool_calls=[{"index": index, "function": {"arguments": letter}}]))
    return parts


def streamed(calls: Any, finish_reason: str | None) -> Reply:
    return Reply([said(tool_calls=calls), said(finish_reason=finish_reason), DONE])


def in_one(calls: Any, finish_reason: str | None) -> Reply:
    return whole(finish_reason=finish_reason, tool_calls=calls)


WAYS = pytest.mark.parametrize("way", [streamed, in_one])
Way = Callable[[Any, str | None], Reply]


def tool_calls(deltas: list[Delta]) -> list[ToolCall]:
    return [call for delta in deltas for call in delta.tool_calls]


class TestTheBody:
    async def test_whole_body_is_given_as_it_came(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        reply = whole("Hello.", usage=USAGE, annotations=[{"x": 1}])
        server.reply = lambda _: reply

        (delta,) = await heard(provider, CALL)

        assert delta.raw == {
            "id": "1",
            "object": "chat.completion",
            "model": "small",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": "Hello.", "annotations": [{"x": 1}]},
                    "finish_reason": "stop",
                }
            ],
            "usage": USAGE,
        }
        assert delta.usage == Usage(9, 3, 12, cached_tokens=8)

    async def test_raw_of_a_stream_is_that_of_the_whole_answer(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        head = {"id": "7", "object": "chat.completion.chunk", "created": 5, "model": "small"}

        def chunk(delta: dict[str, Any], **rest: Any) -> bytes:
            choice = {"index": 0, "delta": delta, "finish_reason": None, "logprobs": None, **rest}
            return event({**head, "choices": [choice], "usage": None})

        server.reply = lambda _: Reply(
            [
                chunk({"role": "assistant", "content": None, "reasoning_content": "h"}),
                chunk({"role": "assistant", "reasoning_content": "m"}),
                chunk({"content": "Let ", "tool_calls": None}, logprobs={"content": [{"token": "Let "}]}),
                chunk({"content": "me see."}, logprobs={"content": [{"token": "me"}, {"token": " see."}]}),
                chunk({"tool_calls": [{"index": 0, **called(arguments='{"place": ')}]}),
                chunk({"tool_calls": [{"index": 0, "function": {"arguments": '"Łódź"}'}}]}),
                chunk({}, finish_reason="tool_calls"),
                event({**head, "choices": [], "usage": USAGE, "service_tier": "flex"}),
                DONE,
            ]
        )

        assert last(await heard(provider, CALL), "raw") == {
            "id": "7",
            "object": "chat.completion",
            "created": 5,
            "model": "small",
            "service_tier": "flex",
            "choices": [
                {
                    "index": 0,
                    "message": {
                        "role": "assistant",
                        "content": "Let me see.",
                        "reasoning_content": "hm",
                        "tool_calls": [called()],
                    },
                    "finish_reason": "tool_calls",
                    "logprobs": {"content": [{"token": "Let "}, {"token": "me"}, {"token": " see."}]},
                }
            ],
            "usage": USAGE,
        }

    async def test_raw_body_comes_last(self, server: ModelServer, provider: OpenAIProvider) -> None:
        server.reply = lambda _: Reply([said("Hello.", "stop"), DONE])

        *deltas, end = await heard(provider, CALL)

        assert [delta.raw for delta in deltas] == [None]
        assert end.raw is not None

    @pytest.mark.parametrize("content", [None, ""])
    @pytest.mark.parametrize("reason", ["length", "content_filter"])
    async def test_empty_answer_keeps_its_finish_reason(
        self, server: ModelServer, provider: OpenAIProvider, content: str | None, reason: str
    ) -> None:
        server.reply = lambda _: whole(content, reason, usage=USAGE)

        (delta,) = await heard(provider, CALL)

        assert (delta.text, delta.finish_reason, delta.usage) == (
            "",
            reason,
            Usage(9, 3, 12, cached_tokens=8),
        )

    @pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
    async def test_thinking_and_refusal_of_a_whole_body_are_read(
        self, server: ModelServer, provider: OpenAIProvider, key: str
    ) -> None:
        server.reply = lambda _: whole(refusal="I would not.", **{key: "hm"})

        (delta,) = await heard(provider, CALL)

        assert (delta.text, delta.thinking, delta.finish_reason) == ("I would not.", "hm", "content_filter")

    @pytest.mark.parametrize(
        "reply",
        [
            Reply([event({"usage": USAGE}), DONE]),
            Reply([event({"choices": [], "usage": USAGE}), DONE]),
            Reply([b'{"choices": []}'], content_type="application/json"),
            Reply([b'{"choices": [{"finish_reason": "stop"}]}'], content_type="application/json"),
            Reply([b'{"choices": [{"message": null}]}'], content_type="application/json"),
        ],
    )
    async def test_response_without_a_message_is_invalid(
        self, server: ModelServer, provider: OpenAIProvider, reply: Reply
    ) -> None:
        server.reply = lambda _: reply

        with pytest.raises(errors.ProviderInvalidResponse):
            await heard(provider, CALL)

    async def test_endless_values_besides_the_answer_are_given_up(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        more = (event({f"x{index}": "x" * 4_000_000, "choices": []}) for index in itertools.count())
        server.reply = lambda _: Reply(more)

        with pytest.raises(errors.ProviderInvalidResponse, match="besides the answer"):
            await heard(provider, CALL)

    async def test_endless_growth_of_values_besides_the_answer_is_given_up(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        begun = event({f"x{index}": "" for index in range(100)} | {"choices": []})
        more = (event({f"x{index}": "x" * 4_000_000, "choices": []}) for index in range(100))
        server.reply = lambda _: Reply([begun, *more])

        with pytest.raises(errors.ProviderInvalidResponse, match="besides the answer"):
            await heard(provider, CALL)

    async def test_repeated_values_besides_the_answer_are_kept_once(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        again = event({"x": "x" * 4_000_000, "choices": []})
        server.reply = lambda _: Reply([*[again] * 40, said("Hello.", "stop"), DONE])

        assert last(await heard(provider, CALL), "raw")["x"] == "x" * 4_000_000

    @pytest.mark.parametrize("later", [{}, {"prompt_tokens": None}, {"cost": 1}])
    async def test_later_empty_usage_does_not_replace_an_earlier_one(
        self, server: ModelServer, provider: OpenAIProvider, later: dict[str, Any]
    ) -> None:
        told = [event({"choices": [], "usage": usage}) for usage in (USAGE, later)]
        server.reply = lambda _: Reply([said("Hello.", "stop"), *told, DONE])

        assert last(await heard(provider, CALL), "usage") == Usage(9, 3, 12, cached_tokens=8)

    @pytest.mark.parametrize("way", [whole, lambda content, reason: Reply([said(content, reason), DONE])])
    async def test_half_a_surrogate_pair_at_the_end_is_replaced(
        self, server: ModelServer, provider: OpenAIProvider, way: Callable[[str, str], Reply]
    ) -> None:
        reply = way("Hello HALF", "length")
        body = b"".join(part for part in reply.parts if isinstance(part, bytes))
        server.reply = lambda _: replace(reply, parts=[body.replace(b"HALF", b"\\ud83e")])

        deltas = await heard(provider, CALL)

        assert text_of(deltas) == "Hello \ufffd"
        assert last(deltas, "finish_reason") == "length"
