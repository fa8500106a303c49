"""The tokens that a call took: as reported, else as estimated of all that came."""

from __future__ import annotations

import pytest

from tests.support.deltas import CALL
from trustgraph_prompt.cost import Usage
from trustgraph_prompt.llm import Delta, ToolCall
from trustgraph_prompt.llm.delta_accumulator import DeltaAccumulator


def tokens(*deltas: Delta) -> int:
    heard = DeltaAccumulator()
    for delta in deltas:
        heard.take(delta)
    return heard.usage_of(CALL).tokens


def test_reported_usage_counts() -> None:
    assert tokens(Delta("word " * 50), Delta(usage=Usage(3, 4, 7))) == 7


def test_answer_without_any_text_or_usage_took_no_tokens() -> None:
    assert tokens() == 0
    assert tokens(Delta(model="small", usage=Usage())) == 0


@pytest.mark.parametrize(
    "came", [Delta(finish_reason="stop"), Delta(tool_calls=(ToolCall("1", "look", {}),))]
)
def test_empty_answer_with_a_finish_reason_took_the_tokens_of_the_question(came: Delta) -> None:
    assert 0 < tokens(came) < tokens(came, Delta("word " * 50))


@pytest.mark.parametrize(
    "more",
    [
        Delta(thinking="word " * 50),
        Delta("word " * 50),
        Delta(tool_calls=(ToolCall("1", "look", {"at": "word " * 50}),)),
    ],
)
def test_thinking_and_tool_calls_are_estimated_as_text_is(more: Delta) -> None:
    assert tokens(Delta("word"), more) > tokens(Delta("word")) + 25
