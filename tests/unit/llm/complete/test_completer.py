"""What `complete` makes of an answer, over a scripted provider."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.cost import Usage
from trustgraph_prompt.errors import (
    ProviderInvalidResponse,
    ProviderUnavailable,
    Reason,
    StructuredOutputInvalid,
)
from trustgraph_prompt.llm import (
    Call,
    Delta,
    Limiter,
    Limits,
    Message,
    RetryPolicy,
    ScriptedAnswer,
    ScriptedProvider,
    Tool,
    ToolCall,
)
from trustgraph_prompt.llm.provider import ProviderWrapper
from trustgraph_prompt.reader import Stage
from trustgraph_prompt.reader.decode import decode

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
ASKED = [{"role": "user", "content": "Which number?"}]
LOOK = Tool("look", "Look there.", {"type": "object", "properties": {"at": {"type": "string"}}})


def saying(text: str, **more: Any) -> ScriptedProvider:
    return ScriptedProvider([ScriptedAnswer(text, **more)])


def giving(*deltas: Delta) -> ScriptedProvider:
    return ScriptedProvider(lambda call: deltas)


async def refused(
    provider: ScriptedProvider, schema: Any = SCHEMA, **options: Any
) -> StructuredOutputInvalid:
    with pytest.raises(StructuredOutputInvalid) as caught:
        await provider.complete(ASKED, response_schema=schema, **options)
    return caught.value


class TestWithoutASchema:
    @pytest.mark.parametrize("text", ['{"n": 1}', "", " żółć 🦉\r\n\u2028 "])
    async def test_content_is_returned_unparsed_without_a_schema(self, text: str) -> None:
        response = await saying(text).complete(ASKED)

        assert response.message == Message("assistant", text)
        assert response.parsed is None
        assert response.stage is None
        assert response.finish_reason == "stop"

    @pytest.mark.parametrize("finish_reason", ["length", "content_filter", "error", None])
    async def test_response_is_returned_whatever_the_finish_reason(self, finish_reason: Any) -> None:
        response = await saying("I ra", finish_reason=finish_reason).complete(ASKED)

        assert (response.message.content, response.finish_reason) == ("I ra", finish_reason)

    async def test_response_has_all_that_the_deltas_had(self) -> None:
        response = await giving(
            Delta(thinking="H"),
            Delta("Se", model="small", thinking="m."),
            Delta("a.", schema_path="strict"),
            Delta(finish_reason="stop", usage=Usage(3, 4, 7)),
            Delta(raw={"id": "x"}),
        ).complete(ASKED)

        assert (response.message.content, response.thinking) == ("Sea.", "Hm.")
        assert (response.model, response.schema_path, response.raw) == ("small", "strict", {"id": "x"})
        assert response.usage == Usage(3, 4, 7)
        [call] = response.calls
        assert (call.why, call.text, call.usage, call.error) == ("first", "Sea.", Usage(3, 4, 7), None)

    async def test_usage_and_finish_reason_stay_unknown_where_nobody_reported_them(self) -> None:
        response = await giving(Delta("Sea.")).complete(ASKED)

        assert (response.usage, response.raw, response.finish_reason) == (Usage(), {}, None)

    async def test_response_cannot_be_changed(self) -> None:
        response = await saying("Sea.").complete(ASKED)

        with pytest.raises(FrozenInstanceError):
            response.parsed = None  # type: ignore[misc]


class TestWithASchema:
    @pytest.mark.parametrize("text", ['{"n": 1}', ' \r\n{ "n" : 1 }\n\n', '{"n": 2, "n": 1}'])
    async def test_whole_content_is_parsed_with_a_schema(self, text: str) -> None:
        response = await saying(text).complete(ASKED, response_schema=SCHEMA)

        assert response.parsed == {"n": 1}
        assert response.message.content == text
        assert response.stage is Stage.DIRECT

    async def test_integers_keep_all_their_digits(self) -> None:
        response = await saying('{"n": 123456789012345678901234567890}').complete(
            ASKED, response_schema=SCHEMA
        )

        assert response.parsed == {"n": 123456789012345678901234567890}

    @pytest.mark.parametrize("path", ["strict", "native"])
    async def test_stage_is_native_where_the_provider_held_the_value_to_the_schema(self, path: Any) -> None:
        response = await giving(Delta('{"n": 1}', schema_path=path)).complete(ASKED, response_schema=SCHEMA)

        assert response.stage is Stage.NATIVE

    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            ('```json\n{"n": 1}\n```', "other text around"),
            ('Here it is: {"n": 1}', "other text around"),
            ('<think>\n{"n": 1}\n</think>\n{"n": 1}', "other text around"),
            ('{"n": 1}\n{"n": 2}', "2 different values"),
            ("", "empty"),
            ("\n", "empty"),
            ("one", "no JSON"),
            ('{"n": 1', "ends within a value"),
            ('{"n": 1,}', "no JSON"),
            ('{"n": NaN}', "no JSON"),
            ('{"n": 1e999}', "no JSON"),
            ("[" * 100_000, "ends within a value"),
            ("1", "expected object, found integer 1"),
            ('[{"n": 1}]', "expected object"),
            ("{}", '"n" is missing'),
            ('{"n": "1"}', '/n: expected integer, found string "1"'),
        ],
    )
    async def test_content_with_anything_but_one_valid_value_is_invalid(
        self, text: str, complaint: str
    ) -> None:
        error = await refused(saying(text, usage=Usage(3, 4, 7)))

        assert complaint in error.error_message
        assert (error.output_content, error.response_schema) == (text, SCHEMA)
        assert (error.finish_reason, error.usage) == ("stop", Usage(3, 4, 7))
        assert (error.category, error.transient) == ("structured_output_invalid", False)
        assert error.issues
        assert error.outcome is not None
        assert not error.outcome.ok
        assert error.outcome.calls == error.calls

    async def test_issue_of_invalid_content_has_its_path(self) -> None:
        schema = {"type": "object", "properties": {"a/b": {"type": "array", "items": SCHEMA}}}
        error = await refused(saying('{"a/b": [{"n": 1}, {"n": null}]}'), schema)

        assert [issue.path for issue in error.issues] == ["/a~1b/1/n"]
        assert error.error_message.startswith("/a~1b/1/n: ")

    @pytest.mark.parametrize("text", ['{"n": 1', "", '{"n": 1}'])
    async def test_truncated_content_is_invalid(self, text: str) -> None:
        error = await refused(saying(text, finish_reason="length"))

        assert (error.finish_reason, error.output_content) == ("length", text)
        assert error.issues[0].reason is Reason.TRUNCATED

    async def test_refusal_of_the_model_is_invalid(self) -> None:
        error = await refused(saying("I would rather not.", finish_reason="content_filter"))

        assert (error.finish_reason, error.output_content) == ("content_filter", "I would rather not.")
        assert error.issues[0].reason is Reason.REFUSED

    async def test_content_broken_off_by_the_provider_is_caused_by_provider_unavailable(self) -> None:
        error = await refused(saying('{"n": ', finish_reason="error"))

        assert isinstance(error.__cause__, ProviderUnavailable)


class TestByAContract:
    """A contract says itself what may be around the value, and what may be mended."""

    @pytest.mark.parametrize("text", ['```json\n{"n": 1}\n```', 'Here it is: {"n": 1}'])
    async def test_value_is_found_in_other_text_with_a_contract(self, text: str) -> None:
        response = await saying(text).complete(ASKED, response_schema=Contract.from_schema(SCHEMA))

        assert (response.parsed, response.stage) == ({"n": 1}, Stage.EXTRACTED)
        assert response.message.content == text

    async def test_content_is_repaired_as_the_contract_allows(self) -> None:
        contract = Contract.from_schema(SCHEMA, repair=True, coerce=True, extra="ignore")
        response = await saying("{n: '1', m: 2,}").complete(ASKED, response_schema=contract)

        assert (response.parsed, response.stage) == ({"n": 1}, Stage.REPAIRED)

    async def test_truncated_value_is_closed_up_only_where_the_contract_allows_it(self) -> None:
        cut = saying('{"n": 1, "m": [2, ', finish_reason="length")
        response = await cut.complete(ASKED, response_schema=Contract.from_schema(SCHEMA, repair=True))

        assert (response.parsed, response.stage) == ({"n": 1, "m": [2]}, Stage.SALVAGED)
        assert (await refused(cut, Contract.from_schema(SCHEMA))).finish_reason == "length"

    async def test_invariants_of_the_contract_hold(self) -> None:
        contract = Contract.from_schema(SCHEMA, invariants=["n > 1"])

        assert "n > 1" in (await refused(saying('{"n": 1}'), contract)).error_message


class TestTools:
    async def test_content_is_not_parsed_where_the_model_calls_tools(self) -> None:
        call = ToolCall("call_1", "look", {"at": "sea"})
        provider = giving(Delta('{"n": 1}'), Delta(tool_calls=(call,)), Delta(finish_reason="tool_calls"))
        response = await provider.complete(ASKED, [LOOK], None, SCHEMA)

        assert response.message == Message("assistant", '{"n": 1}', (call,))
        assert response.parsed is None
        assert response.finish_reason == "tool_calls"

    @pytest.mark.parametrize("finish_reason", ["stop", None])
    async def test_forced_tool_call_has_the_finish_reason_tool_calls(self, finish_reason: Any) -> None:
        call = ToolCall("call_1", "look", {})
        forced = {"type": "tool", "name": "look"}
        provider = giving(Delta(tool_calls=(call,), finish_reason=finish_reason))
        response = await provider.complete(ASKED, [LOOK], None, SCHEMA, tool_choice=forced)

        assert (response.parsed, response.finish_reason) == (None, "tool_calls")

    async def test_content_is_parsed_where_the_model_calls_no_tool(self) -> None:
        response = await saying('{"n": 1}').complete(ASKED, [LOOK], None, SCHEMA)

        assert response.parsed == {"n": 1}

    @pytest.mark.parametrize(
        ("call", "complaint"),
        [
            (ToolCall("1", "jump", {}), "the model called an unknown tool 'jump'; the tools are: look"),
            (ToolCall("1", "look", None), "the arguments of 'look' are not a JSON object"),
            (ToolCall("1", "look", {"at": 7}), "of 'look' are invalid: /at: expected string"),
            (ToolCall("", "look", {}), "a call of tool 'look' has no id"),
        ],
    )
    async def test_invalid_tool_call_is_an_invalid_response(self, call: ToolCall, complaint: str) -> None:
        with pytest.raises(ProviderInvalidResponse, match=complaint) as caught:
            await giving(Delta(tool_calls=(call,), usage=Usage(3, 4, 7))).complete(ASKED, [LOOK])

        assert caught.value.usage == Usage(3, 4, 7)
        assert caught.value.calls[0].error is not None

    async def test_two_tool_calls_with_one_id_are_an_invalid_response(self) -> None:
        call = ToolCall("1", "look", {})
        with pytest.raises(ProviderInvalidResponse, match="two tool calls have the same id '1'"):
            await giving(Delta(tool_calls=(call, call))).complete(ASKED, [LOOK])

    async def test_error_about_truncated_arguments_says_that_they_were_truncated(self) -> None:
        call = ToolCall("1", "look", None, '{"at": "se')
        with pytest.raises(ProviderInvalidResponse, match=r"not a JSON object \(the answer was truncated"):
            await giving(Delta(tool_calls=(call,), finish_reason="length")).complete(ASKED, [LOOK])

    async def test_content_is_not_parsed_after_finish_reason_tool_calls_without_a_call(self) -> None:
        provider = giving(Delta('{"n": 1}'), Delta(finish_reason="tool_calls"))
        response = await provider.complete(ASKED, [LOOK], None, SCHEMA)

        assert (response.message.content, response.parsed) == ('{"n": 1}', None)
        assert response.finish_reason == "tool_calls"

    @pytest.mark.parametrize("arguments", ['{"at": "\\ud83d"}', '{"at": "sea", "n": 123456789012345678901}'])
    async def test_tool_call_is_sent_back_as_it_was_written(self, arguments: str) -> None:
        call = ToolCall("1", "look", decode(arguments), arguments)
        first = await giving(Delta(tool_calls=(call,))).complete(ASKED, [LOOK])
        result = {"role": "tool", "tool_call_id": "1", "content": "water"}
        calls: list[Call] = []
        again = ScriptedProvider(lambda call: calls.append(call) or "Sea.")  # type: ignore[func-returns-value]
        await again.complete([*ASKED, first.message, result], [LOOK])

        assert calls[0].messages[1].tool_calls[0].arguments_text == arguments

    async def test_invalid_tool_call_is_returned_where_the_provider_broke_off(self) -> None:
        calls = (ToolCall("1", "jump", None), ToolCall("1", "look", {"at": 7}))
        response = await giving(Delta(tool_calls=calls, finish_reason="error")).complete(ASKED, [LOOK])

        assert (response.message.tool_calls, response.finish_reason) == (calls, "error")


class TestEndsThatBreak:
    """What the model had said why it stopped is whole, however its connection ends."""

    def breaking(self, *deltas: Delta) -> tuple[ScriptedProvider, list[Call]]:
        calls: list[Call] = []

        def answer(call: Call) -> Iterable[Delta]:
            calls.append(call)
            yield from deltas
            raise ProviderUnavailable("the connection broke")

        return ScriptedProvider(answer), calls

    async def test_response_stands_where_the_connection_breaks_after_a_finish_reason(self) -> None:
        provider, calls = self.breaking(Delta('{"n": 1}'), Delta(finish_reason="stop", usage=Usage(3, 4, 7)))
        response = await provider.complete(ASKED, response_schema=SCHEMA, retry=RetryPolicy())

        assert (response.parsed, response.usage) == ({"n": 1}, Usage(3, 4, 7))
        assert len(calls) == 1
        assert response.calls[0].error == "provider_unavailable: the connection broke"

    async def test_tool_calls_stand_where_the_connection_breaks_after_them(self) -> None:
        call = ToolCall("1", "look", {})
        provider, _ = self.breaking(Delta(tool_calls=(call,), finish_reason="tool_calls"))

        assert (await provider.complete(ASKED, [LOOK])).message.tool_calls == (call,)

    @pytest.mark.parametrize("finish_reason", [None, "tool_calls"])
    async def test_response_without_finish_reason_or_tool_calls_fails_with_the_connection(
        self, finish_reason: Any
    ) -> None:
        provider, _ = self.breaking(Delta("Let me see."), Delta(finish_reason=finish_reason))

        with pytest.raises(ProviderUnavailable, match="the connection broke"):
            await provider.complete(ASKED, [LOOK])


class TestListening:
    async def test_every_delta_is_heard(self) -> None:
        deltas = [Delta("a", thinking="x"), Delta("b"), Delta(finish_reason="stop")]
        heard: list[Delta] = []

        async def listen(delta: Delta) -> None:
            heard.append(delta)

        response = await giving(*deltas).complete(ASKED, stream=True, listen=listen)

        assert heard == deltas
        assert response.message.content == "ab"

    @pytest.mark.parametrize("stream", [True, False])
    async def test_provider_is_asked_to_stream_or_not(self, stream: bool) -> None:
        streamed: list[bool] = []
        provider = ScriptedProvider(lambda call: streamed.append(call.stream) or "Sea.")  # type: ignore[func-returns-value]
        await provider.complete(ASKED, stream=stream)

        assert streamed == [stream]

    async def test_error_of_the_listener_ends_the_call_and_is_not_tried_again(self) -> None:
        calls = []

        def answer(call: Any) -> Iterable[Delta]:
            calls.append(call)
            return [Delta("a"), Delta("b")]

        async def listen(delta: Delta) -> None:
            raise ValueError("no room")

        with pytest.raises(ValueError, match="no room"):
            await ScriptedProvider(answer).complete(
                ASKED, stream=True, listen=listen, retry=RetryPolicy(classifier=lambda error: True)
            )
        assert len(calls) == 1


async def test_wrapper_around_a_provider_can_complete() -> None:
    response = await ProviderWrapper(saying('{"n": 1}')).complete(ASKED, response_schema=SCHEMA)

    assert response.parsed == {"n": 1}


async def test_wrapper_closes_the_provider_within() -> None:
    closed = []

    class Closing(ScriptedProvider):
        async def close(self) -> None:
            closed.append(self)

    within = Closing([])
    async with Limiter(within, Limits()) as limiter:
        assert isinstance(limiter, Limiter)
        assert not closed

    assert closed == [within]
