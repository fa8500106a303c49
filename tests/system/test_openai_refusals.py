"""What servers refuse, and what of their words is shown."""

# ruff: noqa: E501  (tables)

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime

import orjson
import pytest

from tests.support.deltas import CALL, heard
from tests.support.model_server import (
    DONE,
    ModelServer,
    Reply,
    Then,
    event,
    said,
    whole,
)
from trustgraph_prompt import errors
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.llm import OpenAIProvider, Timeout

KEY = "sk-very-secret-0123456789"

GEMINI = '[{"error": {"code": 400, "message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT"}}]'
XAI = '{"code": "Client specified an invalid argument", "error": "Incorrect API key provided: sk-1."}'
QUOTED = f'{{"error": {{"message": "not JSON: {"x" * 100} invalid API key"}}}}'
AZURE = '{"error": {"message": "The response was filtered due to the prompt triggering our policy.", "type": null, "param": "prompt", "code": "content_filter", "status": 400}}'


def rate(limit: int, requested: int, used: str = "") -> str:
    """How OpenAI and Groq refuse a request for the tokens of a minute."""
    words = f"Request too large for model `m` on tokens per minute (TPM): Limit {limit}, {used}Requested {requested}, please reduce"
    return orjson.dumps(
        {"error": {"message": words, "type": "tokens", "code": "rate_limit_exceeded"}}
    ).decode()


@pytest.fixture
async def provider(server: ModelServer) -> AsyncIterator[OpenAIProvider]:
    async with OpenAIProvider(server.url, "small", api_key=KEY) as provider:
        yield provider


@asynccontextmanager
async def listening(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[str]:
    """The URL of a server that speaks bytes, and is heard to its end."""
    ended: list[asyncio.Event] = []

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ended.append(asyncio.Event())
        at = len(ended) - 1
        try:
            await serve(reader, writer)
            writer.close()
            await writer.wait_closed()
        finally:
            ended[at].set()

    server = await asyncio.start_server(one, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await asyncio.gather(*(each.wait() for each in ended))


class TestRefusals:
    @pytest.mark.parametrize(
        ("status", "body", "kind"),
        [
            (401, '{"error": {"message": "who are you"}}', errors.ProviderAuthentication),
            (402, "pay first", errors.ProviderAuthentication),
            (403, "", errors.ProviderAuthentication),
            (404, '{"error": {"message": "The model `x` does not exist"}}', errors.ProviderInvalidModel),
            (404, "page not found", errors.ProviderInvalidRequest),
            (408, "too slow", errors.ProviderUnavailable),
            (413, "too long", errors.ProviderInvalidRequest),
            (422, '{"detail": [{"loc": ["body"]}]}', errors.ProviderInvalidRequest),
            (429, '{"error": {"message": "slow down"}}', errors.ProviderRateLimit),
            (429, '{"error": {"message": "No billing found for you"}}', errors.ProviderRateLimit),
            (429, '{"error": {"code": "insufficient_quota"}}', errors.ProviderAuthentication),
            (429, '{"error": {"type": "insufficient_quota", "code": null}}', errors.ProviderAuthentication),
            (400, '{"error": {"code": "model_not_found"}}', errors.ProviderInvalidModel),
            (400, "[" * 1020 + "]" * 1020, errors.ProviderInvalidRequest),
            (400, '{"error":' * 1000 + "1" + "}" * 1000, errors.ProviderInvalidRequest),
            (400, '{"detail":' * 1000 + "1" + "}" * 1000, errors.ProviderInvalidRequest),
            (400, '{"error": {"code": 400, "message": "bad body"}}', errors.ProviderInvalidRequest),
            (
                400,
                '{"error": {"code": "image_content_not_supported"}}',
                errors.ProviderUnsupportedContentBlock,
            ),
            (500, "<html>oops</html>", errors.ProviderUnavailable),
            (502, "", errors.ProviderUnavailable),
            (503, '{"error": {"message": "Loading model"}}', errors.ProviderModelNotLoaded),
            (503, "busy", errors.ProviderUnavailable),
            (529, "overloaded", errors.ProviderUnavailable),
            (307, "", errors.ProviderInvalidRequest),
            (400, GEMINI, errors.ProviderAuthentication),
            (400, XAI, errors.ProviderAuthentication),
            (400, QUOTED, errors.ProviderInvalidRequest),
            (400, AZURE, errors.ProviderInvalidRequest),
            (413, rate(6_000, 7_015), errors.ProviderInvalidRequest),
            (413, '{"error": {"code": "rate_limit_exceeded"}}', errors.ProviderInvalidRequest),
            (429, rate(30_000, 40_000), errors.ProviderInvalidRequest),
            (429, rate(6_000, 1_000, "Used 5800, "), errors.ProviderRateLimit),
        ],
    )
    async def test_status_decides_the_class_of_the_error(
        self,
        server: ModelServer,
        provider: OpenAIProvider,
        status: int,
        body: str,
        kind: type[errors.ProviderError],
    ) -> None:
        server.reply = lambda _: Reply([body.encode()], status, {"Location": "/elsewhere"}, "text/plain")

        with pytest.raises(errors.ProviderError) as caught:
            await heard(provider)

        assert type(caught.value) is kind
        assert str(status) in str(caught.value)
        assert server.url in str(caught.value)

    @pytest.mark.parametrize(
        ("header", "seconds"),
        [
            ("30", 30),
            ("0.5", 0.5),
            ("-3", 0),
            ("nan", None),
            ("inf", None),
            ("soon", None),
            ("Wed, 01 Jan 2020 00:00:00 GMT", 0),
            ("Fri, 31 Dec 9999 23:59:59 -2300", None),
            ("9" * 400, None),
        ],
    )
    async def test_retry_after_is_understood(
        self, server: ModelServer, provider: OpenAIProvider, header: str, seconds: float | None
    ) -> None:
        server.reply = lambda _: Reply([b"slow"], 429, {"Retry-After": header})

        with pytest.raises(errors.ProviderRateLimit) as caught:
            await heard(provider)

        assert caught.value.retry_after == seconds

    @pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=-7))])
    async def test_retry_after_may_be_a_date(
        self, server: ModelServer, provider: OpenAIProvider, zone: timezone
    ) -> None:
        tomorrow = format_datetime(datetime.now(zone) + timedelta(days=1))
        server.reply = lambda _: Reply([b"slow"], 503, {"Retry-After": tomorrow})

        with pytest.raises(errors.ProviderUnavailable) as caught:
            await heard(provider)

        assert caught.value.retry_after == pytest.approx(86400, abs=120)

    async def test_an_error_never_shows_the_key(self, server: ModelServer, provider: OpenAIProvider) -> None:
        server.reply = lambda _: Reply([f"Incorrect API key provided: {KEY}".encode()], 401)

        with pytest.raises(errors.ProviderAuthentication, match="Incorrect API key provided") as caught:
            await heard(provider)

        assert KEY not in str(caught.value)
        assert KEY not in repr(provider)
        assert KEY not in repr(vars(caught.value))

    @pytest.mark.parametrize(
        "reply",
        [
            Reply([f"no route for /v1/chat/completions?key={KEY}".encode()], 404),
            Reply([], 302, {"Location": f"https://elsewhere/?key={KEY}"}),
            Reply([said("Hello"), event({"error": {"message": f"bad key {KEY}", "code": 401}})]),
            Reply([f"<html>{KEY}</html>".encode()]),
            Reply([b"slow down"], 429),
        ],
    )
    async def test_an_error_never_shows_what_the_query_says(self, server: ModelServer, reply: Reply) -> None:
        server.reply = lambda _: reply
        async with OpenAIProvider(f"{server.url}/v1?key={KEY}", "small") as provider:
            with pytest.raises(errors.ProviderError) as caught:
                await heard(provider)

            assert KEY not in str(caught.value) + repr(caught.value.__cause__) + repr(provider)

    async def test_request_beyond_the_tokens_of_a_minute_is_too_long(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        server.reply = lambda _: Reply([rate(6_000, 7_015).encode()], 413)

        with pytest.raises(
            errors.ProviderInvalidRequest, match="tokens per minute: with its answer it has 7,015"
        ):
            await heard(provider)

    async def test_content_filter_is_named(self, server: ModelServer, provider: OpenAIProvider) -> None:
        server.reply = lambda _: Reply([AZURE.encode()], 400)

        with pytest.raises(errors.ProviderInvalidRequest, match="content filter refused the question"):
            await heard(provider)

    @pytest.mark.parametrize(
        "body",
        [
            {
                "object": "error",
                "message": {"detail": [{"loc": ["body", "n"], "msg": "no such", "type": "x"}]},
                "type": "invalid_request_error",
            },
            {"detail": [{"loc": ["body", "n"], "msg": "no such", "type": "x"}, {"msg": 7}, "more"]},
            {"detail": [{"loc": ["body", "n"], "msg": "no such", "type": "x"}, {"msg": "", "type": {}}]},
            {"error": None, "detail": {"loc": ["body", "n"], "msg": "no such", "type": "x"}},
        ],
    )
    async def test_errors_of_each_key_are_shown(
        self, server: ModelServer, provider: OpenAIProvider, body: object
    ) -> None:
        server.reply = lambda _: Reply([orjson.dumps(body)], 422)

        with pytest.raises(errors.ProviderInvalidRequest, match=r"HTTP 422: body\.n no such \(x\)"):
            await heard(provider)

    async def test_the_servers_words_are_bounded(self, server: ModelServer, provider: OpenAIProvider) -> None:
        server.reply = lambda _: Reply(itertools.repeat(b"x" * 1000), 500)

        with pytest.raises(errors.ProviderUnavailable) as caught:
            await heard(provider)

        assert len(str(caught.value)) < 1000

    @pytest.mark.parametrize("status", [b"401 Unauthorized", b"429 Too Many Requests"])
    @pytest.mark.parametrize("then", [Then.DROP, Then.HANG])
    async def test_status_decides_although_the_body_never_comes(self, status: bytes, then: Then) -> None:
        async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 %s\r\nRetry-After: 30\r\nContent-Length: 1000\r\n\r\n{" % status)
            await writer.drain()
            if then is Then.HANG:
                await reader.read()

        kind = errors.ProviderRateLimit if b"429" in status else errors.ProviderAuthentication
        async with (
            listening(refuse) as url,
            OpenAIProvider(url, "small", timeout=Timeout(first=1)) as provider,
        ):
            with pytest.raises(kind) as caught:
                await heard(provider)

        assert caught.value.retry_after == 30


class TestSecrets:
    @pytest.mark.parametrize("length", [12, 450, 800])
    @pytest.mark.parametrize(
        "reply",
        [
            lambda key: Reply([orjson.dumps({"error": {"message": f"Invalid token: {key}"}})], 401),
            lambda key: Reply([f"Invalid token: {'x' * 470} {key}".encode()], 401),
            lambda key: Reply([b'{"oops": "' + key.encode() + b'"']),
            lambda key: Reply([b"<html>" + b"x" * 180 + key.encode()]),
            lambda key: Reply([event({"error": {"message": f"Invalid token: {'x' * 470} {key}"}})]),
            lambda key: Reply([], 302, {"Location": f"https://elsewhere/{'x' * 170}{key}"}),
            lambda key: whole(tool_calls=[{"id": key, "function": {"arguments": "{}"}}]),
        ],
    )
    async def test_shortened_message_shows_no_piece_of_the_key(
        self, server: ModelServer, reply: Callable[[str], Reply], length: int
    ) -> None:
        key = "".join(itertools.islice(itertools.cycle("eyJhbGciOiJSUzI1NiJ9.SECRET"), length))
        server.reply = lambda _: reply(key)
        async with OpenAIProvider(server.url, "small", api_key=key) as provider:
            with pytest.raises(errors.ProviderError) as caught:
                await heard(provider)

        assert key[:4] not in str(caught.value)
        assert "[secret]" in str(caught.value) or length > 12

    @pytest.mark.parametrize(
        "reply", [Reply([KEY.encode()], 401), Reply([KEY.encode()]), Reply([KEY.encode()], 302)]
    )
    async def test_error_has_no_context_that_could_show_the_key(
        self, server: ModelServer, reply: Reply
    ) -> None:
        server.reply = lambda _: reply
        async with OpenAIProvider(server.url, "small", api_key=KEY) as provider:
            for asked in (heard(provider), provider.ready()):
                with pytest.raises(errors.ProviderError) as caught:
                    await asked

                assert caught.value.__context__ is None

    async def test_a_password_is_found_as_json_writes_it(self, server: ModelServer) -> None:
        password = 'pass"word"0123'
        server.reply = lambda _: Reply([orjson.dumps([password])], 401)
        url = server.url.replace("//", "//me:pass%22word%220123@")
        async with OpenAIProvider(url, "small") as provider:
            with pytest.raises(errors.ProviderAuthentication) as caught:
                await heard(provider)

        assert "0123" not in str(caught.value)

    @pytest.mark.parametrize(
        "url",
        [
            f"http://me:{KEY}?x@host:8080/v1",
            f"http://me:x?{KEY}@host:8080/v1",
            f"me:{KEY}@host",
        ],
    )
    def test_a_url_that_cannot_be_read_is_not_shown(self, url: str) -> None:
        with pytest.raises(ConfigError, match="the base URL is not valid") as caught:
            OpenAIProvider(url, "small")

        assert KEY not in str(caught.value) + repr(vars(caught.value))


class TestAQuestionThatIsTooLong:
    @pytest.mark.parametrize(
        ("words", "told"),
        [
            ("This model's maximum context length is 4097 tokens. However, your messages resulted in 5000 tokens.",
             "the question does not fit the model's context: it has 5,000 tokens; the server allows 4,097"),
            ("This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (7500 in the messages, 1500 in the completion).",
             "question and answer together do not fit the model's context: the question has 7,500 tokens, the answer may have up to 1,500; the server allows 8,192"),
            ("Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300100 tokens.",
             "it has 300,100 tokens; the server allows 272,000"),
            ("This model's maximum context length is 4096 tokens. However, your request has 5000 input tokens.",
             "it has 5,000 tokens; the server allows 4,096"),
            ("'max_tokens' or 'max_completion_tokens' is too large: 5000. This model's maximum context length is 4096 tokens and your request has 30 input tokens (5000 > 4096 - 30).",
             "the question has 30 tokens, the answer may have up to 5,000; the server allows 4,096"),
            ("The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
             "it has 5,000 tokens; the server allows 4,096"),
            ("Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of 5100 tokens: 5000 tokens from the input messages and 100 tokens for the completion.",
             "it has 5,000 tokens; the server allows 4,096"),
            ("Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
             "it has 40,000 tokens; the server allows 32,768"),
            ("prompt is too long: 210000 tokens > 200000 maximum", "it has 210,000 tokens; the server allows 200,000"),
            ("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length",
             "the question has 190,000 tokens, the answer may have up to 20,000; the server allows 200,000"),
            ("The input token count (1,100,000) exceeds the maximum number of tokens allowed (1048575).",
             "it has 1,100,000 tokens; the server allows 1,048,575"),
            ("Trying to keep the first 9055 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough.",
             "it has 9,055 tokens; the server allows 4,096"),
            ("input is too large to process. increase the physical batch size (current batch size: 512)",
             "tokens (estimated); the server allows 512"),
            ("The number of tokens to keep from the initial prompt is greater than the context length.",
             "tokens (estimated); the server does not say how many it allows"),
            ("not enough space in the context",
             "tokens (estimated); the server does not say how many it allows"),
            ("the request exceeds the available context size. try increasing the context size",
             "tokens (estimated); the server does not say how many it allows"),
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("status", [400, 413, 500])
    async def test_too_long_question_names_its_tokens_and_the_servers_limit(
        self, server: ModelServer, provider: OpenAIProvider, words: str, told: str, status: int
    ) -> None:
        server.reply = lambda _: Reply([orjson.dumps({"error": {"message": words}})], status=status)
        with pytest.raises(errors.ProviderInvalidRequest) as caught:
            await heard(provider)
        assert words in str(caught.value)
        assert str(caught.value).endswith(told)
        assert caught.value.loggable.endswith(told)
        assert words not in caught.value.loggable

    @pytest.mark.parametrize(
        "words",
        [
            "The number of tokens to keep from the initial prompt is greater than the context length.",
            "input is too large to process. increase the physical batch size (current batch size: 512)",
            "the model is loaded with context length of only 4096 tokens, which is not enough",
        ],
    )
    @pytest.mark.parametrize("error", [{"type": "server_error"}, {"code": 500}, None])
    async def test_too_long_question_is_an_invalid_request_where_its_error_is_streamed(
        self, server: ModelServer, provider: OpenAIProvider, words: str, error: dict[str, object] | None
    ) -> None:
        said = words if error is None else {"message": words, **error}
        server.reply = lambda _: Reply([event({"error": said})])
        with pytest.raises(errors.ProviderInvalidRequest, match="does not fit the model's context"):
            await heard(provider)

    @pytest.mark.parametrize(
        "name", [{"code": "context_length_exceeded"}, {"type": "exceed_context_size_error"}]
    )
    async def test_too_long_question_is_recognized_by_the_code_of_the_error(
        self, server: ModelServer, provider: OpenAIProvider, name: dict[str, str]
    ) -> None:
        error = {"message": "Please reduce the length.", "n_prompt_tokens": 300, "n_ctx": True, **name}
        server.reply = lambda _: Reply([orjson.dumps({"error": error})], status=400)
        with pytest.raises(errors.ProviderInvalidRequest, match="it has 300 tokens; the server does not say"):
            await heard(provider)

    @pytest.mark.parametrize(
        ("words", "status", "kind"),
        [
            ("the parameter context_length is not supported", 400, errors.ProviderInvalidRequest),
            ("the schema is too large", 400, errors.ProviderInvalidRequest),
            ("not enough memory", 500, errors.ProviderUnavailable),
            ("slow down, the context window of this minute is exceeded", 429, errors.ProviderRateLimit),
            ("9" * 4_000, 400, errors.ProviderInvalidRequest),
        ],
    )
    async def test_other_refusals_are_not_taken_for_a_too_long_question(
        self,
        server: ModelServer,
        provider: OpenAIProvider,
        words: str,
        status: int,
        kind: type[errors.ProviderError],
    ) -> None:
        server.reply = lambda _: Reply([orjson.dumps({"error": {"message": words}})], status=status)
        with pytest.raises(kind) as caught:
            await heard(provider)
        assert "does not fit" not in str(caught.value)


class TestErrorsWithinAnAnswer:
    @pytest.mark.parametrize(
        ("error", "kind"),
        [
            ({"message": "out of memory"}, errors.ProviderUnavailable),
            ({"message": "bad", "code": 400}, errors.ProviderInvalidRequest),
            ({"message": "slow down", "code": 429}, errors.ProviderRateLimit),
            ({"message": "slow down", "code": "429", "type": "None"}, errors.ProviderRateLimit),
            ({"message": "slow down", "status": 429}, errors.ProviderRateLimit),
            ({"message": "bad", "code": "400"}, errors.ProviderInvalidRequest),
            ({"message": "bad", "code": "9" * 5000, "status": "INVALID"}, errors.ProviderUnavailable),
            ({"message": "no", "code": "context_length_exceeded"}, errors.ProviderInvalidRequest),
            ({"message": "no", "type": "authentication_error"}, errors.ProviderAuthentication),
            ({"message": "no", "type": "invalid_request_error"}, errors.ProviderInvalidRequest),
            ({"message": "no", "type": "server_error"}, errors.ProviderUnavailable),
            ("it broke", errors.ProviderUnavailable),
        ],
    )
    async def test_an_error_inside_the_stream_is_raised_after_what_came(
        self, server: ModelServer, provider: OpenAIProvider, error: object, kind: type[errors.ProviderError]
    ) -> None:
        server.reply = lambda _: Reply([said("Hello"), event({"error": error}), DONE])
        deltas = provider.stream(CALL)

        assert (await anext(deltas)).text == "Hello"
        with pytest.raises(kind) as caught:
            await anext(deltas)
        assert "HTTP 5" not in str(caught.value)
        assert "None" not in str(caught.value)

    async def test_an_error_inside_the_stream_may_stand_alone(
        self, server: ModelServer, provider: OpenAIProvider
    ) -> None:
        error = event({"object": "error", "message": "no", "type": "BadRequestError", "code": 400})
        server.reply = lambda _: Reply([said("Hello"), error, DONE])

        with pytest.raises(errors.ProviderInvalidRequest, match="no"):
            await heard(provider)


async def test_loggable_error_has_address_and_status_and_not_the_servers_words(
    server: ModelServer, provider: OpenAIProvider
) -> None:
    server.reply = lambda body: Reply([b"no room for Jane"], status=503)
    with pytest.raises(errors.ProviderUnavailable, match="Jane") as refused:
        await heard(provider, CALL)
    assert refused.value.loggable == f"{server.url}/v1/chat/completions: HTTP 503"


async def test_a_path_that_is_not_there_asks_about_the_base_url(
    server: ModelServer, provider: OpenAIProvider
) -> None:
    server.reply = lambda body: Reply([b"page not found"], status=404)
    with pytest.raises(errors.ProviderInvalidRequest, match="page not found; check the base URL"):
        await heard(provider, CALL)


async def test_loggable_error_says_that_nobody_listens() -> None:
    async with OpenAIProvider("http://127.0.0.1:9", "small") as provider:
        with pytest.raises(errors.ProviderUnavailable) as refused:
            await heard(provider, CALL)
    assert "Cannot connect to 127.0.0.1:9" in refused.value.loggable
