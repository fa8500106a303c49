"""Examples that the model is shown: the messages of each call, and objects of examples that come back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.asking import Script, cut, why
from trustgraph_prompt.ask import MemoryCache, ask
from trustgraph_prompt.ask.messages import opening
from trustgraph_prompt.cost import Budget
from trustgraph_prompt.errors import Reason
from trustgraph_prompt.llm import Call, ScriptedAnswer
from trustgraph_prompt.llm.token_estimates import estimate_messages
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.reader import Outcome

RIVER = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "length": {"type": "integer"}},
    "required": ["name"],
}
ELBE = '{"name": "Elbe", "length": 1094}'
ODER = '{"name": "Oder"}'
RHINE = '{"name": "Rhine"}'
SHOWN = [
    {
        "terms": {"text": "The Elbe (1,094 km) and the Oder."},
        "reads": [{"length": 1094, "name": "Elbe"}, {"name": "Oder"}],
    },
    {"terms": {"text": "A hill."}, "reads": []},
]
TURNS = [
    ("user", "The Elbe (1,094 km) and the Oder."),
    ("assistant", f"{ELBE}\n{ODER}"),
    ("user", "A hill."),
    ("assistant", "[]"),
]
ASKED = [("system", "Find rivers."), *TURNS, ("user", "The Rhine.")]


def prompt(**more: Any) -> PromptDefinition:
    whole: dict[str, Any] = {
        "dialect": "jinja",
        "prompt": "{{ text }}",
        "system": "Find rivers.",
        "answer-format": "none",
    }
    whole |= {"response-type": "jsonl", "schema": RIVER, "shown": SHOWN, **more}
    unset = [key for key, value in more.items() if value is None]
    return PromptDefinition.from_entry(
        "rivers", {key: value for key, value in whole.items() if key not in unset}
    )


async def asked(
    definition: PromptDefinition, *answers: str | ScriptedAnswer, text: str = "The Rhine.", **options: Any
) -> tuple[Outcome, list[Call]]:
    script = Script(*(ScriptedAnswer(one) if isinstance(one, str) else one for one in answers))
    outcome = await ask(definition, definition.question({"text": text}), script, **options)
    return outcome, script.calls


def said(call: Call) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in call.messages]


class TestForms:
    async def test_examples_are_turns_between_system_message_and_question(self) -> None:
        outcome, [call] = await asked(prompt(), RHINE)
        assert said(call) == ASKED
        assert [message.is_example for message in call.messages] == [False, *[True] * 4, False]
        assert outcome.value == [{"name": "Rhine"}]

    async def test_lists_have_the_form_that_the_server_enforces(self) -> None:
        [native] = (await asked(prompt(native="items"), RHINE))[1]
        [of_json] = (await asked(prompt(**{"response-type": "json"}, many=True), "[]"))[1]
        for call in (native, of_json):
            assert call.response_schema is not None
            assert said(call)[2] == ("assistant", f'{{"items": [{ELBE}, {ODER}]}}')
        assert said(native)[4] == ("assistant", '{"items": []}')

    async def test_value_and_text_are_as_they_are_read(self) -> None:
        one = [{"terms": {"text": "The Elbe."}, "reads": {"name": "Elbe"}}]
        [call] = (await asked(prompt(**{"response-type": "json"}, shown=one), RHINE))[1]
        assert said(call)[2] == ("assistant", '{"name": "Elbe"}')
        text = [{"terms": {"text": "The Elbe."}, "reads": "Elbe\n"}]
        as_text = prompt(**{"response-type": "text", "answer-format": None}, schema=None, shown=text)
        [call] = (await asked(as_text, "Rhine"))[1]
        assert said(call)[2] == ("assistant", "Elbe\n")

    async def test_letters_of_other_scripts_are_not_escaped(self) -> None:
        shown = [{"terms": {"text": "長江"}, "reads": [{"name": "長江"}]}]
        [call] = (await asked(prompt(shown=shown), RHINE))[1]
        assert said(call)[2] == ("assistant", '{"name": "長江"}')

    async def test_examples_as_text_stand_in_the_question(self) -> None:
        [call] = (await asked(prompt(examples={"as": "text"}), RHINE))[1]
        assert said(call) == [
            ("system", "Find rivers."),
            (
                "user",
                f"Passage:\nThe Elbe (1,094 km) and the Oder.\n\nAnswer:\n{ELBE}\n{ODER}\n\n"
                "Passage:\nA hill.\n\nAnswer:\n[]\n\nPassage:\nThe Rhine.\n\nAnswer:",
            ),
        ]

    async def test_prompt_that_shows_nothing_is_asked_as_before(self) -> None:
        for more in ({}, {"examples": {"as": "text"}}):
            [call] = (await asked(prompt(shown=None, **more), RHINE))[1]
            assert said(call) == [("system", "Find rivers."), ("user", "The Rhine.")]


class TestFollowUps:
    """Further calls speak of the last passage, and of its objects alone."""

    async def test_continuation_counts_objects_of_the_last_passage(self) -> None:
        outcome, calls = await asked(prompt(), cut(f'{RHINE}\n{{"na'), '{"name": "Main"}', text="Rhine, Main")
        assert outcome.value == [{"name": "Rhine"}, {"name": "Main"}]
        assert said(calls[1])[: len(ASKED) - 1] == ASKED[:-1]
        assert said(calls[1])[-2][1] == '{"name":"Rhine"}'
        assert said(calls[1])[-1][1].startswith(
            "Your answer about this last passage was cut off after 1 object;"
        )

    async def test_next_pass_counts_objects_of_the_last_passage(self) -> None:
        _, calls = await asked(prompt(passes=2), RHINE, "[]")
        assert said(calls[1])[: len(ASKED)] == ASKED
        assert said(calls[1])[-1][1].startswith("That makes 1 object about this last passage so far. Look")

    async def test_correction_of_an_object_speaks_of_the_last_passage(self) -> None:
        _, calls = await asked(prompt(attempts=2), f'{RHINE}\n{{"name": 3}}', "[]")
        assert said(calls[1])[: len(ASKED)] == ASKED
        assert said(calls[1])[-1][1].startswith("Of your answer about this last passage, the 1 object above")

    async def test_correction_of_an_answer_asks_about_the_last_passage(self) -> None:
        one = [{"terms": {"text": "The Elbe."}, "reads": {"name": "Elbe"}}]
        _, calls = await asked(prompt(**{"response-type": "json"}, shown=one, attempts=2), "{}", RHINE)
        assert "Answer again about this last passage, completely, with that put" in said(calls[1])[-1][1]

    async def test_empty_answer_is_asked_for_at_the_end_of_the_question(self) -> None:
        _, calls = await asked(prompt(attempts=2), "", RHINE)
        assert said(calls[1])[:-1] == ASKED[:-1]
        assert said(calls[1])[-1][1].startswith("The Rhine.\n\nAn earlier answer to this was empty.")

    @pytest.mark.parametrize("more", [{}, {"examples": {"as": "text"}}], ids=["no examples", "as text"])
    async def test_wording_without_turns_is_unchanged(self, more: Any) -> None:
        definition = prompt(**{"shown": None, "attempts": 2, "passes": 2, **more})
        answers: list[str | ScriptedAnswer] = [
            cut(f'{RHINE}\n{{"na'),
            '{"name": 3}',
            '{"name": "Main"}',
            "[]",
        ]
        outcome, calls = await asked(definition, *answers)
        assert why(outcome) == ["first", "continue", "invalid", "pass"]
        starts = ["Your answer was cut off after 1 object;", "Of your answer, the 1 object above"]
        starts.append("That makes 2 objects so far. Look once more")
        assert [
            said(call)[-1][1][: len(start)] for call, start in zip(calls[1:], starts, strict=True)
        ] == starts


class TestEchoes:
    @pytest.mark.parametrize("more", [{}, {"native": "items"}, {"examples": {"as": "text"}}], ids=str)
    async def test_objects_of_examples_that_come_back_are_refused(self, more: Any) -> None:
        outcome, _ = await asked(prompt(**more), f"{ELBE}\n{ODER}\n{RHINE}")
        assert outcome.value == [{"name": "Rhine"}]
        assert [one.issues[0].reason for one in outcome.rejected] == [Reason.ECHOED] * 2

    async def test_object_of_an_example_that_the_passage_names_is_kept(self) -> None:
        outcome, _ = await asked(prompt(), f"{ELBE}\n{ODER}", text="From the Oder to the Rhine.")
        assert outcome.value == [{"name": "Oder"}]

    async def test_echoes_are_kept_where_the_prompt_says_so(self) -> None:
        outcome, _ = await asked(prompt(echoes="keep"), ELBE)
        assert outcome.value == [json.loads(ELBE)]

    async def test_echo_in_a_continuation_is_refused(self) -> None:
        outcome, _ = await asked(prompt(), cut(f'{RHINE}\n{{"na'), f"{ODER}\n{ELBE}")
        assert outcome.value == [{"name": "Rhine"}]


class TestBudgetAndCache:
    async def test_budget_counts_the_tokens_of_examples(self) -> None:
        def tokens(definition: PromptDefinition) -> int:
            return estimate_messages(opening(definition, definition.question({"text": "The Rhine."})))

        few, many = tokens(prompt(shown=None)), tokens(prompt())
        assert many > few + 10
        budget = Budget(tokens=many - 1)
        outcome, calls = await asked(prompt(), RHINE, budget=budget)
        assert (outcome.reason, calls) == (Reason.BUDGET_SPENT, [])
        outcome, _ = await asked(prompt(shown=None), RHINE, budget=Budget(tokens=many))
        assert outcome.calls

    async def test_answer_is_cached_for_the_same_examples_alone(self) -> None:
        cache = MemoryCache()

        async def calls(shown: Sequence[Any] | None) -> int:
            return len((await asked(prompt(cache=True, shown=shown), RHINE, cache=cache))[1])

        assert [await calls(shown) for shown in (SHOWN, SHOWN, SHOWN[:1], None, SHOWN[::-1])] == [
            1,
            0,
            1,
            1,
            1,
        ]
