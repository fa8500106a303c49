"""The last response after a part of the answer was streamed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from trustgraph_prompt import wire
from trustgraph_prompt.errors import Issue, Reason
from trustgraph_prompt.outcome import Outcome, Rejected
from trustgraph_prompt.reader import read
from trustgraph_prompt.worker.flow import Flow, Input, Outputs
from trustgraph_prompt.worker.messages.response import jsonl_line, last_response

FLOW = Flow(
    "f", Input("persistent://tg/flow/requests", "s"), Outputs(response="persistent://tg/flow/responses")
)
CHALK, FLINT = {"entity": "chalk"}, {"entity": "flint"}
BOTH: Outcome[Any] = read(jsonl_line(CHALK) + jsonl_line(FLINT), "jsonl")
LARGE = Rejected(0, "{", (Issue(Reason.TOO_LARGE, "too large"),), 0)


def last(outcome: Outcome[Any], streamed: int) -> wire.PromptResponse:
    return last_response(outcome, FLOW, streaming=True, streamed_characters=streamed)


def test_last_response_has_the_lines_that_were_not_streamed() -> None:
    assert last(BOTH, 0).text == jsonl_line(CHALK) + jsonl_line(FLINT)
    assert last(BOTH, len(jsonl_line(CHALK))).text == jsonl_line(FLINT)
    assert last(BOTH, len(jsonl_line(CHALK)) + 3).text == jsonl_line(FLINT)[3:]


@pytest.mark.parametrize(
    "lost",
    [{"rejected": (LARGE,)}, {"retracted": ({"entity": "a long one"},)}],
    ids=["too large", "retracted"],
)
def test_no_part_of_a_line_follows_what_is_no_beginning_of_the_value(lost: dict[str, Any]) -> None:
    response = last(replace(BOTH, **lost), len(jsonl_line({"entity": "a long one"})))
    assert response.text == ""
    assert response.object is not None
