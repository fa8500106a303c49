"""Roughly how many tokens a text has, where nobody counted them."""

from __future__ import annotations

from trustgraph_prompt.cost import Usage
from trustgraph_prompt.llm.records import Call

#: UTF-8 bytes to a token: near the truth for English prose and JSON, on the safe side for other scripts.
BYTES_PER_TOKEN = 4


def estimate(text: str) -> int:
    """Tokens of a text; a text that is not empty has one at least."""
    return -(-len(text.encode(errors="replace")) // BYTES_PER_TOKEN)


def estimate_usage(call: Call, answer: str) -> Usage:
    """What a call and its answer cost."""
    prompt = sum(estimate(message.content) for message in call.messages)
    completion = estimate(answer)
    return Usage(prompt, completion, prompt + completion)
