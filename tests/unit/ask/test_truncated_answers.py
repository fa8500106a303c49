"""Answers that were cut: what is kept, what is asked for, and when that ends."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.asking import Asked, Script, cut, lines, numbers, why
from trustgraph_prompt import errors
from trustgraph_prompt.llm import Call, ScriptedAnswer, ScriptedProvider
from trustgraph_prompt.reader import Stage


class TestCutAnswers:
    async def test_continuation_asks_only_for_the_rest(self, asked: Asked) -> None:
        script = Script(cut(lines(range(10)) + '\n{"n": 1'), ScriptedAnswer(lines(range(10, 15))))
        outcome = await asked(script)

        assert outcome.value == asked.given == numbers(range(15))
        assert outcome.truncated is False
        assert outcome.rejected == ()
        assert why(outcome) == ["first", "continue"]
        shown, demand = script.calls[1].messages[-2:]
        assert shown.content == "\n".join(f'{{"n":{n}}}' for n in range(5, 10))
        assert "10 objects" in demand.content

    @pytest.mark.parametrize(("many", "said"), [(1, "after 1 object;"), (2, "after 2 objects;")])
    async def test_continuation_says_how_many_objects_there_are(
        self, asked: Asked, many: int, said: str
    ) -> None:
        script = Script(cut(lines(range(many))), ScriptedAnswer("[]"))
        await asked(script)

        assert said in script.calls[1].messages[-1].text

    async def test_thousand_objects_take_as_few_calls_as_they_need(self, asked: Asked) -> None:
        parts = [cut(lines(range(n, n + 100))) for n in range(0, 900, 100)]
        outcome = await asked(Script(*parts, ScriptedAnswer(lines(range(900, 1000)))))

        assert outcome.value == asked.given == numbers(range(1000))
        assert len(outcome.calls) == 10
        assert outcome.usage.completion_tokens == sum(c.usage.completion_tokens or 0 for c in outcome.calls)

    async def test_objects_repeated_by_a_continuation_count_once(self, asked: Asked) -> None:
        outcome = await asked(Script(cut(lines(range(10))), ScriptedAnswer(lines(range(7, 14)))))

        assert outcome.value == asked.given == numbers(range(14))

    async def test_objects_repeated_within_one_answer_all_count(self, asked: Asked) -> None:
        outcome = await asked(Script(ScriptedAnswer(lines([6, 6, 1]))))

        assert outcome.value == numbers([6, 6, 1])

    async def test_answer_is_complete_when_a_continuation_says_there_is_no_more(self, asked: Asked) -> None:
        outcome = await asked(Script(cut(lines(range(3))), ScriptedAnswer("[]")))

        assert outcome.value == numbers(range(3))
        assert outcome.truncated is False

    async def test_continuation_of_words_alone_leaves_completeness_unknown(self, asked: Asked) -> None:
        outcome = await asked(Script(cut(lines(range(3))), ScriptedAnswer("I cannot help with that.")))

        assert outcome.value == numbers(range(3))
        assert outcome.truncated is None

    @pytest.mark.parametrize(("finish_reason", "truncated"), [("stop", False), (None, None)])
    async def test_empty_continuation_is_the_end_only_with_a_finish_reason(
        self, asked: Asked, finish_reason: Any, truncated: bool | None
    ) -> None:
        outcome = await asked(Script(cut(lines([1])), ScriptedAnswer("", finish_reason=finish_reason)))

        assert outcome.value == numbers([1])
        assert outcome.truncated is truncated
        assert outcome.issues == ()

    async def test_continuation_that_ends_within_an_object_is_cut_though_it_says_stop(
        self, asked: Asked
    ) -> None:
        outcome = await asked(Script(cut(lines([1, 2])), ScriptedAnswer('{"n": 4, "x": "abc')))

        assert outcome.value == numbers([1, 2])
        assert outcome.truncated is True

    async def test_too_many_objects_are_an_issue_of_the_outcome(self, asked: Asked) -> None:
        outcome = await asked(Script(ScriptedAnswer(lines(range(20_050)), chunk=50_000)))

        assert outcome.ok
        assert outcome.truncated is True
        assert "more than" in outcome.issues[0].message

    async def test_continuation_retracts_only_its_own_objects(self, asked: Asked) -> None:
        script = Script(cut(lines([1, 2, 3])), ScriptedAnswer(f"{lines([3, 9])}</think>\n{lines([4])}"))
        outcome = await asked(script)

        assert outcome.value == numbers([1, 2, 3, 4])
        assert outcome.retracted == ({"n": 9},)

    async def test_few_objects_repeated_in_a_continuation_do_not_end_it(self, asked: Asked) -> None:
        outcome = await asked(Script(cut(lines([1, 1, 1])), ScriptedAnswer(lines([2]))))

        assert outcome.value == numbers([1, 1, 1, 2])

    @pytest.mark.parametrize(
        ("again", "says"),
        [(lines(range(3)), "repeated itself"), ('{"n": ', "nothing new"), ("", "nothing new")],
    )
    async def test_continuation_that_brings_nothing_new_is_the_last(
        self, asked: Asked, again: str, says: str
    ) -> None:
        outcome = await asked(Script(cut(lines(range(3))), cut(again)))

        assert outcome.value == numbers(range(3))
        assert outcome.truncated is True
        assert why(outcome) == ["first", "continue"]
        assert says in outcome.issues[0].message

    async def test_repetition_is_not_continued(self, asked: Asked) -> None:
        outcome = await asked(Script(cut(lines([1, 2, 3] * 20))))

        assert why(outcome) == ["first"]
        assert outcome.truncated is True
        assert "repeated itself" in outcome.issues[0].message

    async def test_model_that_never_ends_is_ended(self, asked: Asked) -> None:
        def endless(call: Call) -> ScriptedAnswer:
            return cut(lines([int(call.labels["call"])]))

        outcome = await asked(ScriptedProvider(endless))

        assert len(outcome.calls) == 51
        assert outcome.truncated is True

    async def test_answer_cut_before_its_first_object_is_not_continued(self, asked: Asked) -> None:
        outcome = await asked(Script(cut('{"n": ')))

        assert not outcome.ok
        assert outcome.truncated is True
        assert why(outcome) == ["first"]

    async def test_objects_are_kept_where_the_continuation_fails(self, asked: Asked) -> None:
        key = errors.ProviderAuthentication("the key has expired")
        outcome = await asked(Script(cut(lines(range(3))), ScriptedAnswer(error=key)))

        assert outcome.ok
        assert outcome.value == numbers(range(3))
        assert outcome.truncated is True
        assert isinstance(outcome.cause, errors.ProviderAuthentication)

    async def test_rejected_objects_are_numbered_across_continuations(self, asked: Asked) -> None:
        outcome = await asked(Script(cut(lines([0, 1])), ScriptedAnswer('{"n": 2}\n{"n": "three"}')))

        assert [rejected.index for rejected in outcome.rejected] == [3]

    async def test_repaired_objects_are_numbered_across_continuations(self, asked: Asked) -> None:
        script = Script(cut("{'n': 0}\n" + lines([1])), ScriptedAnswer(lines([2]) + "\n{'n': 3}"))
        outcome = await asked(script, repair=True)

        assert outcome.value == numbers(range(4))
        assert [(one.index, one.raw) for one in outcome.repaired] == [(0, "{'n': 0}"), (3, "{'n': 3}")]
        assert outcome.stage is Stage.REPAIRED

    @pytest.mark.parametrize("finish_reason", ["stop", "tool_calls"])
    async def test_finish_reason_stop_is_no_cut(self, asked: Asked, finish_reason: Any) -> None:
        outcome = await asked(Script(ScriptedAnswer(lines([1]) + '\n{"n"', finish_reason=finish_reason)))

        assert why(outcome) == ["first"]

    async def test_answer_without_finish_reason_is_cut_if_its_text_is(self, asked: Asked) -> None:
        open_end = ScriptedAnswer(lines([1]) + '\n{"n": 2, "x', finish_reason=None)
        outcome = await asked(Script(open_end, ScriptedAnswer(lines([2]))))

        assert outcome.value == numbers([1, 2])
        assert why(outcome) == ["first", "continue"]

    async def test_cut_json_value_is_asked_for_again_within_the_attempts(self, asked: Asked) -> None:
        outcome = await asked(Script(cut('{"n": '), ScriptedAnswer('{"n": 1}')), format="json", attempts=2)

        assert outcome.value == {"n": 1}
        assert why(outcome) == ["first", "invalid"]

    async def test_cut_text_is_kept_and_marked_truncated(self, asked: Asked) -> None:
        outcome = await asked(Script(cut("Once upon")), format="text")

        assert (outcome.value, outcome.truncated) == ("Once upon", True)
        assert why(outcome) == ["first"]
