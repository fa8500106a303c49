"""Whatever a caller passes and a model writes: an error of ours, and nothing that was passed has changed."""

from __future__ import annotations

import asyncio
import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.steps import is_linear
from trustgraph_prompt.errors import ProviderError, ProviderInvalidRequest, StructuredOutputInvalid
from trustgraph_prompt.llm import (
    Delta,
    ImageBlock,
    Message,
    RuntimeConfig,
    ScriptedProvider,
    TextBlock,
    Tool,
    ToolCall,
)

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
ASKED = [{"role": "user", "content": "Which number?"}]

texts = st.text(st.characters(codec=None, exclude_categories=()), max_size=5)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts | st.binary(max_size=3)
odd = st.recursive(
    scalars | st.just(object) | st.just({1, 2}),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
    ),
    max_leaves=6,
)


def of(valid: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Mostly what it should be, sometimes anything."""
    return st.one_of(valid, valid, valid, odd)


def entry(**keys: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return of(st.fixed_dictionaries({}, optional={name: of(value) for name, value in keys.items()}))


words = of(
    st.sampled_from(["?", "a", "", "look", "1", "2", "{}", '{"a": 1}', "image/png", "aGk=", "http://x"])
)
roles = of(st.sampled_from(["system", "user", "assistant", "tool"]))
kinds = st.sampled_from(["text", "image", "image_url", "function", "tool", "thinking", "url", "inline", "x"])
blocks = (
    entry(
        type=kinds,
        text=words,
        image_url=words | entry(url=words, detail=words),
        source=entry(type=kinds, url=words, base64_data=words),
        media_type=words,
        detail=words,
    )
    | st.builds(TextBlock, words)
    | st.builds(ImageBlock, words, words, words, words)
)
calls = entry(id=words, type=kinds, function=entry(name=words, arguments=words | odd)) | st.builds(
    ToolCall, words, words, odd
)
contents = words | of(st.lists(blocks, max_size=2))
messages = entry(role=roles, content=contents, tool_calls=st.lists(calls, max_size=2), tool_call_id=words)
records = st.builds(Message, roles, contents, of(st.lists(calls, max_size=2)), of(st.none() | words))
conversations = of(st.lists(messages | records, max_size=4))
schemas = entry(type=st.sampled_from(["object", "array"]), properties=odd, required=odd) | of(st.just(SCHEMA))
tools = of(
    st.lists(
        entry(name=words, description=words, parameters=schemas)
        | entry(type=kinds, function=entry(name=words, parameters=schemas))
        | st.builds(Tool, words, words, schemas),
        max_size=2,
    )
)
choices = words | entry(type=kinds, name=words, function=entry(name=words))
configs = of(st.builds(RuntimeConfig, odd, odd, odd, odd, odd, odd, odd, odd) | st.none())


def completed(provider: ScriptedProvider, *arguments: Any, **options: Any) -> Any:
    return asyncio.run(provider.complete(*arguments, **options))


@given(conversations, tools, configs, schemas, choices)
def test_any_unsendable_input_is_a_provider_error_and_is_left_unchanged(
    messages: Any, tools: Any, config: Any, schema: Any, choice: Any
) -> None:
    passed = (messages, tools, config, schema, choice)
    before = repr(passed)
    for arguments, options in (
        ((messages,), {}),
        ((ASKED, tools), {"tool_choice": choice}),
        ((ASKED, None, config), {}),
        ((ASKED, None, None, schema), {}),
    ):
        try:
            completed(ScriptedProvider(lambda call: '{"n": 1}'), *arguments, **options)
        except (ProviderError, StructuredOutputInvalid) as error:
            assert str(error)  # noqa: PT017
    assert repr(passed) == before


@given(st.text(max_size=60) | st.text('{}[]":,n1 \\`\n', max_size=60))
def test_any_content_is_parsed_only_if_all_of_it_is_json(text: str) -> None:
    provider = ScriptedProvider(lambda call: [Delta(text[:7]), Delta(text[7:])])
    try:
        response = completed(provider, ASKED, None, None, SCHEMA)
    except StructuredOutputInvalid as error:
        assert error.output_content == text  # noqa: PT017
    else:
        assert response.message.content == text
        assert response.parsed == json.loads(text)


def test_input_that_contains_itself_is_refused() -> None:
    ring: dict[str, Any] = {}
    ring["again"] = ring
    listed: list[Any] = []
    listed.append(listed)
    called = [*ASKED, Message("assistant", "", (ToolCall("1", "look", ring),)), *ASKED]
    for arguments in ((called,), (ASKED, [Tool("look", "", ring)]), (ASKED, None, None, ring), (listed,)):
        with pytest.raises(ProviderInvalidRequest):
            completed(ScriptedProvider([]), *arguments)


def test_long_conversation_takes_linear_time() -> None:
    call = {"type": "function", "function": {"name": "look", "arguments": '{"at": "sea"}'}}

    def conversation(turns: int) -> list[Any]:
        asked = [
            {"role": "assistant", "content": None, "tool_calls": [{**call, "id": str(turn)}]}
            for turn in range(turns)
        ]
        told = [{"role": "tool", "content": "blue", "tool_call_id": str(turn)} for turn in range(turns)]
        return [*ASKED, *asked, *told]

    assert is_linear(lambda turns: completed(ScriptedProvider(lambda call: "."), conversation(turns)), 100)


def test_answer_in_many_pieces_takes_linear_time() -> None:
    def answer(pieces: int) -> None:
        deltas = [Delta("0123456789")] * pieces
        completed(ScriptedProvider(lambda call: deltas), ASKED)

    assert is_linear(answer, 2_000)


def test_arguments_are_left_unchanged() -> None:
    schema = {"$ref": "#/$defs/N", "$defs": {"N": copy.deepcopy(SCHEMA)}}
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    called = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    passed: list[Any] = [
        [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "?"}, image]},
            {"role": "assistant", "content": None, "tool_calls": [called]},
            {"role": "tool", "content": "dark", "tool_call_id": "1"},
        ],
        [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}],
        RuntimeConfig(stop_sequences=("END",), extras={"a": [1]}),
        schema,
    ]
    before = copy.deepcopy(passed)

    completed(
        ScriptedProvider(lambda call: '{"n": 1}'), *passed, tool_choice={"type": "tool", "name": "look"}
    )

    assert passed == before
