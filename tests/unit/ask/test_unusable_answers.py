"""An answer to a prompt for many objects that has none is of use only where it says that there is none."""

from __future__ import annotations

import pytest

from tests.support.asking import Asked, Script, why
from trustgraph_prompt.cost import Usage
from trustgraph_prompt.errors import Reason
from trustgraph_prompt.llm import ScriptedAnswer

OR_NOTHING = "If there is nothing to give, answer with []."


@pytest.mark.parametrize(
    "answer",
    [
        "[]",
        " [ ]\n",
        "```json\n[]\n```",
        '{"items": []}',
        '```\n{"numbers": []}\n```',
        "The text has no numbers:\n[]",
        "<think>Hm.</think>\n[]",
    ],
)
async def test_empty_list_is_an_answer(asked: Asked, answer: str) -> None:
    outcome = await asked(Script(ScriptedAnswer(answer)), attempts=3)

    assert (outcome.reason, outcome.value, why(outcome)) == (Reason.SUCCESS, [], ["first"])


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("I'm sorry, I can't do that.", Reason.EXTRACTION_FAILED),
        ("There are no numbers in the text.", Reason.EXTRACTION_FAILED),
        ("See [] in section 3.", Reason.EXTRACTION_FAILED),
        ("null", Reason.EXTRACTION_FAILED),
        ("```json\n```", Reason.EXTRACTION_FAILED),
        ("[1, 2]", Reason.EXTRACTION_FAILED),
        ("<think>[]</think>Sorry.", Reason.EXTRACTION_FAILED),
        ("", Reason.EMPTY),
        (" \n", Reason.EMPTY),
        ('{"n": "one"}', Reason.SCHEMA_TYPE_ERROR),
    ],
)
async def test_answer_without_objects_is_asked_for_again_while_attempts_are_left(
    asked: Asked, answer: str, reason: Reason
) -> None:
    script = Script(ScriptedAnswer(answer))
    outcome = await asked(script, attempts=3)

    assert (outcome.reason, outcome.value) == (reason, [])
    assert why(outcome) == ["first", "invalid", "invalid"]
    may_mean_nothing = reason in (Reason.EMPTY, Reason.EXTRACTION_FAILED)
    assert [OR_NOTHING in call.messages[-1].text for call in script.calls] == [
        *(False, may_mean_nothing, may_mean_nothing)
    ]


async def test_correction_may_be_answered_with_an_empty_list(asked: Asked) -> None:
    script = Script(ScriptedAnswer("There are no numbers in the text."), ScriptedAnswer("[]"))
    outcome = await asked(script, attempts=3)

    assert (outcome.reason, outcome.value, why(outcome)) == (Reason.SUCCESS, [], ["first", "invalid"])


async def test_correction_of_a_single_value_does_not_offer_an_empty_answer(asked: Asked) -> None:
    script = Script(ScriptedAnswer("Sorry."))
    await asked(script, format="json", attempts=2)

    assert OR_NOTHING not in script.calls[-1].messages[-1].text


@pytest.mark.parametrize("format", ["json", "jsonl"])
@pytest.mark.parametrize(
    ("answer", "reason", "words"),
    [
        (
            ScriptedAnswer("I will not.", finish_reason="content_filter"),
            Reason.REFUSED,
            "the model or a content filter refused to answer: I will not.",
        ),
        (
            ScriptedAnswer("", finish_reason="content_filter"),
            Reason.REFUSED,
            "the model or a content filter refused to answer",
        ),
        (
            ScriptedAnswer("", thinking="Hm."),
            Reason.EMPTY,
            "the answer is empty: the server sent nothing but thinking",
        ),
        (
            ScriptedAnswer("", thinking="Hm.", finish_reason="length", usage=Usage(9, 4096, 4105)),
            Reason.EMPTY,
            "the answer is empty: its 4,096 tokens went into thinking; allow more (`max-tokens`), or less "
            "thinking (`reasoning_effort`)",
        ),
        (
            ScriptedAnswer("", finish_reason="length", usage=Usage(9, 4096, 4105)),
            Reason.EMPTY,
            "the answer is empty: its 4,096 tokens were spent before it began, as by thinking; allow more "
            "(`max-tokens`), or less thinking (`reasoning_effort`)",
        ),
    ],
)
async def test_answer_without_text_says_what_came_instead(
    asked: Asked, format: str, answer: ScriptedAnswer, reason: Reason, words: str
) -> None:
    outcome = await asked(Script(answer), format=format)

    assert (outcome.reason, outcome.explain()) == (reason, words)
