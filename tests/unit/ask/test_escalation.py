"""Answers that are for somebody else to deal with: by what they say, or because none was any good."""

from __future__ import annotations

import pytest

from tests.support.asking import Asked, Script, cut, lines, numbers, why
from trustgraph_prompt.ask import MemoryCache
from trustgraph_prompt.cost import Budget
from trustgraph_prompt.errors import ProviderAuthentication, ProviderUnavailable, Reason
from trustgraph_prompt.llm import RuntimeConfig, ScriptedAnswer
from trustgraph_prompt.prompts import Escalation


@pytest.mark.parametrize(
    ("op", "value", "answer", "holds"),
    [
        ("~", "I CANNOT", "i cannot.", True),
        ("~", "I cannot", "  **I**  `cannot`!\n", True),
        ("~", "I CANNOT", "I cannot do this", False),
        ("~", "straße", "STRASSE", True),
        ("==", "DONE", "DONE", True),
        ("==", "DONE", "\nDONE\n", True),
        ("==", "DONE", "done", False),
        ("!=", "DONE", "done", True),
        ("!=", "DONE", "DONE", False),
        ("!=", "DONE", " ", False),
        ("contains", "I cannot", "Sorry, I cannot do this.", True),
        ("contains", "I cannot", "i cannot", False),
        ("==", 'it\'s {{ a }} "so"', 'it\'s {{ a }} "so"', True),
    ],
)
def test_escalation_condition_compares_the_text(op: str, value: str, answer: str, holds: bool) -> None:
    assert Escalation(op, value).holds(answer) is holds  # type: ignore[arg-type]


def test_condition_on_a_cut_text_holds_only_if_the_text_contains_the_value() -> None:
    said = [Escalation(op, "yes").holds("yes", cut=True) for op in ("~", "==", "!=", "contains")]
    assert said == [False, False, False, True]


async def test_text_that_meets_the_condition_is_escalated_and_still_an_answer(asked: Asked) -> None:
    entry = {"escalate": {"op": "~", "value": "I CANNOT"}}
    outcome = await asked(Script(ScriptedAnswer("I cannot.")), format="text", entry=entry)
    assert (outcome.ok, outcome.value, outcome.escalated) == (True, "I cannot.", "condition")
    assert "escalated" in repr(outcome)

    outcome = await asked(Script(ScriptedAnswer("I can.")), format="text", entry=entry)
    assert outcome.escalated is None


async def test_escalated_answer_is_not_asked_for_again(asked: Asked) -> None:
    script = Script(ScriptedAnswer("I cannot."), ScriptedAnswer('{"n": 1}'))
    outcome = await asked(
        script, format="json", attempts=3, entry={"escalate": {"op": "contains", "value": "cannot"}}
    )
    assert (outcome.reason, outcome.escalated) == (Reason.EXTRACTION_FAILED, "condition")
    assert why(outcome) == ["first"]


async def test_valid_json_value_is_escalated_by_its_text(asked: Asked) -> None:
    script = Script(ScriptedAnswer('{"n": 1, "verdict": "ESCALATE"}'))
    outcome = await asked(script, format="json", entry={"escalate": {"op": "contains", "value": "ESCALATE"}})
    assert (outcome.ok, outcome.escalated) == (True, "condition")


@pytest.mark.parametrize("answer", ['"I cannot."', '```json\n"I cannot"\n```'])
async def test_json_string_is_compared_without_its_quotes(asked: Asked, answer: str) -> None:
    entry = {"schema": {"type": "string"}, "escalate": {"op": "~", "value": "I CANNOT"}}
    outcome = await asked(Script(ScriptedAnswer(answer)), format="json", entry=entry)
    assert (outcome.ok, outcome.escalated) == (True, "condition")


async def test_continued_text_is_compared_only_when_it_is_whole(asked: Asked) -> None:
    entry = {"escalate": {"op": "!=", "value": "all is well"}}
    script = Script(cut("all is "), ScriptedAnswer("well"), prefill=True)
    outcome = await asked(script, format="text", entry=entry)
    assert (outcome.value, outcome.escalated) == ("all is well", None)
    assert why(outcome) == ["first", "continue"]


async def test_spent_attempts_are_escalated(asked: Asked) -> None:
    script = Script(ScriptedAnswer("nothing"), ScriptedAnswer('{"n": "two"}'))
    outcome = await asked(script, format="json", attempts=2)
    assert (outcome.reason, outcome.escalated) == (Reason.SCHEMA_TYPE_ERROR, "attempts")


async def test_single_invalid_answer_is_escalated_only_with_an_escalate_clause(
    asked: Asked,
) -> None:
    script = Script(ScriptedAnswer("nothing"))
    assert (await asked(script, format="json")).escalated is None
    entry = {"escalate": {"op": "==", "value": "STOP"}}
    assert (await asked(script, format="json", entry=entry)).escalated == "attempts"


async def test_refusal_is_escalated_though_attempts_are_left(asked: Asked) -> None:
    script = Script(ScriptedAnswer("I will not.", finish_reason="content_filter"))
    outcome = await asked(script, format="json", attempts=3)
    assert (outcome.reason, outcome.escalated) == (Reason.REFUSED, "attempts")
    assert why(outcome) == ["first"]


async def test_refused_objects_beside_accepted_ones_are_not_escalated(asked: Asked) -> None:
    script = Script(ScriptedAnswer(lines([1]) + '\n{"n": "two"}'), ScriptedAnswer('{"n": "two"}'))
    outcome = await asked(script, attempts=2)
    assert (outcome.value, len(outcome.rejected), outcome.escalated) == (numbers([1]), 1, None)


@pytest.mark.parametrize("error", [ProviderUnavailable("away"), ProviderAuthentication("no key")])
async def test_provider_error_is_not_escalated(asked: Asked, error: Exception) -> None:
    outcome = await asked(Script(ScriptedAnswer(error=error)), format="json", attempts=2)  # type: ignore[arg-type]
    assert (outcome.reason, outcome.escalated) == (Reason.PROVIDER_ERROR, None)


async def test_budget_that_ends_before_the_attempts_do_is_not_escalated(asked: Asked) -> None:
    script = Script(ScriptedAnswer("nothing " * 100))
    outcome = await asked(script, format="json", attempts=3, budget=Budget(tokens=150))
    assert (outcome.reason, outcome.escalated) == (Reason.EXTRACTION_FAILED, None)


async def test_attempts_limited_by_the_budget_are_escalated_when_spent(asked: Asked) -> None:
    script = Script(ScriptedAnswer("nothing"))
    outcome = await asked(script, format="json", attempts=3, budget=Budget(attempts=1))
    assert (why(outcome), outcome.escalated) == (["first"], "attempts")


async def test_escalated_answer_is_not_cached(asked: Asked) -> None:
    script = Script(ScriptedAnswer("I cannot."))
    cache = MemoryCache()
    entry = {"cache": True, "escalate": {"op": "~", "value": "i cannot"}}
    for _ in range(2):
        outcome = await asked(script, format="text", entry=entry, cache=cache)
        assert (outcome.cached, outcome.escalated) == (False, "condition")
    await cache.close()
    assert len(script.calls) == 2


async def test_prompt_that_names_its_model_asks_that_model(asked: Asked) -> None:
    script = Script(ScriptedAnswer("nothing"), ScriptedAnswer('{"n": 1}'))
    await asked(script, format="json", attempts=2, entry={"model": {"name": "gemma", "temperature": 0}})
    assert [call.config for call in script.calls] == [RuntimeConfig(model="gemma", temperature=0)] * 2
