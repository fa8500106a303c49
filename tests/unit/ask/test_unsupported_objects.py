"""What a quote does not say, or a relation says twice: asked for again, each in its own words."""

from __future__ import annotations

import json

from trustgraph_prompt.ask import ask
from trustgraph_prompt.errors import Reason
from trustgraph_prompt.llm import Call, ScriptedAnswer, ScriptedProvider
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.reader import Outcome

TEXT = "Otto Meier worked at Delft. He painted Anna."
FACT = {
    "quote": "Otto Meier worked at Delft.",
    "subject": "Otto Meier",
    "relation": "worked at",
    "object": "Delft",
}
TWICE = {**FACT, "relation": "worked at Delft"}
PAINTED = {**FACT, "quote": "He painted Anna.", "relation": "painted", "object": "Anna"}
FATHER = {**FACT, "relation": "father of", "object": "Anna"}
STATEMENT = [{"statement": {"subject": "subject", "predicate": "relation", "object": "object"}}]


def prompt(**more: object) -> PromptDefinition:
    keys = {name: {"type": "string"} for name in FACT}
    schema = {
        "type": "object",
        "properties": {**keys, "quote": {"type": "string", "x-quote": "text"}},
        "required": list(FACT),
    }
    entry = {
        "dialect": "jinja",
        "prompt": "{{ text }}",
        "response-type": "jsonl",
        "schema": schema,
        "attempts": 2,
    }
    return PromptDefinition.from_entry("p", {**entry, **more})


async def asked(definition: PromptDefinition, *answers: list[object]) -> tuple[Outcome, list[Call]]:
    calls: list[Call] = []

    def answer(call: Call) -> ScriptedAnswer:
        calls.append(call)
        return ScriptedAnswer("\n".join(map(json.dumps, answers[len(calls) - 1])))

    question = definition.question({"text": TEXT})
    return await ask(definition, question, ScriptedProvider(answer)), calls


async def test_unsupported_object_may_be_left_out_when_it_is_asked_for_again() -> None:
    outcome, [_, again] = await asked(prompt(graph=STATEMENT), [FACT, FATHER], [])
    assert outcome.value == [FACT]
    assert [each.issues[0].reason for each in outcome.rejected] == [Reason.UNSUPPORTED]
    assert "Leave out what is not there" in again.messages[-1].text


async def test_repetition_is_asked_for_again_to_be_put_right() -> None:
    outcome, [_, again] = await asked(prompt(graph=STATEMENT), [PAINTED, TWICE], [FACT])
    assert outcome.value == [PAINTED, FACT]
    correction = again.messages[-1].text
    assert "Give the 1 object again, with that put right" in correction
    assert "write the relation without it, or leave the object out" in correction


async def test_answer_of_nothing_but_repetitions_has_their_reason() -> None:
    outcome, _ = await asked(prompt(graph=STATEMENT, attempts=1), [TWICE])
    assert (outcome.value, outcome.reason) == ([], Reason.REPETITIVE)


async def test_prompt_without_a_clause_is_not_asked_what_its_objects_say() -> None:
    outcome, _ = await asked(prompt(), [TWICE, FATHER])
    assert outcome.value == [TWICE, FATHER]


def test_clause_decides_what_is_accepted_only_beside_a_quote() -> None:
    unquoted = {"type": "object", "properties": {name: {"type": "string"} for name in FACT}}
    assert prompt(graph=STATEMENT).contract.fingerprint != prompt().contract.fingerprint
    with_clause, without = prompt(schema=unquoted, graph=STATEMENT), prompt(schema=unquoted)
    assert with_clause.contract.fingerprint == without.contract.fingerprint
