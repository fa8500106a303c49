"""How many tokens a call and its answer are taken for, where nobody counted them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from trustgraph_prompt.cost import Usage
from trustgraph_prompt.llm import (
    Call,
    Delta,
    ImageBlock,
    Message,
    RetryPolicy,
    ScriptedProvider,
    TextBlock,
    Tool,
    ToolCall,
)
from trustgraph_prompt.llm.token_estimates import IMAGE_TOKENS, estimate_usage

LONG = "x" * 4_000  # a thousand tokens
CALL = Call([Message("user", "What is it?")])
LOOK = {"name": "look", "parameters": {"type": "object"}}


def question(*messages: Message, tools: Sequence[Tool] = ()) -> int:
    return estimate_usage(replace(CALL, messages=messages, tools=tools), "").prompt_tokens or 0


@pytest.mark.parametrize(
    "call", [ToolCall("1", "look", {"at": LONG}), ToolCall("1", "look", {}, LONG), ToolCall("1", LONG, None)]
)
def test_tool_calls_count_in_the_question_and_in_the_answer(call: ToolCall) -> None:
    said = question(Message("assistant", "", (call,)))
    answered = estimate_usage(CALL, "", (call,)).completion_tokens

    assert answered is not None
    assert 1_000 <= answered == said < 1_010


def test_tools_count_with_their_description_and_schema() -> None:
    tool = Tool("look", LONG, {"type": "object", "description": LONG})

    assert 2_000 <= question(tools=[tool]) < 2_020


def test_image_counts_the_same_whatever_its_size() -> None:
    small, large = ImageBlock("http://x/1.png"), ImageBlock(base64_data=LONG, media_type="image/png")

    assert question(Message("user", (TextBlock("What?"), small, large))) == 2 * IMAGE_TOKENS + 2


@pytest.mark.parametrize(("reported", "attempts"), [(None, 1), (Usage(1, 1, 2), 2)])
async def test_tokens_of_a_policy_are_reported_or_estimated(reported: Usage | None, attempts: int) -> None:
    calls = []

    def answer(call: Call) -> list[Delta]:
        calls.append(call)
        return [Delta(tool_calls=(ToolCall("1", "jump", {}, LONG),), usage=reported)]

    policy = RetryPolicy(max_attempts=2, tokens=500, classifier=lambda error: True, backoff=lambda n: 0)
    with pytest.raises(Exception, match="unknown tool 'jump'"):
        await ScriptedProvider(answer).complete([{"role": "user", "content": "?"}], [LOOK], retry=policy)

    assert len(calls) == attempts
