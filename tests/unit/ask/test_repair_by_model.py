"""An answer of a wrong form is written anew by the model that gave it, without the question."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.asking import Asked, Script, cut, lines, numbers, why
from trustgraph_prompt.ask.messages import VALUES_SHOWN
from trustgraph_prompt.errors import Reason
from trustgraph_prompt.llm import ScriptedAnswer
from trustgraph_prompt.reader import Outcome

BY_MODEL = {"repair-by-model": True}
GOOD = ScriptedAnswer('{"n": 1}')
QUESTION = "Which numbers?"


async def repaired(asked: Asked, script: Script, **options: Any) -> Outcome:
    return await asked(script, **{"format": "json", "attempts": 3, "entry": BY_MODEL, **options})


@pytest.mark.parametrize("answer", ["The number is one.", '{"n" 1}', '{"n": "one"}', '{"number": 1}', "[1]"])
async def test_repair_shows_the_model_its_answer_the_issue_and_the_schema_alone(
    asked: Asked, answer: str
) -> None:
    script = Script(ScriptedAnswer(answer), GOOD)
    outcome = await repaired(asked, script)

    assert (outcome.value, outcome.ok) == ({"n": 1}, True)
    assert why(outcome) == ["first", "repair"]
    (message,) = script.calls[1].messages
    assert message.role == "user"
    assert answer in message.text
    assert '"n" (whole number)' in message.text
    assert QUESTION not in message.text
    assert not script.calls[1].schema_in_words


async def test_question_is_put_again_after_a_repair_in_vain(asked: Asked) -> None:
    script = Script(ScriptedAnswer("one"), ScriptedAnswer("no answer"), GOOD)
    outcome = await repaired(asked, script)

    assert why(outcome) == ["first", "repair", "invalid"]
    assert QUESTION in script.calls[2].messages[1].text
    assert outcome.value == {"n": 1}


async def test_answer_to_the_question_put_again_may_be_repaired_too(asked: Asked) -> None:
    script = Script(*map(ScriptedAnswer, ("one", "two", "three", '{"n": 3}')))
    outcome = await repaired(asked, script, attempts=4)

    assert why(outcome) == ["first", "repair", "invalid", "repair"]
    assert "three" in script.calls[3].messages[0].text
    assert outcome.value == {"n": 3}


async def test_repair_takes_an_attempt(asked: Asked) -> None:
    script = Script(*map(ScriptedAnswer, ("one", "two", "three")))
    outcome = await repaired(asked, script, attempts=2)
    assert why(outcome) == ["first", "repair"]
    assert (outcome.ok, outcome.escalated) == (False, "attempts")


async def test_answer_is_not_repaired_by_the_model_unless_the_prompt_says_so(asked: Asked) -> None:
    outcome = await repaired(asked, Script(ScriptedAnswer("one"), GOOD), entry={})
    assert why(outcome) == ["first", "invalid"]


@pytest.mark.parametrize("answer", ["", '{"n": 1'])
async def test_empty_or_cut_answer_is_asked_for_again_in_place_of_a_repair(asked: Asked, answer: str) -> None:
    outcome = await repaired(asked, Script(ScriptedAnswer(answer), GOOD))
    assert why(outcome) == ["first", "invalid"]


async def test_broken_invariant_is_asked_for_again_in_place_of_a_repair(asked: Asked) -> None:
    script = Script(ScriptedAnswer('{"n": 0}'), GOOD)
    entry = {**BY_MODEL, "invariants": [{"rule": "n > 0"}]}
    assert why(await repaired(asked, script, entry=entry)) == ["first", "invalid"]


async def test_answer_too_long_to_be_shown_whole_is_asked_for_again(asked: Asked) -> None:
    script = Script(ScriptedAnswer("x" * (VALUES_SHOWN + 1), chunk=1000), GOOD)
    assert why(await repaired(asked, script)) == ["first", "invalid"]


async def test_refused_objects_are_repaired_without_the_question(asked: Asked) -> None:
    script = Script(ScriptedAnswer(lines([1]) + '\n{"n": "two"}'), ScriptedAnswer(lines([2])))
    outcome = await repaired(asked, script, format="jsonl")

    assert why(outcome) == ["first", "repair"]
    assert (outcome.value, outcome.rejected) == (numbers([1, 2]), ())
    (message,) = script.calls[1].messages
    assert '{"n": "two"}' in message.text
    assert '{"n": 1}' not in message.text
    assert QUESTION not in message.text


@pytest.mark.parametrize("answer", ['{"n": "three"}', '{"n": "two"}', "no answer", ""])
async def test_objects_that_stay_refused_are_asked_for_with_the_question(asked: Asked, answer: str) -> None:
    first = ScriptedAnswer(lines([1]) + '\n{"n": "two"}')
    script = Script(first, ScriptedAnswer(answer), ScriptedAnswer(lines([2])))
    outcome = await repaired(asked, script, format="jsonl")

    assert why(outcome) == ["first", "repair", "invalid"]
    assert (outcome.value, outcome.rejected) == (numbers([1, 2]), ())


async def test_prose_is_repaired_to_objects(asked: Asked) -> None:
    script = Script(ScriptedAnswer("One, and two."), ScriptedAnswer(lines([1, 2])))
    outcome = await repaired(asked, script, format="jsonl")
    assert (why(outcome), outcome.value) == (["first", "repair"], numbers([1, 2]))


async def test_repaired_answer_that_is_cut_is_continued(asked: Asked) -> None:
    script = Script(ScriptedAnswer("One, and two."), cut(lines([1])), ScriptedAnswer(lines([2])))
    outcome = await repaired(asked, script, format="jsonl")
    assert why(outcome) == ["first", "repair", "continue"]
    assert (outcome.value, outcome.reason) == (numbers([1, 2]), Reason.SUCCESS)


async def test_caller_may_word_the_feedback(asked: Asked) -> None:
    script = Script(ScriptedAnswer('{"n": "one"} and more'), ScriptedAnswer(""), GOOD)
    outcome = await asked(
        script, format="json", attempts=3, feedback=lambda outcome: f"Wrong: {outcome.reason}."
    )
    assert outcome.value == {"n": 1}
    assert [message.text for message in script.calls[1].messages] == [
        "Be exact.",
        QUESTION,
        '{"n": "one"} and more',
        "Wrong: schema_type_error.",
    ]
    assert [message.text for message in script.calls[2].messages] == [
        "Be exact.",
        f"{QUESTION}\n\nWrong: empty.",
    ]
    assert not any(call.schema_in_words for call in script.calls)
