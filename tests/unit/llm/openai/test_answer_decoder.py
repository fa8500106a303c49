"""An answer is decoded alike whether its events look alike or each in its own way."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trustgraph_prompt.errors import ProviderInvalidResponse
from trustgraph_prompt.llm import Delta
from trustgraph_prompt.llm.openai.answer_decoder import AnswerDecoder
from trustgraph_prompt.llm.openai.refusal import ServerRefusal

TEXTS = st.text(max_size=3) | st.sampled_from(
    ["\ud83d", "\ude00", "\ud83d\ude00", '"content":"x"', '\\"content":"x"', "\\", '"', "?", "\x00"]
)
CONTENTS = TEXTS | st.none() | st.just(7) | st.just([{"type": "text", "text": "part"}])
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "role": st.just("assistant"),
        "content": CONTENTS,
        "reasoning_content": TEXTS,
        "refusal": TEXTS,
        "tool_calls": st.just([{"index": 0, "id": "a", "function": {"name": "now", "arguments": " "}}]),
        "citations": st.just([{"content": "other"}]),
    },
)
PLAIN_MESSAGES = TEXTS.map(lambda text: {"content": text})
CHOICES = st.fixed_dictionaries(
    {"index": st.just(0) | st.just(1), "delta": PLAIN_MESSAGES | MESSAGES},
    optional={
        "message": MESSAGES,
        "finish_reason": st.sampled_from([None, "", "stop", "length", 7]),
        "logprobs": st.none() | st.just({"content": [{"token": "t"}]}),
    },
)
EVENTS = st.fixed_dictionaries(
    {"choices": st.lists(CHOICES, max_size=2)},
    optional={
        "content": TEXTS,
        "created": st.integers(1, 2),
        "model": st.sampled_from(["small", "large", None, 7]),
        "usage": st.none() | st.just({"completion_tokens": 1}),
        "error": st.none() | st.just("away"),
    },
)
PLAIN_EVENTS = PLAIN_MESSAGES.map(lambda message: {"choices": [{"index": 0, "delta": message}]})


def decoded(events: list[bytes]) -> list[Delta | str]:
    """What a decoder makes of the events, and of their end."""
    decoder, deltas = AnswerDecoder("strict"), list[Delta | str]()
    try:
        deltas += [decoder.take(event) for event in events]
        deltas.append(decoder.end())
    except (ProviderInvalidResponse, ServerRefusal) as error:
        deltas.append(f"{type(error).__name__}: {error}".replace(" ", ""))
    return deltas


def written(events: list[dict[str, Any]], escaped: bool) -> list[bytes]:
    return [json.dumps(each, ensure_ascii=escaped).encode(errors="surrogatepass") for each in events]


@given(st.lists(PLAIN_EVENTS | EVENTS, max_size=8), st.booleans())
def test_answer_is_the_same_whether_its_events_look_alike(
    events: list[dict[str, Any]], escaped: bool
) -> None:
    alike = written(events, escaped)
    unlike = [b" " * number + event for number, event in enumerate(alike)]

    assert decoded(alike) == decoded(unlike)


@pytest.mark.parametrize("text", ["last", "?"])
@pytest.mark.parametrize(
    "form",
    [
        '{"choices":[{"delta":{"content":"%s"}}],"choices":[{"delta":{"content":"%s"}}]}',
        '{"choices":[{"delta":{"content":"%s","cont\\u0065nt":"%s"}}]}',
        '{"choices":[{"index":1,"delta":{"content":"%s"}},{"index":0,"delta":{"content":"%s"}}]}',
    ],
    ids=["choices-twice", "content-twice", "other-choice-first"],
)
def test_content_that_comes_before_the_text_is_not_the_text(form: str, text: str) -> None:
    *deltas, _ = decoded([(form % (other, text)).encode() for other in (text, "first", text)])

    assert [each.text for each in deltas if isinstance(each, Delta)] == [text] * 3


def test_key_that_ends_like_content_is_another_key() -> None:
    event = '{"choices":[{"delta":{"content":"text"},"\\"content":"%s"}]}'

    *deltas, _ = decoded([(event % other).encode() for other in ("text", "a", "b")])

    assert [each.text for each in deltas if isinstance(each, Delta)] == ["text"] * 3
