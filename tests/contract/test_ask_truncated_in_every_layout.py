"""Many objects of a model that stops every 300, in every layout: all of them, none twice, in as few calls."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.layouts import LAYOUTS, Answer, answer
from trustgraph_prompt.ask import Piece, ask
from trustgraph_prompt.llm import Call, ScriptedAnswer, ScriptedProvider
from trustgraph_prompt.llm.token_estimates import estimate
from trustgraph_prompt.prompts import PromptDefinition, Question

AT_ONCE = 300
OBJECTS = [{"id": n, "text": f"żółć [{n}]", "of": {"deep": [n, None]}} for n in range(5_000)]
CALLS = 17
PROMPT = PromptDefinition.from_entry(
    "things",
    {
        "prompt": "unused",
        "dialect": "jinja",
        "response-type": "jsonl",
        "schema": {"type": "object", "required": ["id", "text", "of"]},
    },
)


def cut_in_the_next(said: Answer) -> str:
    """The first `AT_ONCE` objects of an answer, and the beginning of one more."""
    start, end = said.spans[AT_ONCE]
    return said.text[: (start + end) // 2]


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_all_objects_come_once_in_as_few_calls_as_can_be(layout: str) -> None:
    written: list[str] = []

    def model(call: Call) -> ScriptedAnswer:
        shown = [message.text for message in call.messages if message.role == "assistant"]
        begin = json.loads(shown[0].splitlines()[-1])["id"] + 1 if shown else 0
        said = answer(layout, OBJECTS[begin : begin + AT_ONCE + 1])
        if begin + AT_ONCE >= len(OBJECTS):
            written.append(said.text)
            return ScriptedAnswer(said.text, chunk=5_000)
        written.append(cut_in_the_next(said))
        return ScriptedAnswer(written[-1], finish_reason="length", chunk=5_000)

    given: list[Any] = []

    async def listen(piece: Piece) -> None:
        given.extend(piece.objects)

    outcome = await ask(PROMPT, Question("", "Which things?"), ScriptedProvider(model), listen=listen)

    assert outcome.value == given == OBJECTS
    assert (outcome.truncated, outcome.rejected, outcome.retracted) == (False, (), ())
    assert [call.why for call in outcome.calls] == ["first", *["continue"] * (CALLS - 1)]
    assert outcome.usage.completion_tokens == sum(map(estimate, written))
    assert outcome.usage.prompt_tokens is not None
    assert outcome.usage.prompt_tokens < 300 * CALLS
