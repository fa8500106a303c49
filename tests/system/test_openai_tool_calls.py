"""The tool calls of an OpenAI-compatible server, in pieces and whole."""

from __future__ import annotations

import itertools
from collections.abc import Callable
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


class TestToolCalls:
    async def test_pieces_of_a_tool_call_are_put_together(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        pieces = in_pieces([called(), called("now", "{}", "c2")])
        server.reply = lambda _: Reply([said("Let me see."), *pieces, said(finish_reason="tool_calls"), DONE])

        deltas = await heard(provider, CALL)

        assert text_of(deltas) == "Let me see."
        assert tool_calls(deltas) == [
            ToolCall("c1", "weather", {"place": "Łódź"}),
            ToolCall("c2", "now", {}),
        ]
        assert last(deltas, "finish_reason") == "tool_calls"

    async def test_pieces_of_several_calls_may_be_mixed(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        one, other = (in_pieces([called(id=id)]) for id in ("c1", "c2"))
        other = [piece.replace(b'"index":0,"fun', b'"index":1,"fun') for piece in other]
        other[0] = said(tool_calls=[{"index": 1, **called(id="c2", arguments="")}])
        mixed = [piece for pair in zip(other, one, strict=True) for piece in pair]
        server.reply = lambda _: Reply([*mixed, said(finish_reason="tool_calls"), DONE])

        deltas = await heard(provider, CALL)

        assert [(call.id, call.arguments) for call in tool_calls(deltas)] == [
            ("c1", {"place": "Łódź"}),
            ("c2", {"place": "Łódź"}),
        ]

    @pytest.mark.parametrize(
        "pieces",
        [
            [[called()], [called("now", "{}", "c2")]],
            [[called(), called("now", "{}", "c2")]],
            [
                [called(arguments='{"place"')],
                [{"function": {"arguments": ': "Łódź"}'}}],
                [called("now", "", "c2")],
            ],
        ],
    )
    async def test_a_stream_may_leave_out_the_index(
        self, server: ModelServer, provider: OpenAIProvider, pieces: list[Any]
    ) -> None:
        events = [said(tool_calls=piece) for piece in pieces]
        server.reply = lambda _: Reply([*events, said(finish_reason="tool_calls"), DONE])

        assert tool_calls(await heard(provider, CALL)) == [
            ToolCall("c1", "weather", {"place": "Łódź"}),
            ToolCall("c2", "now", {}),
        ]

    @WAYS
    @pytest.mark.parametrize("told", ["stop", "tool_calls", "function_call"])
    async def test_tool_calls_are_the_reason_whatever_the_server_says(
        self, server: ModelServer, provider: OpenAIProvider, way: Way, told: str
    ) -> None:
        server.reply = lambda _: way([called()], told)

        deltas = await heard(provider, CALL)

        assert last(deltas, "finish_reason") == "tool_calls"
        assert last(deltas, "raw")["choices"][0]["finish_reason"] == told

    async def test_tool_calls_may_come_after_the_reason(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        server.reply = lambda _: Reply([said(finish_reason="stop"), said(tool_calls=[called()]), DONE])

        assert last(await heard(provider, CALL), "finish_reason") == "tool_calls"

    async def test_empty_list_of_tool_calls_gives_no_tool_calls(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        server.reply = lambda _: in_one([], "stop")

        deltas = await heard(provider, CALL)

        assert (tool_calls(deltas), last(deltas, "finish_reason")) == ([], "stop")

    @pytest.mark.parametrize(
        "reply",
        [
            whole(finish_reason="function_call", function_call=called()["function"]),
            Reply(
                [
                    said(function_call={"name": "weather", "arguments": ""}),
                    said(function_call={"arguments": '{"place": "Łódź"}'}),
                    said(finish_reason="function_call"),
                    DONE,
                ]
            ),
        ],
    )
    async def test_function_calls_of_old_are_tool_calls(
        self, server: ModelServer, provider: OpenAIProvider, reply: Reply
    ) -> None:
        server.reply = lambda _: reply

        deltas = await heard(provider, CALL)

        (call,) = tool_calls(deltas)
        assert (call.name, call.arguments) == ("weather", {"place": "Łódź"})
        assert call.id
        assert last(deltas, "finish_reason") == "tool_calls"
        function = last(deltas, "raw")["choices"][0]["message"]["function_call"]
        assert function == {"name": "weather", "arguments": '{"place": "Łódź"}'}

    @WAYS
    @pytest.mark.parametrize("reason", ["tool_calls", "stop", "length", None])
    @pytest.mark.parametrize(
        ("calls", "says"),
        [
            ([called(arguments={"place": "Łódź"})], "dict, expected str"),
            ([called(None)], "no name"),
            ([called(id=None)], "no id"),
            ([called(id=7)], "the id of a tool call is int"),
            ([7], "a tool call is int"),
            ([{"id": "c1", "type": "function"}], "no name"),
            ([{"id": "c1", "function": "weather"}], "the function of a tool call is str"),
            ("weather", "'tool_calls' is str"),
        ],
    )
    async def test_malformed_tool_call_is_an_invalid_response(
        self, server: ModelServer, provider: OpenAIProvider, way: Way, reason: str, calls: Any, says: str
    ) -> None:
        server.reply = lambda _: way(calls, reason)

        with pytest.raises(errors.ProviderInvalidResponse, match=says):
            await heard(provider, CALL)

    @WAYS
    @pytest.mark.parametrize("reason", ["tool_calls", "length"])
    @pytest.mark.parametrize(
        ("arguments", "read"),
        [
            ('{"place": "Łó', None),
            ('{"place": NaN}', None),
            ('["Łódź"]', None),
            ('{"place": 7}', {"place": 7}),
            ('{"place": ' + "9" * 30 + "}", {"place": int("9" * 30)}),
        ],
    )
    async def test_arguments_are_given_as_text_also_where_they_are_not_valid(
        self, server: ModelServer, provider: OpenAIProvider, way: Way, reason: str, arguments: str, read: Any
    ) -> None:
        server.reply = lambda _: way([called("launch", arguments)], reason)

        (call,) = tool_calls(await heard(provider, CALL))

        assert (call.name, call.arguments, call.arguments_text) == ("launch", read, arguments)

    @pytest.mark.parametrize(
        "pieces",
        [
            [{"index": 0, "id": "c1"}, {"index": 0, "function": called()["function"]}],
            [{"index": 0, **called()}, {"index": 0, "function": None}],
            [{"index": 0, **called()}, {"index": 0, "function": {"name": None, "arguments": None}}],
            [
                {"index": 0, **called(arguments="{")},
                {"index": 0, "id": "made up", "function": {"arguments": '"place": "Łódź"}'}},
            ],
        ],
    )
    async def test_pieces_of_a_tool_call_may_leave_out_parts_of_it(
        self, server: ModelServer, provider: OpenAIProvider, pieces: list[Any]
    ) -> None:
        server.reply = lambda _: Reply([*(said(tool_calls=[one]) for one in pieces), DONE])

        assert tool_calls(await heard(provider, CALL)) == [ToolCall("c1", "weather", {"place": "Łódź"})]

    @pytest.mark.parametrize(
        "second",
        [
            [{"index": 0, **called("now", "{}", "c2")}],
            [{"index": 0, "id": "c2"}, {"index": 0, "function": {"name": "now", "arguments": "{}"}}],
        ],
    )
    async def test_a_new_id_begins_a_new_call_whatever_its_index(
        self, server: ModelServer, provider: OpenAIProvider, second: list[Any]
    ) -> None:
        pieces = [{"index": 0, **called()}, *second]
        server.reply = lambda _: Reply([*(said(tool_calls=[one]) for one in pieces), DONE])

        assert [call.id for call in tool_calls(await heard(provider, CALL))] == ["c1", "c2"]

    async def test_a_character_that_was_cut_in_two_is_whole_in_the_arguments(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        pieces = [{"index": 0, **called(arguments='{"place": "HALF')}, {"index": 0, "function": {}}]
        pieces[1]["function"]["arguments"] = 'HALF"}'
        one, other = (said(tool_calls=[piece]) for piece in pieces)
        halves = [one.replace(b"HALF", b"\\ud83e"), other.replace(b"HALF", b"\\udd89")]
        server.reply = lambda _: Reply([*halves, DONE])

        assert tool_calls(await heard(provider, CALL)) == [ToolCall("c1", "weather", {"place": "🦉"})]

    @WAYS
    async def test_usage_of_an_invalid_answer_is_given_before_the_error(
        self, server: ModelServer, provider: OpenAIProvider, way: Way
    ) -> None:
        parts = [*way([called(None)], "tool_calls").parts]
        server.reply = lambda _: (
            whole(finish_reason="stop", tool_calls=[called(None)], usage=USAGE)
            if way is in_one
            else Reply([*parts[:-1], event({"choices": [], "usage": USAGE}), DONE])
        )
        given: list[Delta] = []

        async def listen() -> None:
            async for delta in provider.stream(CALL):
                given.append(delta)

        with pytest.raises(errors.ProviderInvalidResponse):
            await listen()

        assert last(given, "usage") == Usage(9, 3, 12, cached_tokens=8)

    @WAYS
    @pytest.mark.parametrize(
        ("bad", "read"),
        [
            (called(arguments='{"place": "Łó'), ToolCall("c1", "weather", None)),
            (called(arguments="[]"), ToolCall("c1", "weather", None)),
            (called(arguments=""), ToolCall("c1", "weather", None)),
            (called(arguments='{"place": 7}'), ToolCall("c1", "weather", {"place": 7})),
            (called("launch"), ToolCall("c1", "launch", {"place": "Łódź"})),
            (called(id=None), ToolCall("", "weather", {"place": "Łódź"})),
            (7, ToolCall("", "", None)),
        ],
    )
    async def test_broken_answer_gives_the_readable_tool_calls(
        self, server: ModelServer, provider: OpenAIProvider, way: Way, bad: Any, read: ToolCall
    ) -> None:
        server.reply = lambda _: way([bad], "error")

        deltas = await heard(provider, CALL)

        assert tool_calls(deltas) == [read]
        assert last(deltas, "finish_reason") == "error"

    async def test_tool_calls_without_end_are_given_up(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        more = (said(tool_calls=[{"index": index, "function": {}}]) for index in itertools.count())
        server.reply = lambda _: Reply(more)

        with pytest.raises(errors.ProviderInvalidResponse, match="tool calls"):
            await heard(provider, CALL)

    @pytest.mark.parametrize("key", ["id", "name", "arguments"])
    async def test_a_tool_call_without_end_is_given_up(
        self, server: ModelServer, provider: OpenAIProvider, key: str
    ) -> None:
        call = {**called(id="c"), key: "x" * 1_000_000}
        call["function"] = {"name": "weather", "arguments": "{}", key: "x" * 1_000_000}
        more = (said(tool_calls=[{"index": index, **call}]) for index in itertools.count())
        server.reply = lambda _: Reply(more)

        with pytest.raises(errors.ProviderInvalidResponse, match="the answer has more than"):
            await heard(provider, CALL)
