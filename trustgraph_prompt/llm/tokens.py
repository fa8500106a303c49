"""Roughly how many tokens a text has, where nobody counted them."""

from __future__ import annotations

from collections.abc import Sequence

from trustgraph_prompt.cost import Usage
from trustgraph_prompt.llm.records import Call, Message

#: UTF-8 bytes to a token: near the truth for English prose and JSON, on the safe side for other scripts.
BYTES_PER_TOKEN = 4


def estimate(text: str) -> int:
    """Tokens of a text; a text that is not empty has one at least."""
    return -(-len(text.encode(errors="replace")) // BYTES_PER_TOKEN)


def estimate_messages(messages: Sequence[Message]) -> int:
    """Tokens of what is said to a model."""
    return sum(estimate(message.text) for message in messages)


def estimate_usage(call: Call, answer: str) -> Usage:
    """What a call and its answer cost; thinking is part of what was answered."""
    prompt, completion = estimate_messages(call.messages), estimate(answer)
    return Usage(prompt, completion, prompt + completion)
