"""Estimates tokens where the provider does not report them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trustgraph_prompt.cost import Usage
from trustgraph_prompt.llm.records import Call, ImageBlock, Message, ToolCall

#: UTF-8 bytes of a token: realistic for English prose and JSON, too many tokens for other scripts.
BYTES_PER_TOKEN = 4

#: Tokens of an image of any size: what models count for a large one.
IMAGE_TOKENS = 1_000


def estimate(text: str) -> int:
    """Tokens of a text: at least one, unless it is empty."""
    return -(-len(text.encode(errors="replace")) // BYTES_PER_TOKEN)


def estimate_messages(messages: Sequence[Message]) -> int:
    """Tokens of messages: texts, images and tool calls."""
    images = sum(
        isinstance(block, ImageBlock)
        for message in messages
        if not isinstance(message.content, str)
        for block in message.content
    )
    texts = (estimate(message.text) + _of_tool_calls(message.tool_calls) for message in messages)
    return IMAGE_TOKENS * images + sum(texts)


def estimate_question(call: Call) -> int:
    """Tokens of the messages and tools of a call."""
    tools = (estimate(tool.name + tool.description) + _of_json(tool.parameters) for tool in call.tools)
    return estimate_messages(call.messages) + sum(tools)


def estimate_usage(call: Call, answer: str, tool_calls: Iterable[ToolCall] = ()) -> Usage:
    """Tokens of a call and its answer, which should include the thinking."""
    prompt, completion = estimate_question(call), estimate(answer) + _of_tool_calls(tool_calls)
    return Usage(prompt, completion, prompt + completion)


def _of_tool_calls(calls: Iterable[ToolCall]) -> int:
    return sum(
        estimate(call.name)
        + (_of_json(call.arguments) if call.arguments_text is None else estimate(call.arguments_text))
        for call in calls
    )


def _of_json(value: Mapping[str, Any] | None) -> int:
    return 0 if value is None else estimate(json.dumps(value, ensure_ascii=False, default=str))
