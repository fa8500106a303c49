"""Parameters that a server does not accept: what is sent instead, and what is remembered."""

# ruff: noqa: E501  (tables)

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import orjson
import pytest

from tests.support.deltas import heard, text_of
from tests.support.model_server import ModelServer, Reply, event, streamed
from trustgraph_prompt import errors
from trustgraph_prompt.ask import ask
from trustgraph_prompt.cost import Budget, Price
from trustgraph_prompt.llm import Call, Message, OpenAIProvider, RuntimeConfig
from trustgraph_prompt.prompts import PromptDefinition, Question

MESSAGES = [Message("user", "Name one.")]
EVERYTHING = RuntimeConfig(
    temperature=0.0,
    max_tokens=100,
    top_p=0.9,
    seed=7,
    frequency_penalty=0.1,
    presence_penalty=0.1,
    stop_sequences=("END",),
)

DETAIL = {
    "type": "extra_forbidden",
    "loc": ["body", "seed"],
    "msg": "Extra inputs are not permitted",
    "input": 7,
}

UNSUPPORTED: list[tuple[str, Any]] = [
    ("temperature", "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported."),
    ("temperature", {"message": "Nope.", "code": "unsupported_parameter", "param": "temperature"}),
    ("temperature", "gpt-5 models don't support temperature=0. Only temperature=1 is supported."),
    ("temperature", "litellm.UnsupportedParamsError: openai does not support parameters: ['temperature'], for model=gpt-5"),
    ("temperature", "temperature: Extra inputs are not permitted"),
    ("temperature", "`temperature` is deprecated for this model."),
    ("stream_options", "Unrecognized request argument supplied: stream_options"),
    ("stream_options", "Unknown parameter: 'stream_options.include_usage'."),
    ("stream_options", "[{'type': 'extra_forbidden', 'loc': ('body', 'stream_options'), 'msg': 'Extra inputs are not permitted', 'input': {}}]"),
    ("frequency_penalty", 'Invalid JSON payload received. Unknown name "frequency_penalty": Cannot find field.'),
    ("presence_penalty", "Argument not supported on this model: presencePenalty"),
    ("top_p", {"detail": [{"loc": ["body", "top_p"], "msg": "extra fields not permitted", "type": "value_error.extra"}]}),
    ("seed", {"detail": [DETAIL]}),
    ("seed", {"detail": DETAIL}),
    ("seed", {"detail": {"seed": ["Unknown field."]}}),
    ("seed", {"object": "error", "message": {"detail": [DETAIL]}, "type": "invalid_request_error"}),
    ("seed", "create() got an unexpected keyword argument 'seed'"),
    ("stop", "Unsupported parameter: 'stop' is not supported with this model."),
]  # fmt: skip

VALUES = [
    "max_tokens is too large: 100000. This model supports at most 16384 completion tokens.",
    "`max_tokens` must be less than or equal to `8192`",
    "This model does not support max_tokens greater than 4096",
    "Invalid 'seed': integer above maximum value.",
    "temperature must be <= 2",
    "temperature above 1 is not supported",
    "`temperature` and `top_p` cannot both be specified for this model.",
    "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
    "Unknown parameter: 'reasoning_effort'.",
    "The model does not know when to stop",
]


def refusal(said: Any, status: int = 400) -> Reply:
    body = said if isinstance(said, dict) and "code" not in said else {"error": said}
    body = {"error": {"message": said}} if isinstance(said, str) else body
    return Reply([orjson.dumps(body)], status, content_type="application/json")


def without(*names: str, said: Callable[[str], Any] = lambda name: f"Unsupported parameter: '{name}'") -> Any:
    """A server that accepts none of these parameters, and names one at a time."""

    def reply(body: dict[str, Any]) -> Reply:
        found = [name for name in names if name in body]
        return refusal(said(found[0])) if found else Reply(streamed("{}"))

    return reply


@pytest.fixture
async def provider(server: ModelServer) -> AsyncIterator[OpenAIProvider]:
    async with OpenAIProvider(server.url, "small") as provider:
        yield provider


async def asked(provider: OpenAIProvider, config: RuntimeConfig = EVERYTHING, **more: Any) -> str:
    return text_of(await heard(provider, Call(MESSAGES, config=config, **more)))


@pytest.mark.parametrize("status", [400, 422])
@pytest.mark.parametrize(("name", "said"), UNSUPPORTED)
async def test_unsupported_parameter_is_left_out_and_remembered(
    server: ModelServer, provider: OpenAIProvider, name: str, said: Any, status: int
) -> None:
    server.reply = lambda body: refusal(said, status) if name in body else Reply(streamed("{}"))

    assert [await asked(provider) for _ in range(2)] == ["{}", "{}"]

    assert [name in body for body in server.bodies] == [True, False, False]
    assert server.bodies[1] == {key: value for key, value in server.bodies[0].items() if key != name}


async def test_parameter_of_the_extras_is_an_error_at_once(
    server: ModelServer, provider: OpenAIProvider
) -> None:
    server.reply = lambda body: refusal("Unsupported parameter: 'seed'")

    with pytest.raises(errors.ProviderInvalidRequest, match="seed"):
        await asked(provider, RuntimeConfig(extras={"seed": 7}))

    assert [body["seed"] for body in server.bodies] == [7]


@pytest.mark.parametrize("words", VALUES)
async def test_refused_value_is_an_error_at_once(
    server: ModelServer, provider: OpenAIProvider, words: str
) -> None:
    server.reply = lambda body: refusal(words)

    with pytest.raises(errors.ProviderInvalidRequest):
        await asked(provider)

    assert len(server.bodies) == 1


async def test_parameter_that_was_not_sent_is_an_error_at_once(
    server: ModelServer, provider: OpenAIProvider
) -> None:
    server.reply = lambda body: refusal("Unsupported parameter: 'seed'")

    with pytest.raises(errors.ProviderInvalidRequest, match="seed"):
        await asked(provider, RuntimeConfig())

    assert len(server.bodies) == 1


async def test_all_refused_parameters_are_left_out_of_one_call(
    server: ModelServer, provider: OpenAIProvider, caplog: pytest.LogCaptureFixture
) -> None:
    server.reply = without("max_tokens", "temperature", "top_p", "stream_options")

    for _ in range(2):
        await asked(provider)

    assert len(server.bodies) == 6
    assert sorted(record.getMessage() for record in caplog.records if record.levelno == logging.WARNING) == [
        f"{server.url}/v1: the model 'small' does not accept {name}: calls are sent {how}"
        for name, how in (
            ("max_tokens", "under its other name"),
            *((name, "without it") for name in ("stream_options", "temperature", "top_p")),
        )
    ]


async def test_limit_has_its_newer_name_where_the_server_wants_it(
    server: ModelServer, provider: OpenAIProvider
) -> None:
    words = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    server.reply = without("max_tokens", said=lambda name: words)

    await asked(provider)
    await asked(provider, RuntimeConfig(max_tokens=50, extras={"max_completion_tokens": 30}))

    limits = [(body.get("max_tokens"), body.get("max_completion_tokens")) for body in server.bodies]
    assert limits == [(100, None), (None, 100), (None, 30)]


async def test_limit_has_its_older_name_where_the_server_wants_it(
    server: ModelServer, provider: OpenAIProvider
) -> None:
    server.reply = without("max_completion_tokens")

    await asked(provider, RuntimeConfig(extras={"max_completion_tokens": 30}))

    assert [body.get("max_tokens") for body in server.bodies] == [None, 30]


async def test_limit_is_never_dropped(server: ModelServer, provider: OpenAIProvider) -> None:
    server.reply = without("max_tokens", "max_completion_tokens")

    with pytest.raises(errors.ProviderInvalidRequest, match="nothing limits the answer") as refused:
        await asked(provider)
    assert "budget" in str(refused.value)
    server.reply = without("max_completion_tokens")
    assert await asked(provider) == "{}", "nothing was learned from a call without an answer"


async def test_limit_returns_to_its_older_name_with_another_server_behind_the_address(
    server: ModelServer, provider: OpenAIProvider
) -> None:
    for name in ("max_tokens", "max_completion_tokens", "max_tokens"):
        server.reply = without(name)
        assert await asked(provider) == "{}"

    assert ["max_tokens" in body for body in server.bodies] == [True, False, False, True, True, False]


async def test_parameter_is_sent_again_after_a_call_that_failed_without_it(
    server: ModelServer, provider: OpenAIProvider
) -> None:
    server.reply = lambda body: (
        refusal("Unsupported parameter: 'seed'") if "seed" in body else refusal("no", 500)
    )
    with pytest.raises(errors.ProviderUnavailable):
        await asked(provider)
    server.reply = lambda body: Reply(streamed("{}"))

    await asked(provider)

    assert "seed" in server.bodies[-1]


async def test_parameter_that_one_model_refuses_is_sent_to_another(
    server: ModelServer, provider: OpenAIProvider
) -> None:
    server.reply = without("seed")
    await asked(provider)
    server.bodies.clear()

    await asked(provider, RuntimeConfig(seed=7, model="large"))
    await asked(provider, RuntimeConfig(seed=7, model="large"))

    assert ["seed" in body for body in server.bodies] == [True, False, False]


async def test_parameter_and_schema_are_refused_in_one_call(
    server: ModelServer, provider: OpenAIProvider
) -> None:
    server.reply = without("seed", "response_format", said=lambda name: f"{name} is not supported")
    schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}

    for _ in range(2):
        assert await asked(provider, response_schema=schema) == "{}"

    assert len(server.bodies) == 5
    assert provider.schema_path == "prompt"


async def test_refusal_within_the_stream_counts_before_the_first_piece(
    server: ModelServer, provider: OpenAIProvider
) -> None:
    no = event({"error": {"message": "Unsupported parameter: 'seed'", "code": 400}})
    server.reply = lambda body: Reply([no]) if "seed" in body else Reply(streamed("{}"))

    assert await asked(provider) == "{}"


async def test_budget_counts_no_call_for_a_refused_parameter(
    server: ModelServer, provider: OpenAIProvider
) -> None:
    server.reply = without("max_tokens")

    prompt = PromptDefinition.from_entry("q", {"dialect": "jinja", "prompt": "?", "response-type": "json"})

    budget = Budget(tokens=2_000, money=1.0, attempts=1)
    outcome = await ask(prompt, Question("", "Name one."), provider, budget=budget, price=Price(1, 1))

    assert outcome.ok
    assert [call.why for call in outcome.calls] == ["first"]
    assert 0 < server.bodies[-1]["max_completion_tokens"] < 2_000
