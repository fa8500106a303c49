"""Of many objects only the refused ones are asked for again, and each stays listed until it is corrected."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.asking import Asked, Script, cut, lines, numbers, why
from trustgraph_prompt import errors
from trustgraph_prompt.ask.messages import MOST_REFUSED_SHOWN, VALUES_SHOWN
from trustgraph_prompt.cost import Budget, Usage
from trustgraph_prompt.errors import Reason
from trustgraph_prompt.llm import ScriptedAnswer
from trustgraph_prompt.reader import Outcome


def said(*values: Any) -> str:
    return "\n".join(json.dumps({"n": value}) for value in values)


def refused(outcome: Outcome) -> list[tuple[int, Any]]:
    return [(rejected.index, json.loads(rejected.raw)["n"]) for rejected in outcome.rejected]


async def test_correction_asks_only_for_the_refused_objects(asked: Asked) -> None:
    script = Script(ScriptedAnswer(said(1, "two", 3, "four")), ScriptedAnswer(lines([2, 4])))
    outcome = await asked(script, attempts=2)

    assert outcome.value == asked.given == numbers([1, 3, 2, 4])
    assert outcome.rejected == ()
    assert (outcome.reason, outcome.truncated, outcome.issues) == (Reason.SUCCESS, False, ())
    assert why(outcome) == ["first", "invalid"]
    *_, answer, demand = script.calls[1].messages
    assert answer.content == said("two", "four")
    assert "1. /n" in demand.text
    assert "2. /n" in demand.text
    assert '"n": 3' not in answer.text + demand.text


async def test_refused_objects_are_not_asked_for_again_with_one_attempt(asked: Asked) -> None:
    outcome = await asked(Script(ScriptedAnswer(said(1, "two")), ScriptedAnswer(lines([2]))))

    assert outcome.value == numbers([1])
    assert refused(outcome) == [(1, "two")]
    assert why(outcome) == ["first"]


async def test_cut_answer_is_continued_before_refused_objects_are_asked_for(asked: Asked) -> None:
    script = Script(cut(said(1, "two")), ScriptedAnswer(said(3, "four")), ScriptedAnswer(lines([2, 4])))
    outcome = await asked(script, attempts=2)

    assert outcome.value == asked.given == numbers([1, 3, 2, 4])
    assert outcome.rejected == ()
    assert why(outcome) == ["first", "continue", "invalid"]


async def test_object_that_stays_refused_keeps_its_place_and_has_its_new_issue(asked: Asked) -> None:
    script = Script(ScriptedAnswer(said(1, "two", "three")), ScriptedAnswer(said(2, "drei")))
    outcome = await asked(script, attempts=2)

    assert outcome.value == numbers([1, 2])
    assert refused(outcome) == [(2, "drei")]


async def test_objects_that_stay_refused_are_asked_for_while_attempts_are_left(asked: Asked) -> None:
    script = Script(
        ScriptedAnswer(said(1, "two", "three")), ScriptedAnswer(said(2, "drei")), ScriptedAnswer(lines([3]))
    )
    outcome = await asked(script, attempts=3)

    assert outcome.value == asked.given == numbers([1, 2, 3])
    assert outcome.rejected == ()
    assert "drei" in script.calls[2].messages[-2].text


@pytest.mark.parametrize("again", [said("two", "three"), "I cannot.", "[]", ""])
async def test_correction_that_brings_no_better_object_is_the_last(asked: Asked, again: str) -> None:
    script = Script(ScriptedAnswer(said(1, "two", "three")), ScriptedAnswer(again))
    outcome = await asked(script, attempts=9)

    assert outcome.value == numbers([1])
    assert refused(outcome) == [(1, "two"), (2, "three")]
    assert (outcome.reason, outcome.truncated) == (Reason.SUCCESS, False)
    assert why(outcome) == ["first", "invalid"]


async def test_all_stay_listed_as_refused_where_fewer_objects_come_back(asked: Asked) -> None:
    script = Script(ScriptedAnswer(said(1, "two", "three")), ScriptedAnswer(lines([3])))
    outcome = await asked(script, attempts=2)

    assert outcome.value == numbers([1, 3])
    assert refused(outcome) == [(1, "two"), (2, "three")]


async def test_cut_correction_is_asked_for_once_more(asked: Asked) -> None:
    script = Script(
        ScriptedAnswer(said(1, "two", "three", "four")),
        cut(said(2, 3) + '\n{"n": 4'),
        ScriptedAnswer(lines([2, 3, 4])),
    )
    outcome = await asked(script, attempts=3)

    assert outcome.value == asked.given == numbers([1, 2, 3, 4])
    assert outcome.rejected == ()
    assert outcome.truncated is False


async def test_correction_that_repeats_the_whole_answer_is_understood(asked: Asked) -> None:
    script = Script(ScriptedAnswer(said(1, "two", 3)), ScriptedAnswer(lines([1, 2, 3])))
    outcome = await asked(script, attempts=2)

    assert outcome.value == asked.given == numbers([1, 3, 2])
    assert outcome.rejected == ()


async def test_correction_that_repeats_an_accepted_object_is_not_counted_twice(asked: Asked) -> None:
    script = Script(ScriptedAnswer(said(1, "one")), ScriptedAnswer(lines([1])))
    outcome = await asked(script, attempts=2)

    assert outcome.value == asked.given == numbers([1])
    assert outcome.rejected == ()


async def test_new_objects_of_a_correction_are_kept_and_replace_no_refused_one(asked: Asked) -> None:
    script = Script(ScriptedAnswer(said(1, "two")), ScriptedAnswer(lines([2, 7, 8])))
    outcome = await asked(script, attempts=2)

    assert outcome.value == asked.given == numbers([1, 2, 7, 8])
    assert refused(outcome) == [(1, "two")]


async def test_correction_asks_for_a_bounded_number_of_objects_at_a_time(
    asked: Asked,
) -> None:
    many = MOST_REFUSED_SHOWN + 10
    script = Script(
        ScriptedAnswer(said(0, *(f"no {n}" for n in range(many))), chunk=9_000),
        ScriptedAnswer(lines(range(1, MOST_REFUSED_SHOWN + 1))),
        ScriptedAnswer(lines(range(MOST_REFUSED_SHOWN + 1, many + 1))),
    )
    outcome = await asked(script, attempts=3)

    assert outcome.value == numbers(range(many + 1))
    assert outcome.rejected == ()
    assert len(script.calls[1].messages[-2].text.splitlines()) == MOST_REFUSED_SHOWN


async def test_huge_refused_objects_are_not_sent_back(asked: Asked) -> None:
    huge = said("x" * (VALUES_SHOWN + 1))
    script = Script(ScriptedAnswer(said(1, "two") + "\n" + huge, chunk=9_000), ScriptedAnswer(lines([2])))
    outcome = await asked(script, attempts=3)

    assert outcome.value == numbers([1, 2])
    assert [rejected.index for rejected in outcome.rejected] == [2]
    assert why(outcome) == ["first", "invalid"]


async def test_broken_json_is_sent_back_as_it_was_written(asked: Asked) -> None:
    script = Script(ScriptedAnswer("{'n': 2}\n" + lines([1])), ScriptedAnswer(lines([2])))
    outcome = await asked(script, attempts=2)

    assert outcome.value == numbers([1, 2])
    assert outcome.rejected == ()
    assert script.calls[1].messages[-2].content == "{'n': 2}"


async def test_failed_correction_takes_no_object_back(asked: Asked) -> None:
    key = errors.ProviderAuthentication("the key has expired")
    outcome = await asked(Script(ScriptedAnswer(said(1, "two")), ScriptedAnswer(error=key)), attempts=2)

    assert outcome.value == numbers([1])
    assert refused(outcome) == [(1, "two")]
    assert (outcome.reason, outcome.truncated) == (Reason.SUCCESS, False)
    assert isinstance(outcome.cause, errors.ProviderAuthentication)


async def test_refused_objects_stay_refused_where_the_budget_ends(asked: Asked) -> None:
    script = Script(ScriptedAnswer(said(1, "two"), usage=Usage(50, 50, 100)), ScriptedAnswer(lines([2])))
    outcome = await asked(script, attempts=2, budget=Budget(tokens=110))

    assert refused(outcome) == [(1, "two")]
    assert outcome.issues[-1].reason is Reason.BUDGET_SPENT
    assert outcome.truncated is False


async def test_object_refused_on_both_sides_of_a_cut_is_listed_once(asked: Asked) -> None:
    script = Script(cut(said(1, 2, "three")), ScriptedAnswer(said("three", 4)))
    outcome = await asked(script)

    assert outcome.value == numbers([1, 2, 4])
    assert refused(outcome) == [(2, "three")]
