"""A call as a text-completion request, and its responses as an answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest

from tests.support.deltas import CALL, heard
from trustgraph_prompt import errors, wire
from trustgraph_prompt.broker import Message as Letter
from trustgraph_prompt.broker.protocol import Resending
from trustgraph_prompt.cost import Usage
from trustgraph_prompt.llm import (
    Call,
    Delta,
    ImageBlock,
    Message,
    RuntimeConfig,
    TextBlock,
    Tool,
    ToolCall,
    TopicProvider,
    topic_messages,
)

CONVERSATION = Call(
    [
        Message("system", "Be brief."),
        Message("user", "Which?"),
        Message("assistant", '{"n": 1}'),
        Message("user", "Go on."),
    ],
    RuntimeConfig(temperature=0.0, max_tokens=100, stop_sequences=("x",), extras={"top_k": 3}),
    response_schema={"type": "object", "properties": {"b": {}, "a": {}}},
    schema_in_words=False,
    stream=False,
    labels={"prompt": "numbers", "call": "2"},
)


def through(call: Call) -> wire.TextCompletionRequest:
    """The request as the other side has it."""
    return wire.TextCompletionRequest.decode(topic_messages.request(call).encode())


class Answering:
    """A caller whose calls are answered as written."""

    closed = False

    def __init__(self, *responses: bytes, error: errors.BrokerError | None = None) -> None:
        self.responses = responses
        self.error = error
        self.left = False
        self.asked: list[bytes] = []

    async def call(
        self, data: bytes, *, resending: Resending | None = None, **how: object
    ) -> AsyncGenerator[Letter, None]:
        assert resending is not None
        self.asked.append(data)
        resending.sent("a")
        try:
            for response in self.responses:
                yield Letter(response, "t", "1", properties={"id": "a"})
            if self.error is not None:
                raise self.error
        finally:
            self.left = True

    async def close(self) -> None: ...


def test_question_is_sent_as_system_and_prompt() -> None:
    request = through(CALL)

    assert (request.system, request.prompt, request.messages) == ("Be brief.", "Say it.", None)
    assert (request.operation, request.streaming) == ("completion", True)
    assert (request.response_format, request.schema, request.settings) == (None, None, None)
    assert request.direct


def test_conversation_is_sent_in_words_too() -> None:
    request = through(CONVERSATION)

    assert request.system == "Be brief."
    assert request.prompt == 'User:\nWhich?\n\nAssistant:\n{"n": 1}\n\nUser:\nGo on.'


def test_examples_are_sent_to_workers_of_ours_and_not_to_trustgraphs() -> None:
    system, user = CALL.messages
    example = [Message("user", "Which?", is_example=True), Message("assistant", "1", is_example=True)]
    request = through(Call([system, *example, user]))

    assert (request.system, request.prompt) == ("Be brief.", "Say it.")
    assert [message.text for message in topic_messages.call(request).messages] == [
        "Be brief.", "Which?", "1", "Say it."
    ]  # fmt: skip


def test_conversation_after_examples_is_sent_in_words_without_them() -> None:
    example = [Message("user", "Which?", is_example=True), Message("assistant", "1", is_example=True)]
    system, *others = CONVERSATION.messages
    request = through(replace(CONVERSATION, messages=[system, *example, *others]))

    assert request.prompt == through(CONVERSATION).prompt
    assert request.messages is not None
    assert len(request.messages) == len(CONVERSATION.messages) + 2


SYSTEM, USER = CALL.messages


@pytest.mark.parametrize(
    "call", [CALL, CONVERSATION, Call([USER]), Call([USER, SYSTEM]), Call([SYSTEM, SYSTEM, USER])]
)
def test_call_is_decoded_unchanged(call: Call) -> None:
    assert topic_messages.call(through(call)) == call


def test_unknown_and_empty_settings_of_a_request_are_ignored() -> None:
    call = topic_messages.call(
        wire.TextCompletionRequest(
            system=" \n",
            prompt="Say it.",
            response_format="text",
            schema={"type": "object"},
            settings={"temperature": None, "a later setting": 1, "top_p": 1},
        )
    )

    assert call == Call([USER], RuntimeConfig(top_p=1), stream=False)


@pytest.mark.parametrize("name", ["temperature", "top_p", "frequency_penalty", "presence_penalty"])
def test_boolean_in_place_of_a_number_is_refused(name: str) -> None:
    with pytest.raises(errors.RequestError, match=f"settings/{name}"):
        topic_messages.call(wire.TextCompletionRequest(settings={name: True}))


def test_model_is_sent_among_the_settings() -> None:
    call = Call([USER], RuntimeConfig(model="gemma"))
    assert topic_messages.call(through(call)) == call


@pytest.mark.parametrize("name", [1, "", "m" * 201])
def test_invalid_name_of_a_model_is_refused(name: object) -> None:
    with pytest.raises(errors.RequestError, match="settings/model"):
        topic_messages.call(wire.TextCompletionRequest(settings={"model": name}))


@pytest.mark.parametrize("number", ["", "one", "-1", "1.0", "٣", "1" * 10])
def test_label_call_must_be_a_number(number: str) -> None:
    with pytest.raises(errors.RequestError, match=r"labels/call: found .*, expected the number of a call"):
        topic_messages.call(wire.TextCompletionRequest(labels={"call": number}))


def test_text_blocks_are_sent_as_one_text() -> None:
    blocks = (TextBlock("Say "), TextBlock("it."))

    assert through(Call([Message("user", blocks)])).prompt == "Say it."


def test_keys_of_a_schema_stay_in_order() -> None:
    schema = through(CONVERSATION).schema

    assert schema is not None
    assert list(schema["properties"]) == ["b", "a"]


IMAGE = Message("user", (TextBlock("What is this?"), ImageBlock(url="http://x/y.png")))
REFUSED = {
    "an image": (Call([IMAGE]), errors.ProviderUnsupportedContentBlock),
    "a tool": (Call(CALL.messages, tools=[Tool("t", "", {})]), errors.ProviderInvalidRequest),
    "a tool's result": (
        Call([Message("tool", "1", tool_call_id="c")]),
        errors.ProviderInvalidRequest,
    ),
    "a tool call": (
        Call([Message("assistant", "", (ToolCall("c", "t", {}),))]),
        errors.ProviderInvalidRequest,
    ),
    "what is no JSON": (Call(CALL.messages, response_schema={"a": {1, 2}}), errors.ProviderInvalidRequest),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_call_that_the_wire_cannot_express_is_refused(what: str) -> None:
    call, error = REFUSED[what]

    with pytest.raises(error):
        await heard(TopicProvider(Answering()), call)


@pytest.mark.parametrize("kind", errors.PROVIDER_ERRORS.values())
def test_category_of_an_error_is_kept(kind: type[errors.ProviderError]) -> None:
    back = topic_messages.cause(topic_messages.error(kind("because: of this")), 3.0)

    assert type(back) is kind
    assert str(back) == "because: of this"
    assert back.retry_after == 3.0


@pytest.mark.parametrize(
    ("type", "kind"),
    [
        ("llm-error", errors.ProviderUnexplained),
        ("too-many-requests", errors.ProviderRateLimit),
        ("shutting-down", errors.ProviderUnavailable),
        ("invalid-request", errors.ProviderInvalidRequest),
        ("", errors.ProviderUnavailable),
    ],
)
def test_error_of_another_worker_has_the_category_of_its_type(
    type: str, kind: type[errors.ProviderError]
) -> None:
    with pytest.raises(kind, match="Error code: 503"):
        raise topic_messages.cause(wire.Error(type, "Error code: 503"))


async def test_answer_of_trustgraphs_worker_is_read() -> None:
    caller = Answering(
        b'{"error": null, "response": "Hel", "in_token": null, "out_token": null, "model": "m", '
        b'"end_of_stream": false, "models": []}',
        b'{"error": null, "response": "lo", "end_of_stream": false}',
        b'{"error": null, "response": "", "in_token": 7, "out_token": 3, "model": "m", '
        b'"end_of_stream": true}',
        b"never heard",
    )

    deltas = await heard(TopicProvider(caller))

    assert [delta.text for delta in deltas] == ["Hel", "lo", ""]
    assert deltas[-1] == Delta(usage=Usage(7, 3, 10), model="m")
    assert caller.left


async def test_text_before_an_error_is_given() -> None:
    caller = Answering(
        b'{"response": "Hel"}',
        b'{"error": {"type": "llm-error", "message": "gone"}, "response": null, "in_token": 7}',
    )
    given: list[Delta] = []

    async def take() -> None:
        async for delta in TopicProvider(caller).stream(CALL):
            given.append(delta)

    with pytest.raises(errors.ProviderUnavailable, match="gone"):
        await take()

    assert [delta.text for delta in given] == ["Hel", ""]
    assert given[-1].usage == Usage(7)


async def test_model_of_an_answer_is_that_of_the_provider_where_none_is_named() -> None:
    deltas = await heard(
        TopicProvider(Answering(b'{"response": "a", "end_of_stream": true}'), model="theirs")
    )

    assert deltas == [Delta("a", model="theirs")]


@pytest.mark.parametrize(
    ("response", "says"),
    [
        (b"hello", "not JSON"),
        (b"[]", "expected an object"),
        (b'{"response": 1}', "TextCompletionResponse/response"),
        (b'{"in_token": "7"}', "in_token"),
        (b'{"error": "no"}', "error"),
        (b'{"usage": {"prompt_tokens": 0.5}}', "usage/prompt_tokens"),
        (b"[" * 100_000, "not JSON"),
        (b'{"error": null, "response": null, "end_of_stream": true}', "neither an answer nor an error"),
    ],
)
async def test_malformed_response_is_a_provider_error(response: bytes, says: str) -> None:
    with pytest.raises(errors.ProviderInvalidResponse, match=says):
        await heard(TopicProvider(Answering(response)))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.CallTimeout("no response in 600 s"), errors.ProviderUnavailable),
        (errors.BrokerClosed("closed"), errors.ProviderUnavailable),
        (errors.BrokerUnavailable("away"), errors.ProviderUnavailable),
        (errors.MessageTooLarge("5 MB"), errors.ProviderInvalidRequest),
    ],
)
async def test_broker_error_is_a_provider_error(
    error: errors.BrokerError, kind: type[errors.ProviderError]
) -> None:
    with pytest.raises(kind, match=str(error)):
        await heard(TopicProvider(Answering(error=error)))


def piece(text: str, at: int) -> bytes:
    return wire.TextCompletionResponse(response=text, at=at, end_of_stream=False).encode()


async def test_piece_that_comes_twice_counts_once() -> None:
    pieces = [piece(*each) for each in [("Hel", 0), ("lo, ", 3), ("Hel", 0), ("lo, w", 3), ("orld.", 8)]]
    last = b'{"response": "", "at": 13, "end_of_stream": true}'

    deltas = await heard(TopicProvider(Answering(*pieces, last)))

    assert "".join(delta.text for delta in deltas) == "Hello, world."


@pytest.mark.parametrize("then", [("world.", 6), ("Goodbye.", 0), ("p", 2)])
async def test_answer_with_a_missing_piece_is_unavailable(then: tuple[str, int]) -> None:
    with pytest.raises(errors.ProviderUnavailable, match="a part of the answer was lost"):
        await heard(TopicProvider(Answering(piece("Hel", 0), piece(*then))))


@pytest.mark.parametrize("counts", [b'"in_token": -1', b'"usage": {"prompt_tokens": -1}'])
async def test_negative_token_count_is_unknown(counts: bytes) -> None:
    response = b'{"response": "a", ' + counts + b', "out_token": 3, "end_of_stream": true}'

    [delta] = await heard(TopicProvider(Answering(response)))

    assert delta.usage is not None
    assert delta.usage.prompt_tokens is None


async def test_request_says_how_many_seconds_are_left() -> None:
    caller = Answering(b'{"response": "a", "end_of_stream": true}')

    await heard(TopicProvider(caller, timeout=30))

    assert wire.TextCompletionRequest.decode(caller.asked[0]).seconds_left == 30


async def test_unknown_reasons_and_fields_of_a_response_are_ignored() -> None:
    response = b'{"response": "a", "finish_reason": "bored", "schema_path": "?", "x": 1}'
    last = b'{"end_of_stream": true}'

    assert await heard(TopicProvider(Answering(response, last))) == [Delta("a")]
