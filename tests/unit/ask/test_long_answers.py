"""Answers that are long, or take long to read: the event loop goes on, and somewhere they end."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.support.asking import Asked, Script, lines, numbers, why
from trustgraph_prompt.ask import ask
from trustgraph_prompt.compute_thread import AT_ONCE, beside
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.cost import Budget
from trustgraph_prompt.errors import Reason
from trustgraph_prompt.llm import Call, Delta, ScriptedAnswer, ScriptedProvider
from trustgraph_prompt.prompts import PromptDefinition, Question
from trustgraph_prompt.reader import Outcome, StreamReader, read
from trustgraph_prompt.reader.stream_reader import reading_effort

LONG = lines(range(10_000))


def prompt(contract: Contract) -> PromptDefinition:
    return replace(
        PromptDefinition.from_entry("long", {"dialect": "jinja", "prompt": "?"}), contract=contract
    )


async def turns_while(work: Any) -> tuple[Outcome, int]:
    """What came of it, and how often others had their turn."""
    turns = 0

    async def spin() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    spinning = asyncio.create_task(spin())
    try:
        return await work, turns
    finally:
        spinning.cancel()


@pytest.mark.parametrize(
    ("text", "contract"),
    [
        ('{"a":' * 100_000, Contract.from_schema(None)),
        ('{"a":' * 100_000, Contract.from_schema(None, format="jsonl")),
        ("word " * 100_000 + "{}", Contract.from_schema(None, format="jsonl")),
        ('{"n": x}\n' * 500, Contract.from_schema({"required": ["n"]}, format="jsonl", repair=True)),
        ('{"n": "' + "a" * 100_000 + '"}', Contract.from_schema({"required": ["n"]}, coerce=True)),
        (
            json.dumps({"a": 1, "b": [0] * 2_000}),
            Contract.from_schema(None, invariants=["a not in b"] * 100),
        ),
    ],
    ids=["json", "jsonl", "prose", "broken", "one value", "rules"],
)
async def test_event_loop_goes_on_while_a_long_answer_is_read(text: str, contract: Contract) -> None:
    provider = Script(ScriptedAnswer(text, chunk=len(text)))
    few = Script(ScriptedAnswer("{}", chunk=len(text)))
    _, usual = await turns_while(ask(prompt(contract), Question("", "?"), few))
    outcome, turns = await turns_while(ask(prompt(contract), Question("", "?"), provider))
    assert turns > usual
    whole = read(text, contract, finish_reason="stop")
    assert (outcome.value, outcome.reason) == (whole.value, whole.reason)
    assert outcome.rejected == whole.rejected


async def test_work_of_few_steps_runs_at_once_and_more_in_one_thread() -> None:
    here = threading.get_ident()
    assert await beside(threading.get_ident, steps=AT_ONCE) == here
    there = {await beside(threading.get_ident, steps=AT_ONCE + 1), await beside(threading.get_ident)}
    assert len(there) == 1
    assert here not in there
    with pytest.raises(ZeroDivisionError):
        await beside(lambda: 1 // 0)


def test_estimated_steps_grow_with_the_answer_and_its_contract() -> None:
    schema = {"required": ["n"]}
    plain, mending = Contract.from_schema(schema), Contract.from_schema(schema, repair=True)
    ruled = Contract.from_schema(schema, invariants=["n > 1"] * 100)
    assert reading_effort(2_000, plain) == 2 * reading_effort(1_000, plain) <= AT_ONCE
    assert reading_effort(1_000, plain) < reading_effort(1_000, mending)
    assert reading_effort(1_000, plain) < reading_effort(1_000, ruled)
    many = Contract.from_schema({"items": {"allOf": [{"type": "string"}] * 40}})
    choosing = Contract.from_schema({"items": {"anyOf": [{"required": ["a"]}] * 3}}, coerce=True)
    assert reading_effort(1_000, plain) < reading_effort(1_000, choosing) < reading_effort(1_000, many)
    assert reading_effort(10**9, "text") == 0 < reading_effort(10, "jsonl")


@pytest.mark.parametrize(
    "text",
    [
        '{"a": {}, "b": [' + "{}, " * 20_000 + "1]}",
        '{"a": {}, "b": [x ' + "{}, " * 20_000 + "1]}",
        '{"items": [{"a": 1}' + ', {"a": 1}' * 8_000 + '], "b": {}}',
    ],
    ids=["value", "broken", "wrapper"],
)
def test_end_of_a_value_counts_the_steps_of_all_its_text(text: str) -> None:
    contract = Contract.from_schema(None, format="jsonl")
    reader = StreamReader(contract)
    for start in range(0, len(text) - 1, 16):
        reader.feed(text[start : min(start + 16, len(text) - 1)])
    assert reader.due("}") == reading_effort(len(text), contract) > AT_ONCE
    reader.feed("}\n")
    assert reader.due('{"b": 1}') < AT_ONCE


def test_lines_read_a_second_time_count_their_steps_again() -> None:
    contract = Contract.from_schema(None, format="jsonl")
    reader = StreamReader(contract)
    reader.feed(LONG)
    assert reader.due("and {}") >= reading_effort(len(LONG), contract)
    reader.feed("and {}")
    assert reader.due("and {}") < AT_ONCE


@pytest.mark.parametrize("chunk", [100, 10**6])
async def test_answer_is_cut_at_the_characters_of_the_budget(asked: Asked, chunk: int) -> None:
    script = Script(ScriptedAnswer(LONG, chunk=chunk), ScriptedAnswer(lines(range(5))))
    outcome = await asked(script, attempts=2, budget=Budget(characters=1_000))
    kept = LONG[:1_000].count("}")
    assert outcome.value == asked.given == numbers(range(kept))
    assert outcome.truncated
    assert why(outcome) == ["first"]
    assert len(outcome.calls[0].text) == 1_000
    assert "more than the 1,000 characters that the budget allows" in outcome.issues[-1].message


async def test_json_answer_longer_than_the_budget_has_no_value(asked: Asked) -> None:
    text = json.dumps({"n": 1, "text": "x" * 2_000})
    outcome = await asked(
        Script(ScriptedAnswer(text)), format="json", attempts=3, budget=Budget(characters=1_000)
    )
    assert not outcome.ok
    assert len(outcome.calls) == 1
    assert "1,000 characters" in str(outcome.cause)


async def test_text_longer_than_the_budget_is_cut(asked: Asked) -> None:
    outcome = await asked(Script(ScriptedAnswer("x" * 5_000)), format="text", budget=Budget(characters=1_000))
    assert (outcome.value, outcome.truncated) == ("x" * 1_000, True)


async def test_thinking_counts_towards_the_characters_of_the_budget(asked: Asked) -> None:
    def think(call: Call) -> Iterator[Delta]:
        while True:
            yield Delta(thinking="hm " * 100)

    outcome = await asked(ScriptedProvider(think), budget=Budget(characters=1_000))
    assert outcome.reason is Reason.PROVIDER_ERROR
    assert "more than the 1,000 characters" in str(outcome.cause)


async def test_answer_without_a_character_limit_is_read_to_its_end(asked: Asked) -> None:
    script = Script(ScriptedAnswer(LONG, chunk=10**6))
    assert (await asked(script, budget=Budget(characters=None))).value == numbers(range(10_000))


@pytest.mark.parametrize("format", ["json", "jsonl"])
@pytest.mark.parametrize(
    "text",
    [
        '{"a":' * 40_000,
        '{"a": [' + '{"b": "c"}, ' * 15_000,
        '{"a": "' + "long " * 40_000 + '"} {"b": 1}',
        "a { of prose " * 15_000,
        '{"a":1\n' * 30_000 + '{"b": 2}',
        "[[" * 50_000 + '{"a": 1}' + "]]" * 50_000,
        f"```json\n{LONG}\n```",
    ],
    ids=["nested", "open list", "string", "prose", "missing braces", "brackets", "fenced"],
)
def test_long_text_read_in_chunks_has_the_outcome_of_the_whole(text: str, format: Any) -> None:
    contract = Contract.from_schema(None, format=format)
    reader = StreamReader(contract)
    for start in range(0, len(text), 997):
        reader.feed(text[start : start + 997])
    assert reader.close() == read(text, contract)
