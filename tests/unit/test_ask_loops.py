"""Models that go round in circles: neither continued nor paid for twice."""

from __future__ import annotations

import json
from itertools import cycle, islice
from typing import Any

import pytest

from tests.support.asking import Asked, Script, cut, lines, numbers, why
from trustgraph_prompt.llm import Call, RuntimeConfig, ScriptedAnswer, ScriptedProvider

PHRASES = ["the ", "A knowledge graph is a graph of knowledge. ", "\n", '{"n": ', "word " * 60]


@pytest.mark.parametrize("phrase", PHRASES)
@pytest.mark.parametrize("format", ["json", "jsonl", "text"])
@pytest.mark.parametrize("prefill", [True, False])
async def test_a_phrase_over_and_over_is_paid_for_once(
    asked: Asked, phrase: str, format: str, prefill: bool
) -> None:
    script = Script(cut("Well. " + phrase * (2400 // len(phrase))), prefill=prefill)
    outcome = await asked(script, format=format, attempts=3, config=RuntimeConfig(max_tokens=600))

    assert why(outcome) == ["first"]
    assert outcome.truncated is True
    assert "only repeated itself" in str(outcome.issues[-1])


async def test_a_phrase_after_objects_ends_it_too(asked: Asked) -> None:
    outcome = await asked(Script(cut(lines(range(9)) + "\nand so on " * 60)), attempts=3)

    assert outcome.value == numbers(range(9))
    assert why(outcome) == ["first"]


async def test_what_stood_in_the_text_before_is_a_circle_however_long(asked: Asked) -> None:
    chapter = " ".join(f"sentence {n} of the chapter." for n in range(60))
    script = Script(cut('{"n": 1, "text": "'), cut(chapter), cut(chapter), prefill=True)
    outcome = await asked(script, format="json")

    assert why(outcome) == ["first", "continue", "continue"]
    assert "only repeated itself" in outcome.explain()


async def test_a_circle_that_begins_while_going_on_is_seen_over_the_seams(asked: Asked) -> None:
    script = Script(cut('{"n": 1, "text": "'), *(cut("ever and " * 6) for _ in range(60)), prefill=True)
    outcome = await asked(script, format="json")

    assert 4 < len(outcome.calls) < 10


async def test_objects_that_hardly_vary_are_a_circle(asked: Asked) -> None:
    said = list(islice(cycle(range(20)), 100))
    said[70] = 777
    outcome = await asked(Script(cut(lines(said))))

    assert why(outcome) == ["first"]


async def test_beginning_anew_in_each_call_is_one(asked: Asked) -> None:
    outcome = await asked(Script(cut(lines(range(50))), cut(lines(range(51)))))

    assert outcome.value == asked.given == numbers(range(51))
    assert why(outcome) == ["first", "continue"]
    assert outcome.truncated is True


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"n": 1, "rows": [{"id": n, "value": 0, "unit": "kg", "of": None} for n in range(90)]}),
        json.dumps({"n": 1, "rows": [[n % 7, n % 5, n % 3] for n in range(300)]}, indent=8),
        json.dumps({"n": 1, "path": [f"https://example.org/things/{n}" for n in range(90)]}),
    ],
)
async def test_what_is_merely_alike_goes_on(asked: Asked, text: str) -> None:
    middle = len(text) // 2
    script = Script(cut(text[:middle]), ScriptedAnswer(text[middle:]), prefill=True)
    outcome = await asked(script, format="json")

    assert outcome.value == json.loads(text)


@pytest.mark.parametrize("format", ["json", "jsonl", "text"])
async def test_a_model_that_invents_for_ever_is_ended(asked: Asked, format: str) -> None:
    def endless(call: Call) -> Any:
        number = int(call.labels["call"])
        begun = '{"n": 1, "of": [' if number == 1 and format == "json" else ""
        return cut(begun + (lines([number]) if format == "jsonl" else f"{number * 7919}, "))

    outcome = await asked(ScriptedProvider(endless, prefill=True), format=format, attempts=3)

    assert len(outcome.calls) == 51
    assert outcome.truncated is True
