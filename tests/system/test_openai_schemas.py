"""How a response schema goes to an OpenAI-compatible server, and what is learned of what it takes."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable
from typing import Any, Literal

import orjson
import pytest

from tests.support.deltas import heard, text_of
from tests.support.model_server import ModelServer, Reply, event, said, streamed
from trustgraph_prompt import errors
from trustgraph_prompt.llm import Call, Delta, Message, OpenAIProvider, RuntimeConfig, TextBlock, Tool

MESSAGES = [Message("system", "Be brief."), Message("user", "Name one.")]


def closed(*names: str, **more: Any) -> dict[str, Any]:
    """A schema that is taken as strict."""
    properties = {name: {"type": "string"} for name in names}
    return {
        "type": "object",
        "properties": properties,
        "required": list(names),
        "additionalProperties": False,
        **more,
    }


CLOSED = closed("zoo", "ant")
OPEN = {"type": "object", "properties": {"a": {"oneOf": [{"type": "string"}, {"type": "null"}]}}}

FEATURE: list[Any] = [
    "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
    "This model does not support response format `json_schema`.",
    "response_format value as json_schema is enabled only for api versions 2024-08-01-preview and later",
    "This response_format type is unavailable now",
    "Unrecognized request argument supplied: response_format",
    "create() got an unexpected keyword argument 'response_format'",
    "'response_format.type' must be 'text' or 'json_object'",
    'response_format type must be one of "text" or "json_object", but got: json_schema',
    "Unknown parameter: 'response_format.json_schema.strict'.",
    "json_schema is not available for this model",
    "Structured outputs are not supported by this model",
    "Json mode response is not supported when enable_thinking is true",
    [
        {
            "type": "extra_forbidden",
            "loc": ["body", "response_format"],
            "msg": "Extra inputs are not permitted",
        }
    ],
]
ONE_SCHEMA = [
    "Invalid schema for response_format 'x': In context=('properties', 'a'), 'oneOf' is not permitted.",
    "JSON schema error: unsupported keyword",
    "failed to parse grammar",
    "The provided JSON schema contains features not supported by xgrammar.",
    "Structured outputs with response_format are not supported together with tools",
    "Unsupported property 'pattern' in json_schema",
    "unsupported json schema: 'pattern'",
    "json_schema: property 'a' must be listed in 'required'",
    "response_format.json_schema.schema: 'pattern' is not supported",
    "Invalid response_format: extra keys 'pattern' are not permitted",
    "Invalid value for 'response_format': unknown keyword 'pattern'",
    "strict mode does not support oneOf",
    "json_schema is not supported with minItems",
]


def refusal(words: Any, status: int = 400) -> Reply:
    body = {"detail": words} if isinstance(words, list) else {"error": {"message": words}}
    return Reply([orjson.dumps(body)], status, content_type="application/json")


def path_of(body: dict[str, Any]) -> str:
    """Which path a request went."""
    if "response_format" not in body:
        return "prompt"
    return "strict" if body["response_format"]["json_schema"]["strict"] else "native"


def taking(*paths: str, words: Any = FEATURE[0], status: int = 400) -> Callable[[dict[str, Any]], Reply]:
    """A server that takes only these paths."""

    def reply(body: dict[str, Any]) -> Reply:
        return Reply(streamed("{}")) if path_of(body) in paths else refusal(words, status)

    return reply


async def asked(provider: OpenAIProvider, schema: Any = CLOSED, **more: Any) -> list[Delta]:
    return await heard(provider, Call(MESSAGES, response_schema=schema, **more))


def paths(server: ModelServer) -> list[str]:
    return [path_of(body) for body in server.bodies]


class TestTheWire:
    async def test_schema_is_sent_as_it_was_written(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        await asked(provider)

        (body,) = server.bodies
        asked_for = body["response_format"]["json_schema"]
        assert body["response_format"].keys() == {"type", "json_schema"}
        assert body["response_format"]["type"] == "json_schema"
        assert asked_for.keys() == {"name", "schema", "strict"}
        assert orjson.dumps(asked_for["schema"]) == orjson.dumps(CLOSED)
        assert [message["content"] for message in body["messages"]] == ["Be brief.", "Name one."]

    async def test_request_without_a_schema_does_not_mention_one(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        deltas = await asked(provider, None)

        assert "response_format" not in server.bodies[0]
        assert {delta.schema_path for delta in deltas} == {None}
        assert provider.schema_path is None

    @pytest.mark.parametrize(("schema", "path"), [(CLOSED, "strict"), (OPEN, "native")])
    async def test_schema_is_sent_as_strict_where_it_may_be(
        self, server: ModelServer, provider: OpenAIProvider, schema: Any, path: str
    ) -> None:
        deltas = await asked(provider, schema)

        assert paths(server) == [path]
        assert [delta.schema_path for delta in deltas[:2]] == [path, None]
        assert provider.schema_path == path

    @pytest.mark.parametrize("title", ["Zoo_1-a", "x" * 64])
    async def test_the_title_is_the_name(
        self, server: ModelServer, provider: OpenAIProvider, title: str
    ) -> None:
        await asked(provider, closed("a", title=title))

        assert server.bodies[0]["response_format"]["json_schema"]["name"] == title

    @pytest.mark.parametrize(
        "title", [{}, {"title": "My zoo"}, {"title": ""}, {"title": "x" * 65}, {"title": 7}]
    )
    async def test_title_that_is_no_name_is_replaced_by_a_stable_one(
        self, server: ModelServer, title: dict[str, Any]
    ) -> None:
        for _ in range(2):
            async with OpenAIProvider(server.url, "small") as provider:
                await asked(provider, closed("a", **title))
                await asked(provider, closed("b", **title))

        names = [body["response_format"]["json_schema"]["name"] for body in server.bodies]
        assert names[:2] == names[2:]
        assert names[0] != names[1]
        assert all(name.isidentifier() and len(name) <= 64 for name in names)


class TestFallingBack:
    @pytest.mark.parametrize("status", [400, 422])
    @pytest.mark.parametrize("words", FEATURE + ONE_SCHEMA)
    async def test_a_refused_schema_is_asked_for_in_words(
        self, server: ModelServer, provider: OpenAIProvider, words: Any, status: int
    ) -> None:
        server.reply = taking("prompt", words=words, status=status)

        deltas = await asked(provider)

        assert paths(server) == ["strict", "native", "prompt"]
        assert text_of(deltas) == "{}"
        assert deltas[0].schema_path == "prompt"
        assert provider.schema_path == "prompt"

    @pytest.mark.parametrize("status", [500, 501])
    @pytest.mark.parametrize(
        "words", ["failed to parse grammar", "Grammar error: unsupported", "Failed to initialize samplers"]
    )
    async def test_grammar_error_of_the_server_leads_to_the_next_path(
        self, server: ModelServer, provider: OpenAIProvider, words: str, status: int
    ) -> None:
        server.reply = taking("prompt", words=words, status=status)

        assert text_of(await asked(provider)) == "{}"
        assert paths(server) == ["strict", "native", "prompt"]

    async def test_path_that_is_given_up_is_logged_once(
        self, server: ModelServer, provider: OpenAIProvider, caplog: pytest.LogCaptureFixture
    ) -> None:
        server.reply = taking("prompt", words=ONE_SCHEMA[0])

        for schema in (closed("a", title="zoo"), closed("a", title="zoo")):
            await asked(provider, schema)

        model = f"{server.url}/v1: the model 'small'"
        assert [record.getMessage() for record in caplog.records] == [
            f"{model} does not accept the response schema zoo as {path!r}" for path in ("strict", "native")
        ]

    async def test_schema_refused_as_strict_is_sent_without_strict(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        server.reply = taking("native", words="'strict' is not supported")

        deltas = await asked(provider)
        await asked(provider, closed("b"))

        assert paths(server) == ["strict", "native", "native"]
        assert deltas[0].schema_path == provider.schema_path == "native"

    async def test_a_refusal_within_the_stream_counts_before_the_first_piece(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        no = event({"error": {"message": FEATURE[0], "code": 400}})
        server.reply = lambda body: (
            Reply(streamed("{}")) if path_of(body) == "prompt" else Reply([b": wait\n\n", no])
        )

        assert text_of(await asked(provider)) == "{}"

        server.reply = lambda body: Reply([said("{"), no])
        with pytest.raises(errors.ProviderInvalidRequest):
            await asked(provider)

    @pytest.mark.parametrize("words", FEATURE)
    async def test_path_that_the_model_refuses_is_not_tried_again(
        self, server: ModelServer, provider: OpenAIProvider, words: Any
    ) -> None:
        server.reply = taking("prompt", words=words)

        for schema in (CLOSED, closed("b"), OPEN, CLOSED):
            await asked(provider, schema)

        assert paths(server) == ["strict", "native", "prompt", "prompt", "prompt", "prompt"]

    @pytest.mark.parametrize("words", ONE_SCHEMA)
    async def test_refusal_of_one_schema_does_not_change_the_path_of_others(
        self, server: ModelServer, provider: OpenAIProvider, words: Any
    ) -> None:
        server.reply = lambda body: (
            refusal(words) if "zoo" in str(body.get("response_format")) else Reply(streamed("{}"))
        )

        for schema in (CLOSED, CLOSED, closed("b"), CLOSED):
            await asked(provider, schema)

        assert paths(server) == ["strict", "native", "prompt", "prompt", "strict", "prompt"]
        assert provider.schema_path == "strict"

    async def test_path_that_the_model_took_once_is_kept_for_other_schemas(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        await asked(provider, closed("b"))
        server.reply = lambda body: (
            refusal(FEATURE[0]) if "zoo" in str(body.get("response_format")) else Reply(streamed("{}"))
        )
        for schema in (CLOSED, closed("c"), CLOSED):
            await asked(provider, schema)

        assert paths(server) == ["strict", "strict", "native", "prompt", "strict", "prompt"]

    @pytest.mark.parametrize("words", [FEATURE[0], ONE_SCHEMA[-1]])
    async def test_schema_refused_beside_tools_is_sent_as_strict_without_them(
        self, server: ModelServer, provider: OpenAIProvider, words: str
    ) -> None:
        server.reply = lambda body: (
            refusal(words) if body.keys() >= {"tools", "response_format"} else Reply(streamed("{}"))
        )
        tools = [Tool("now", "Tells the time.", {"type": "object"})]

        await asked(provider, tools=tools)
        await asked(provider)
        await asked(provider, tools=tools)

        assert paths(server) == ["strict", "native", "prompt", "strict", "prompt"]

    async def test_schema_paths_are_tried_again_after_a_call_that_failed_on_all(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        server.reply = lambda body: refusal("Invalid schema of tool 'x'")
        with pytest.raises(errors.ProviderInvalidRequest, match="of tool 'x'"):
            await asked(provider)
        server.reply = taking("strict")

        await asked(provider)

        assert paths(server) == ["strict", "native", "prompt", "strict"]

    @pytest.mark.parametrize(
        ("status", "words", "kind"),
        [
            (400, "max_tokens is too large", errors.ProviderInvalidRequest),
            (400, "Your account is restricted", errors.ProviderInvalidRequest),
            (401, "response_format is not supported", errors.ProviderAuthentication),
            (429, "response_format is not supported", errors.ProviderRateLimit),
            (429, "failed to parse grammar", errors.ProviderRateLimit),
            (500, "response_format is not supported", errors.ProviderUnavailable),
        ],
    )
    async def test_refusals_of_other_things_are_raised_at_once(
        self, server: ModelServer, provider: OpenAIProvider, status: int, words: str, kind: type[Exception]
    ) -> None:
        server.reply = lambda body: refusal(words, status)

        with pytest.raises(kind):
            await asked(provider)

        assert paths(server) == ["strict"]

    async def test_two_schemas_refused_in_the_same_words_end_the_path_for_all(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        server.reply = taking("prompt", words="failed to parse grammar")

        for schema in (CLOSED, CLOSED, closed("b"), closed("c")):
            await asked(provider, schema)

        three = ["strict", "native", "prompt"]
        assert paths(server) == [*three, "prompt", *three, "prompt"]

    async def test_schemas_refused_in_different_words_leave_the_path_to_others(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        server.reply = lambda body: (
            refusal(f"Invalid schema: {body['response_format']['json_schema']['schema']['required']}")
            if "response_format" in body
            else Reply(streamed("{}"))
        )

        for name in ("a", "b", "c"):
            await asked(provider, closed(name))

        assert paths(server) == ["strict", "native", "prompt"] * 3

    async def test_refused_beginning_of_an_answer_leaves_the_schema_path_as_it_is(
        self, server: ModelServer
    ) -> None:
        server.reply = lambda body: (
            refusal("Failed to initialize samplers")
            if body["messages"][-1]["role"] == "assistant" and "response_format" in body
            else Reply(streamed("{}"))
        )
        begun = [*MESSAGES, Message("assistant", "Sure! ")]
        async with OpenAIProvider(server.url, "small", prefill="assistant") as provider:
            for name in ("a", "b"):
                await heard(provider, Call(begun, response_schema=closed(name)))
            await asked(provider, closed("c"))

        assert paths(server)[-1] == "strict"

    async def test_a_thousand_refused_schemas_do_not_fill_the_memory(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        await asked(provider)
        server.reply = taking("prompt", words=ONE_SCHEMA[0])
        for number in range(1_001):
            await asked(provider, {"type": "object", "maxProperties": number})
        server.bodies.clear()

        await asked(provider, {"type": "object", "maxProperties": 1_000})
        await asked(provider, {"type": "object", "maxProperties": 0})

        assert paths(server) == ["prompt", "native", "prompt"]


class TestAnAnswerThatIsReportedAsAnError:
    """Groq reports an answer that is not the JSON of its schema as an error, with the answer."""

    @staticmethod
    def failed(
        answer: Any, words: str = "Generated JSON does not match the expected schema."
    ) -> dict[str, Any]:
        error = {"message": words, "type": "invalid_request_error", "code": "json_validate_failed"}
        return {"error": {**error, "failed_generation": answer}}

    @pytest.mark.parametrize("answer", ['{"zoo": 1}', ""])
    async def test_answer_reported_as_an_error_is_the_answer(
        self, server: ModelServer, provider: OpenAIProvider, answer: str
    ) -> None:
        body = self.failed(answer)
        server.reply = lambda _: Reply([orjson.dumps(body)], 400, content_type="application/json")

        for _ in range(2):
            (delta,) = await asked(provider)
            assert (delta.text, delta.finish_reason, delta.usage) == (answer, None, None)

        assert paths(server) == ["strict", "strict"]

    async def test_answer_reported_as_an_error_ends_the_stream(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        server.reply = lambda _: Reply([said('{"zoo"'), said(": 1"), event(self.failed('{"zoo": 1'))])

        assert text_of(await asked(provider)) == '{"zoo": 1'

    async def test_answer_reported_as_an_error_is_truncated_where_tokens_ran_out(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        words = "max completion tokens reached before generating a valid document"
        server.reply = lambda _: Reply([event(self.failed('{"zoo": 1', words))])

        (delta,) = await asked(provider)
        assert (delta.text, delta.finish_reason) == ('{"zoo": 1', "length")


class TestManyAtATime:
    @pytest.mark.parametrize("able", [("prompt",), ("native", "prompt"), ("strict", "native", "prompt")])
    async def test_concurrent_first_calls_find_the_same_path(
        self, server: ModelServer, provider: OpenAIProvider, able: tuple[str, ...]
    ) -> None:
        server.reply = taking(*able)

        answers = await asyncio.gather(*(asked(provider, closed(f"p{n % 7}")) for n in range(40)))

        assert {text_of(deltas) for deltas in answers} == {"{}"}
        assert {deltas[0].schema_path for deltas in answers} == {able[0]}
        assert provider.schema_path == able[0]
        server.bodies.clear()
        await asked(provider, closed("new"))
        assert paths(server) == [able[0]]


class TestAnotherModel:
    async def test_path_of_one_model_says_nothing_about_another(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        server.reply = taking("prompt")
        await asked(provider)
        await heard(provider, Call(MESSAGES, config=RuntimeConfig(model="large"), response_schema=CLOSED))

        assert paths(server) == ["strict", "native", "prompt"] * 2
        server.bodies.clear()

        await asked(provider)
        await heard(provider, Call(MESSAGES, config=RuntimeConfig(model="large"), response_schema=CLOSED))
        assert paths(server) == ["prompt"] * 2


class TestOverriding:
    async def test_native_schema_true_raises_where_the_server_refuses_it(self, server: ModelServer) -> None:
        server.reply = taking("prompt")
        async with OpenAIProvider(server.url, "small", native_schema=True) as provider:
            with pytest.raises(errors.ProviderInvalidRequest, match="not supported with this model"):
                await asked(provider)

        assert paths(server) == ["strict"]

    async def test_native_schema_false_puts_the_schema_into_the_prompt_at_once(
        self, server: ModelServer
    ) -> None:
        async with OpenAIProvider(server.url, "small", native_schema=False) as provider:
            assert provider.schema_path == "prompt"
            deltas = await asked(provider)

        assert paths(server) == ["prompt"]
        assert deltas[0].schema_path == "prompt"


class TestInWords:
    @pytest.fixture
    async def provider(self, server: ModelServer) -> AsyncIterator[OpenAIProvider]:
        async with OpenAIProvider(server.url, "small", native_schema=False) as provider:
            yield provider

    async def test_schema_in_words_is_at_the_end_of_the_system_message(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        messages = copy.deepcopy(MESSAGES)

        await heard(provider, Call(messages, response_schema=CLOSED))

        system, user = server.bodies[0]["messages"]
        assert system["role"] == "system"
        assert system["content"].startswith("Be brief.\n\n")
        assert orjson.dumps(CLOSED).decode() in system["content"]
        assert user == {"role": "user", "content": "Name one."}
        assert messages == MESSAGES

    async def test_schema_in_words_is_a_system_message_where_there_is_none(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        await heard(provider, Call(MESSAGES[1:], response_schema=CLOSED))

        assert [message["role"] for message in server.bodies[0]["messages"]] == ["system", "user"]
        assert orjson.dumps(CLOSED).decode() in server.bodies[0]["messages"][0]["content"]

    async def test_schema_in_words_is_a_block_beside_blocks(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        messages = [Message("system", (TextBlock("Be brief."),)), *MESSAGES[1:]]

        await heard(provider, Call(messages, response_schema=CLOSED))

        first, directive = server.bodies[0]["messages"][0]["content"]
        assert first == {"type": "text", "text": "Be brief."}
        assert orjson.dumps(CLOSED).decode() in directive["text"]

    async def test_schema_already_in_words_is_not_repeated(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        deltas = await asked(provider, schema_in_words=False)

        assert server.bodies[0]["messages"][0]["content"] == "Be brief."
        assert deltas[0].schema_path == "prompt"

    async def test_extras_may_ask_for_json_while_the_schema_is_in_words(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        config = RuntimeConfig(extras={"response_format": {"type": "json_object"}})

        await asked(provider, config=config)

        assert server.bodies[0]["response_format"] == {"type": "json_object"}

    @pytest.mark.parametrize("prefill", ["vllm", "prefix"])
    async def test_schema_goes_into_the_prompt_beside_a_beginning_of_the_answer(
        self, server: ModelServer, prefill: Literal["vllm", "prefix"]
    ) -> None:
        begun = [*MESSAGES, Message("assistant", "{")]
        async with OpenAIProvider(server.url, "small", prefill=prefill) as provider:
            deltas = await heard(provider, Call(begun, response_schema=CLOSED))
            assert provider.schema_path is None
            await asked(provider)

        assert paths(server) == ["prompt", "strict"]
        assert deltas[0].schema_path == "prompt"

    async def test_schema_is_sent_with_a_beginning_to_a_server_with_assistant_prefill(
        self, server: ModelServer
    ) -> None:
        begun = [*MESSAGES, Message("assistant", "{")]
        async with OpenAIProvider(server.url, "small", prefill="assistant") as provider:
            await heard(provider, Call(begun, response_schema=CLOSED))

        assert paths(server) == ["strict"]
