"""What is refused before anything is sent, with the place; and plain mappings, which become records."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pytest
from pydantic import BaseModel

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import ProviderInvalidRequest, ProviderUnsupportedContentBlock
from trustgraph_prompt.llm import (
    Call,
    ImageBlock,
    Message,
    RuntimeConfig,
    ScriptedProvider,
    TextBlock,
    Tool,
    ToolCall,
)

PNG = base64.b64encode(b"\x89PNG").decode()
OBJECT = {"type": "object", "properties": {}}
USER = {"role": "user", "content": "?"}
CALLED = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


async def sent(messages: Any = (USER,), *arguments: Any, **options: Any) -> Call:
    """The call that leaves."""
    calls = []

    def answer(call: Call) -> str:
        calls.append(call)
        return "{}"

    await ScriptedProvider(answer).complete(messages, *arguments, **options)
    [call] = calls
    return call


async def refusal(messages: Any = (USER,), *arguments: Any, **options: Any) -> str:
    """Why nothing leaves."""

    def answer(call: Call) -> str:
        raise AssertionError("this was sent")

    with pytest.raises(ProviderInvalidRequest) as caught:
        await ScriptedProvider(answer).complete(messages, *arguments, **options)
    assert caught.value.calls == ()
    return str(caught.value)


def user(*blocks: Any) -> list[Any]:
    return [{"role": "user", "content": list(blocks)}]


def assistant(**message: Any) -> list[Any]:
    return [USER, {"role": "assistant", **message}, USER]


def answered(*messages: Any) -> list[Any]:
    return [USER, {"role": "assistant", "content": None, "tool_calls": [CALLED]}, *messages]


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        ([], "messages: expected at least one message"),
        (None, "messages: expected a list, found null"),
        ("hello", 'messages: expected a list, found "hello"'),
        ({"role": "user"}, "messages: expected a list, found object of 1"),
        ([None], "messages[0]: expected a Message or an object, found null"),
        ([{"content": "?"}], "messages[0].role: expected system, user, assistant or tool, found null"),
        ([{"role": ["user"], "content": "?"}], "messages[0].role: expected system, user, assistant or tool"),
        ([{"role": "user", "content": "?", "name": "Al"}], 'messages[0]: unknown key "name"'),
        ([{"role": "assistant", "content": "!"}, USER], "messages[0].role: expected system or user first"),
        ([USER, {"role": "assistant", "content": "!"}], "messages[1].role: expected user or tool last"),
        ([{"role": "system", "content": "!"}], "messages[0].role: expected user or tool last"),
        ([USER, {"role": "system", "content": "!"}, USER], "messages[1].role: expected system first or"),
        ([{"role": "system", "content": [{"type": "text", "text": "!"}]}, USER], "messages[0].content: "),
        ([{"role": "system", "content": ""}, USER], "messages[0].content: expected a text that is not empty"),
        ([{"role": "user", "content": ""}], "messages[0].content: expected a text that is not empty"),
        ([{"role": "user", "content": None}], "messages[0].content: expected a text that is not empty"),
        ([{"role": "user", "content": 7}], "messages[0].content: expected a list, found 7"),
        ([{"role": "user", "content": "\ud83d"}], "messages[0].content: half a surrogate pair"),
        ([Message("user", None)], "messages[0].content: expected a text"),  # type: ignore[arg-type]
        ([Message("user", 7)], "messages[0].content: expected a list"),  # type: ignore[arg-type]
        ([Message("boss", "?")], 'messages[0].role: expected system, user, assistant or tool, found "boss"'),  # type: ignore[arg-type]
        (user(), "messages[0].content: expected a text or blocks, not empty"),
        (user("hello"), "messages[0].content[0]: expected a block"),
        (user({"text": "?"}), "messages[0].content[0].type: expected text or image, found null"),
        (
            user({"type": "text", "text": ""}),
            "messages[0].content[0].text: expected a text that is not empty",
        ),
        (user({"type": "text", "text": "?", "cache_control": {}}), 'unknown key "cache_control"'),
        (user({"type": "image"}), "messages[0].content[0].source: expected an object with a type"),
        (
            user({"type": "image", "source": {"type": "file"}}),
            "content[0].source.type: expected url or inline",
        ),
        (user({"type": "image", "source": {"type": "url"}}), "content[0]: expected either a url or base64"),
        (user({"type": "image", "source": {"type": "url", "url": ""}}), "content[0].url: expected a text"),
        (user({"type": "image_url", "image_url": 7}), "image_url: expected a URL or an object with one"),
        (
            user({"type": "image_url", "image_url": {"url": "data:image/png,x"}}),
            "image_url.url: expected data",
        ),
        (user(ImageBlock("http://x", PNG, "image/png")), "content[0]: expected either a url or base64_data"),
        (user(ImageBlock(base64_data=PNG)), "content[0].media_type: expected a text"),
        (user(ImageBlock(base64_data="%%", media_type="image/png")), "content[0].base64_data: not base64"),
        (user(ImageBlock("http://x", detail="max")), "content[0].detail: expected auto, low or high"),  # type: ignore[arg-type]
        (assistant(content=""), "messages[1].content: expected a text that is not empty"),
        (
            assistant(content=[ImageBlock("http://x")]),
            "messages[1].content[0]: only user messages may have images",
        ),
        (assistant(content="!", tool_calls={}), "messages[1].tool_calls: expected a list"),
        (assistant(content="!", tool_calls=[7]), "messages[1].tool_calls[0]: expected a ToolCall"),
        (assistant(tool_calls=[{**CALLED, "id": None}]), "messages[1].tool_calls[0].id: expected a text"),
        (assistant(tool_calls=[{**CALLED, "type": "code"}]), "messages[1].tool_calls[0].type: expected func"),
        (
            assistant(tool_calls=[{"id": "1", "function": {}}]),
            "messages[1].tool_calls[0].name: expected a te",
        ),
        (assistant(tool_calls=[ToolCall("1", "look", None)]), "tool_calls[0].arguments: expected an object"),
        (assistant(tool_calls=[ToolCall("1", "look", {"x": {7}})]), "tool_calls[0].arguments: cannot be wri"),
        (assistant(tool_calls=[CALLED, CALLED]), "messages[1].tool_calls[1].id: expected a unique id"),
        (
            [{**USER, "tool_calls": [CALLED]}],
            "messages[0].tool_calls: only assistant messages may have tool calls",
        ),
        ([{**USER, "tool_call_id": "1"}], "messages[0].tool_call_id: only tool messages may have one"),
        (answered({"role": "tool", "content": "!"}), "messages[2].tool_call_id: expected a text"),
        (answered({"role": "tool", "content": "!", "tool_call_id": "2"}), "the id of an earlier, open tool"),
        ([USER, {"role": "tool", "content": "!", "tool_call_id": "1"}], "messages[1].tool_call_id: expected"),
        (
            answered(*[{"role": "tool", "content": "!", "tool_call_id": "1"}] * 2),
            "messages[3].tool_call_id: e",
        ),
    ],
)
async def test_message_that_cannot_be_sent_is_named(messages: Any, complaint: str) -> None:
    assert complaint in await refusal(messages)


@pytest.mark.parametrize("arguments", ["{", "[1]", "NaN", "7", '{"a": 1} {"b": 2}', '{"a": ' * 100_000])
async def test_arguments_that_are_no_json_object_are_refused(arguments: str) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": arguments}}

    assert "messages[1].tool_calls[0]" in await refusal(assistant(tool_calls=[call]))


@pytest.mark.parametrize(
    "block",
    [
        {"type": "input_audio", "input_audio": {}},
        {"type": "image", "source": {"type": "inline", "base64_data": PNG}, "media_type": "text/html"},
        {"type": "image_url", "image_url": f"data:application/pdf;base64,{PNG}"},
    ],
)
async def test_unsupported_content_block_has_an_error_of_its_own(block: Mapping[str, Any]) -> None:
    with pytest.raises(ProviderUnsupportedContentBlock, match=r"^messages\[0\]\.content\[0\]"):
        await ScriptedProvider([]).complete(user(block))


async def test_plain_messages_become_records() -> None:
    call = await sent(
        [
            {"role": "system", "content": "Be brief."},
            MappingProxyType({"role": "user", "content": "What is it?"}),
            {
                "role": "assistant",
                "content": None,
                "refusal": None,
                "annotations": [],
                "tool_calls": [CALLED],
            },
            {"role": "tool", "content": "", "tool_call_id": "1", "name": "look"},
            {"role": "assistant", "content": "It is dark.", "reasoning_content": "Hm."},
            {"role": "user", "content": "And now?"},
        ]
    )

    assert call.messages == (
        Message("system", "Be brief."),
        Message("user", "What is it?"),
        Message("assistant", "", (ToolCall("1", "look", {}),)),
        Message("tool", "", tool_call_id="1"),
        Message("assistant", "It is dark."),
        Message("user", "And now?"),
    )


async def test_arguments_are_sent_as_they_were_written() -> None:
    arguments = '{"n": 123456789012345678901234567890, "s": "\\ud83d"}'
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": arguments}}
    said = (await sent(assistant(tool_calls=[call]))).messages[1]

    assert [(one.arguments_text, one.arguments) for one in said.tool_calls] == [
        (arguments, {"n": 123456789012345678901234567890, "s": "\ud83d"})
    ]


async def test_id_of_an_answered_tool_call_may_be_used_again() -> None:
    turn = answered({"role": "tool", "content": "!", "tool_call_id": "1"})[1:]

    assert len((await sent([USER, *turn, *turn])).messages) == 5


async def test_content_blocks_are_accepted_in_our_shape_and_in_openais() -> None:
    call = await sent(
        user(
            {"type": "text", "text": "What is it?"},
            {"type": "image_url", "image_url": {"url": "http://x/1.png", "detail": "low"}},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
            {"type": "image", "source": {"type": "url", "url": "http://x/2.png"}},
            {"type": "image", "source": {"type": "inline", "base64_data": PNG}, "media_type": "image/webp"},
            ImageBlock("http://x/3.png"),
        )
    )

    assert call.messages[0].content == (
        TextBlock("What is it?"),
        ImageBlock("http://x/1.png", detail="low"),
        ImageBlock(base64_data=PNG, media_type="image/png"),
        ImageBlock("http://x/2.png"),
        ImageBlock(base64_data=PNG, media_type="image/webp"),
        ImageBlock("http://x/3.png"),
    )


async def test_single_text_block_becomes_plain_text() -> None:
    thoughts = [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "It is dark."}]

    call = await sent(
        [*user({"type": "text", "text": "?"}), {"role": "assistant", "content": thoughts}, USER]
    )

    assert [message.content for message in call.messages] == ["?", "It is dark.", "?"]


class TestTools:
    @pytest.mark.parametrize(
        ("tools", "complaint"),
        [
            ("look", "tools: expected a list"),
            ([7], "tools[0]: expected a Tool or an object, found 7"),
            ([{"name": ""}], "tools[0].name: expected a text that is not empty"),
            ([Tool("look", "", OBJECT), {"name": "look"}], "tools[1].name: expected a unique name"),
            ([{"name": "look", "description": 7}], "tools[0].description: expected a text, found 7"),
            (
                [{"name": "look", "parameters": []}],
                "tools[0].parameters: expected a JSON Schema of an object",
            ),
            ([{"name": "look", "parameters": {}}], "tools[0].parameters.type: expected object at the root"),
            ([Tool("look", "", {"type": "array"})], "tools[0].parameters.type: expected object at the root"),
            (
                [{"name": "look", "parameters": {**OBJECT, "properties": {"a": {"type": "int"}}}}],
                "tools[0].parameters: /properties/a/type: ",
            ),
            ([{"type": "web_search", "function": {}}], "tools[0].type: expected function"),
            ([{"name": "look", "cost": 7}], 'tools[0]: unknown key "cost"'),
            ([{"name": "look", "strict": True}], 'tools[0]: unknown key "strict"'),
        ],
    )
    async def test_malformed_tool_is_named(self, tools: Any, complaint: str) -> None:
        assert complaint in await refusal([USER], tools)

    async def test_plain_tools_become_records(self) -> None:
        written = {"name": "look", "description": "around", "parameters": {"type": "object"}}

        call = await sent([USER], [{"type": "function", "function": written}, {"name": "wait"}])

        assert call.tools == (Tool("look", "around", {"type": "object"}), Tool("wait", "", OBJECT))

    @pytest.mark.parametrize(
        ("choice", "complaint"),
        [
            ("required", "tool_choice: expected tools to choose from"),
            ({"type": "tool", "name": "look"}, "tool_choice.name: expected the name of one of the tools"),
            ("all", "tool_choice: expected auto, required, none or an object"),
            (7, "tool_choice: expected auto"),
            (["auto"], "tool_choice: expected auto"),
            ({"type": "any"}, "tool_choice.type: expected tool or function"),
            ({"type": "function", "function": "look"}, "tool_choice.function: expected an object"),
        ],
    )
    async def test_malformed_tool_choice_is_named(self, choice: Any, complaint: str) -> None:
        assert complaint in await refusal([USER], tool_choice=choice)

    async def test_choice_of_an_unknown_tool_is_refused(self) -> None:
        assert 'found "look"' in await refusal(
            [USER], [{"name": "wait"}], tool_choice={"type": "tool", "name": "look"}
        )

    @pytest.mark.parametrize("choice", ["auto", "none"])
    async def test_tool_choice_is_dropped_without_tools(self, choice: str) -> None:
        assert (await sent([USER], tool_choice=choice)).tool_choice is None
        assert (await sent([USER], [{"name": "look"}], tool_choice=choice)).tool_choice == choice

    @pytest.mark.parametrize(
        "choice", [{"type": "tool", "name": "look"}, {"type": "function", "function": {"name": "look"}}]
    )
    async def test_forced_tool_may_be_named_in_either_shape(self, choice: Mapping[str, Any]) -> None:
        call = await sent([USER], [{"name": "look"}], tool_choice=choice)

        assert call.tool_choice == {"type": "tool", "name": "look"}


class TestConfig:
    @pytest.mark.parametrize(
        ("config", "complaint"),
        [
            ({"temperature": 0}, "config: expected a RuntimeConfig"),
            (RuntimeConfig(temperature="hot"), "config.temperature: expected a number"),  # type: ignore[arg-type]
            (RuntimeConfig(top_p=float("nan")), "config.top_p: expected a number"),
            (RuntimeConfig(max_tokens=True), "config.max_tokens: expected an integer"),
            (RuntimeConfig(seed=10**400), "config.seed: expected an integer"),
            (RuntimeConfig(top_p=10**400), "config.top_p: expected a number, found a huge integer"),
            (RuntimeConfig(seed=1.5), "config.seed: expected an integer"),  # type: ignore[arg-type]
            (RuntimeConfig(stop_sequences="END"), "config.stop_sequences: expected a list"),  # type: ignore[arg-type]
            (RuntimeConfig(stop_sequences=("",)), "config.stop_sequences[0]: expected a text"),
            (RuntimeConfig(model=""), "config.model: expected a text"),
            (RuntimeConfig(extras={"x": object()}), "config.extras: cannot be written as JSON"),
            (RuntimeConfig(extras=[]), "config.extras: expected an object"),  # type: ignore[arg-type]
        ],
    )
    async def test_malformed_setting_is_named(self, config: Any, complaint: str) -> None:
        assert complaint in await refusal([USER], config=config)

    async def test_settings_are_sent_unchanged(self) -> None:
        config = RuntimeConfig(0.5, 7, 0.9, 1, 0, -1, ("END",), {"top_k": 3})

        assert (await sent([USER], config=config)).config == config


class Tree(BaseModel):
    name: str
    children: list[Tree] = []


@dataclass
class Point:
    x: int


class TestSchema:
    @pytest.mark.parametrize(
        ("schema", "complaint"),
        [
            (7, "a dataclass, a Pydantic model or a Contract, found 7"),
            (True, "response_schema: expected a JSON Schema of an object, a dataclass, "),
            ("json", "response_schema: expected a JSON Schema of an object"),
            ({}, "response_schema.type: expected object at the root, found null"),
            ({"type": "array"}, 'response_schema.type: expected object at the root, found "array"'),
            ({"type": ["object", "null"]}, "response_schema.type: expected object at the root"),
            ({"type": "object", "required": "a"}, "response_schema: /required: "),
            ({"$ref": "#/$defs/none"}, "response_schema: /$ref: unknown reference"),
            ({"$ref": "#"}, "response_schema: circular reference"),
            (
                {"type": "object", "properties": {"a": {"$ref": "http://x/"}}},
                "response_schema: /properties/a",
            ),
            ({"type": "object", 7: 8}, "response_schema: a key is not a string"),
            *(
                (kind, "expected a JSON Schema of an object, a dataclass, a Pydantic model or a Contract")
                for kind in (int, list[Point], dict[str, int], Point | None, Point(1))
            ),
            (list[Point], "found list["),
            (int, "found int"),
            (Point(1), "found Point"),
            (Contract.from_schema(None), "response_schema.type: expected object at the root"),
            (Contract.from_schema(None, format="text"), "response_schema: expected a contract of one json"),
            (
                Contract.from_schema(OBJECT, format="jsonl"),
                "response_schema: expected a contract of one json",
            ),
            (Contract.of(list[Point]), "response_schema: expected a contract of one json object"),
        ],
    )
    async def test_schema_that_is_no_object_is_refused(self, schema: Any, complaint: str) -> None:
        assert complaint in await refusal([USER], response_schema=schema)

    async def test_schema_is_sent_unchanged(self) -> None:
        properties = {"z": {"type": "integer"}, "a": {"type": "string", "description": "żółć"}}
        schema = {"type": "object", "title": "Both", "properties": properties, "x-own": [1.5, None]}

        call = await sent([USER], response_schema=schema)

        assert call.response_schema == schema
        assert list(call.response_schema["properties"]) == ["z", "a"]

    async def test_root_that_refers_to_an_object_is_replaced_by_that_object(self) -> None:
        node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
        schema = {"$defs": {"Node": node}, "$ref": "#/$defs/Node"}

        call = await sent([USER], response_schema=schema)

        assert call.response_schema == {**node, "$defs": {"Node": node}}
        assert schema == {"$defs": {"Node": node}, "$ref": "#/$defs/Node"}

    async def test_recursive_model_has_an_object_at_its_root(self) -> None:
        text = '{"name": "a", "children": [{"name": "b"}]}'

        response = await ScriptedProvider(lambda call: text).complete([USER], response_schema=Tree)

        assert response.parsed == Tree(name="a", children=[Tree(name="b")])
