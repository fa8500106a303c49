"""Wherever and however often an answer is cut: nothing that stood is lost, nothing comes twice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trustgraph_prompt.ask import Piece, ask
from trustgraph_prompt.llm import Call, ScriptedAnswer, ScriptedProvider
from trustgraph_prompt.prompts import PromptDefinition, Question

TOTAL = 15
OBJECTS = [{"n": n, "text": f'żółć {{"n": {n}}}\n', "more": [n, None]} for n in range(TOTAL)]
PROMPT = PromptDefinition.from_entry(
    "numbers",
    {
        "prompt": "unused",
        "response-type": "jsonl",
        "schema": {"type": "object", "required": ["n", "text", "more"]},
    },
)

Layout = Callable[[list[Any]], str]
LAYOUTS: dict[str, Layout] = {
    "lines": lambda objects: "\n".join(map(json.dumps, objects)),
    "array": json.dumps,
    "pretty": lambda objects: json.dumps(objects, indent=2, ensure_ascii=False),
    "wrapped": lambda objects: json.dumps({"items": objects}),
    "fenced": lambda objects: "Here it is:\n```json\n" + "\n".join(map(json.dumps, objects)) + "\n```\nDone.",
    "thought": lambda objects: "<think>{hm}</think>\n" + "\n".join(map(json.dumps, objects)),
}


def model(layout: Layout, lengths: list[int], overlap: int) -> Callable[[Call], ScriptedAnswer]:
    """Goes on after the last object that it is shown, or some before; says `lengths` characters a call."""

    def answer(call: Call) -> ScriptedAnswer:
        shown = [message.text for message in call.messages if message.role == "assistant"]
        start = json.loads(shown[0].splitlines()[-1])["n"] + 1 - overlap if shown else 0
        number = int(call.labels["call"]) - 1
        limit = lengths[number] if number < len(lengths) else None
        return ScriptedAnswer(layout(OBJECTS[max(start, 0) :]), cut_after=limit, chunk=50)

    return answer


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=30, deadline=None)
@given(lengths=st.lists(st.integers(0, 1200), max_size=4), overlap=st.integers(0, 3))
def test_continued_answer_is_a_prefix_of_the_true_objects_wherever_it_is_cut(
    layout: str, lengths: list[int], overlap: int
) -> None:
    given_: list[Any] = []

    async def listen(piece: Piece) -> None:
        given_.extend(piece.objects)

    provider = ScriptedProvider(model(LAYOUTS[layout], lengths, overlap))
    outcome = asyncio.run(ask(PROMPT, Question("", "Which?"), provider, listen=listen))

    assert outcome.value == given_ == OBJECTS[: len(outcome.value)]
    assert outcome.rejected == ()
    assert outcome.truncated is True or len(outcome.value) == TOTAL
    assert (outcome.truncated is True) is (outcome.calls[-1].finish_reason == "length")
