"""Roughly how many tokens a call and its answer take, where nobody counted them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trustgraph_prompt.cost import Usage
from trustgraph_prompt.llm.records import Call, ImageBlock, Message, ToolCall

#: UTF-8 bytes to a token: near the truth for English prose and JSON, on the safe side for other scripts.
BYTES_PER_TOKEN = 4

#: Tokens of an image, whatever its size: what models make of a large one.
IMAGE_TOKENS = 1_000


def estimate(text: str) -> int:
    """Tokens of a text; a text that is not empty has one at least."""
    return -(-len(text.encode(errors="replace")) // BYTES_PER_TOKEN)


def estimate_messages(messages: Sequence[Message]) -> int:
    """Tokens of what is said to a model: texts, images, and the tools that were called."""
    return sum(
        estimate(message.text) + _of_images(message) + _of_tool_calls(message.tool_calls)
        for message in messages
    )


def estimate_question(call: Call) -> int:
    """Tokens of all that a call says, its tools included."""
    tools = (estimate(tool.name + tool.description) + _of_json(tool.parameters) for tool in call.tools)
    return estimate_messages(call.messages) + sum(tools)


def estimate_usage(call: Call, answer: str, tool_calls: Iterable[ToolCall] = ()) -> Usage:
    """What a call and its answer cost; thinking is part of what was answered."""
    prompt, completion = estimate_question(call), estimate(answer) + _of_tool_calls(tool_calls)
    return Usage(prompt, completion, prompt + completion)


def _of_images(message: Message) -> int:
    if isinstance(message.content, str):
        return 0
    return IMAGE_TOKENS * sum(isinstance(block, ImageBlock) for block in message.content)


def _of_tool_calls(calls: Iterable[ToolCall]) -> int:
    return sum(
        estimate(call.name)
        + (_of_json(call.arguments) if call.arguments_text is None else estimate(call.arguments_text))
        for call in calls
    )


def _of_json(value: Mapping[str, Any] | None) -> int:
    return 0 if value is None else estimate(json.dumps(value, ensure_ascii=False, default=str))
