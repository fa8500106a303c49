"""How an answer is got, over a scripted provider and with a clock that only moves when somebody sleeps."""

from __future__ import annotations

import asyncio
import gc
import json
from collections import Counter
from collections.abc import AsyncGenerator, Iterable
from typing import Any

import pytest

from tests.support.asking import Asked, Script, cut, lines, numbers, why
from trustgraph_prompt import errors
from trustgraph_prompt.ask import Piece, ask
from trustgraph_prompt.cost import Budget, Usage
from trustgraph_prompt.errors import Reason
from trustgraph_prompt.llm import Call, Delta, ScriptedAnswer, ScriptedProvider
from trustgraph_prompt.prompts import PromptDefinition, Question


class TestOneCall:
    async def test_good_answer_takes_one_call(self, asked: Asked) -> None:
        outcome = await asked(Script(ScriptedAnswer(lines(range(3)), usage=Usage(9, 8, 17), model="small")))

        assert outcome.ok
        assert outcome.value == numbers(range(3))
        assert outcome.truncated is False
        assert outcome.usage == Usage(9, 8, 17)
        [call] = outcome.calls
        assert (call.why, call.text, call.finish_reason) == ("first", lines(range(3)), "stop")
        assert call.model == "small"

    async def test_question_is_sent_as_it_stands(self, asked: Asked) -> None:
        script = Script(ScriptedAnswer(lines([1])))
        await asked(script)

        [call] = script.calls
        assert [(m.role, m.content) for m in call.messages] == [
            ("system", "Be exact."),
            ("user", "Which numbers?"),
        ]
        assert call.labels["prompt"] == "numbers"

    async def test_every_call_of_a_request_carries_its_id(self, asked: Asked) -> None:
        unavailable = ScriptedAnswer(error=errors.ProviderUnavailable("down"))
        answers = ScriptedAnswer('{"n": "two"}'), cut('{"n": 1}\n{"n"'), ScriptedAnswer(lines([2]))
        script = Script(unavailable, *answers)
        outcome = await asked(script, attempts=2, request="r-1")

        assert why(outcome) == ["first", "transient", "invalid", "continue"]
        assert [call.request for call in script.calls] == ["r-1"] * 4

    async def test_objects_are_given_while_the_model_writes(self, asked: Asked) -> None:
        await asked(Script(ScriptedAnswer(lines(range(4)), chunk=1)))

        assert [piece.objects for piece in asked.pieces] == [({"n": n},) for n in range(4)]

    async def test_refused_objects_are_not_given(self, asked: Asked) -> None:
        outcome = await asked(Script(ScriptedAnswer('{"n": 1}\n{"n": "two"}\n{"n": 3}')))

        assert outcome.value == asked.given == numbers([1, 3])
        assert [rejected.index for rejected in outcome.rejected] == [1]

    async def test_text_is_given_as_it_comes(self, asked: Asked) -> None:
        outcome = await asked(Script(ScriptedAnswer("Once upon a time", chunk=5)), format="text")

        assert outcome.value == "Once upon a time"
        assert [piece.text for piece in asked.pieces] == ["Once ", "upon ", "a tim", "e"]

    async def test_json_value_is_given_once(self, asked: Asked) -> None:
        outcome = await asked(Script(ScriptedAnswer('Here: {"n": 7}', chunk=1)), format="json")

        assert outcome.value == {"n": 7}
        assert [piece.objects for piece in asked.pieces] == [({"n": 7},)]

    async def test_filtered_answer_is_refused_and_not_asked_again(self, asked: Asked) -> None:
        script = Script(ScriptedAnswer("I would rather not.", finish_reason="content_filter"))
        outcome = await asked(script, format="text", attempts=3)

        assert outcome.reason is Reason.REFUSED
        assert why(outcome) == ["first"]

    async def test_filtered_answer_takes_no_object_back(self, asked: Asked) -> None:
        outcome = await asked(Script(ScriptedAnswer(lines([1, 2]), finish_reason="content_filter")))

        assert outcome.value == numbers([1, 2])
        assert outcome.truncated is True

    async def test_empty_answer_has_the_reason_empty(self, asked: Asked) -> None:
        assert (await asked(Script(ScriptedAnswer("")))).reason is Reason.EMPTY

    async def test_error_of_the_listener_ends_the_request(self, asked: Asked) -> None:
        async def broken(piece: Piece) -> None:
            raise errors.BrokerUnavailable("gone")

        asked._listen = broken  # type: ignore[method-assign]
        with pytest.raises(errors.BrokerUnavailable):
            await asked(Script(ScriptedAnswer(lines([1]))))

    async def test_error_of_the_listener_ends_the_call_at_once(self, asked: Asked) -> None:
        left = asyncio.Event()

        class Endless:
            async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
                try:
                    while True:
                        yield Delta(lines([1]) + "\n")
                finally:
                    left.set()

        async def broken(piece: Piece) -> None:
            raise errors.BrokerUnavailable("gone")

        asked._listen = broken  # type: ignore[method-assign]
        with pytest.raises(errors.BrokerUnavailable):
            await asked(Endless())
        assert left.is_set()

    async def test_cancelling_a_request_ends_its_call(self, asked: Asked) -> None:
        left = asyncio.Event()
        begun = asyncio.Event()

        class Endless:
            async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
                try:
                    yield Delta("{")
                    begun.set()
                    await asyncio.Event().wait()
                finally:
                    left.set()

        asking = asyncio.create_task(asked(Endless()))
        await begun.wait()
        asking.cancel()

        with pytest.raises(asyncio.CancelledError):
            await asking
        assert left.is_set()


class TestFailures:
    @pytest.mark.parametrize(
        "error", [errors.ProviderUnavailable, errors.ProviderModelNotLoaded, errors.ProviderRateLimit]
    )
    async def test_transient_error_is_waited_for(
        self, asked: Asked, error: type[errors.ProviderError]
    ) -> None:
        outcome = await asked(
            Script(
                ScriptedAnswer(error=error("not now")),
                ScriptedAnswer(error=error("not now")),
                ScriptedAnswer(lines([1])),
            )
        )

        assert outcome.ok
        assert why(outcome) == ["first", "transient", "transient"]
        assert outcome.calls[0].error == f"{error.category}: not now"

    async def test_waits_between_tries_are_random_and_grow(self) -> None:
        firsts, seconds = [], []
        for _ in range(100):
            asked = Asked()
            await asked(Script(ScriptedAnswer(error=errors.ProviderUnavailable("down"))))
            firsts.append(asked.clock.slept[0])
            seconds.append(asked.clock.slept[1])

        assert 0 <= min(firsts) < 0.5 < max(firsts) <= 1 < max(seconds) <= 2

    async def test_transient_error_is_tried_three_times(self, asked: Asked) -> None:
        outcome = await asked(Script(ScriptedAnswer(error=errors.ProviderUnavailable("down"))))

        assert outcome.reason is Reason.PROVIDER_ERROR
        assert isinstance(outcome.cause, errors.ProviderUnavailable)
        assert why(outcome) == ["first", "transient", "transient"]
        assert outcome.value == []

    @pytest.mark.parametrize(
        "error",
        [errors.ProviderAuthentication, errors.ProviderInvalidModel, errors.ProviderInvalidRequest],
    )
    async def test_permanent_error_is_not_tried_again(
        self, asked: Asked, error: type[errors.ProviderError]
    ) -> None:
        outcome = await asked(Script(ScriptedAnswer(error=error("never"))), attempts=3)

        assert outcome.reason is Reason.PROVIDER_ERROR
        assert why(outcome) == ["first"]
        with pytest.raises(error, match="never"):
            outcome.unwrap()

    async def test_retry_after_of_the_provider_is_waited_for(self, asked: Asked) -> None:
        limit = errors.ProviderRateLimit("slow down", retry_after=45)
        outcome = await asked(Script(ScriptedAnswer(error=limit), ScriptedAnswer(lines([1]))))

        assert outcome.ok
        assert asked.clock.slept == [45]

    @pytest.mark.parametrize("budget", [Budget(), Budget(seconds=600)])
    async def test_retry_after_of_a_day_is_not_waited_for(self, asked: Asked, budget: Budget) -> None:
        limit = errors.ProviderRateLimit("come back tomorrow", retry_after=86400)
        outcome = await asked(Script(ScriptedAnswer(error=limit)), budget=budget)

        assert outcome.reason is Reason.PROVIDER_ERROR
        assert asked.clock.slept == []

    async def test_call_that_gave_text_is_not_repeated(self, asked: Asked) -> None:
        gone = errors.ProviderUnavailable("gone")
        script = Script(ScriptedAnswer(lines([1, 2]) + '\n{"n": ', error=gone), ScriptedAnswer(lines([3])))
        outcome = await asked(script)

        assert outcome.value == asked.given == numbers([1, 2, 3])
        assert outcome.truncated is False
        assert why(outcome) == ["first", "continue"]

    async def test_continuation_waits_for_the_retry_after_of_a_broken_call(self, asked: Asked) -> None:
        busy = errors.ProviderRateLimit("slow down", retry_after=45)
        outcome = await asked(Script(ScriptedAnswer(lines([1]), error=busy), ScriptedAnswer(lines([2]))))

        assert outcome.value == numbers([1, 2])
        assert asked.clock.slept == [45]

    @pytest.mark.parametrize(("retry_after", "budget"), [(86400, Budget()), (45, Budget(seconds=30))])
    async def test_broken_call_is_not_continued_if_its_retry_after_is_too_long(
        self, asked: Asked, retry_after: float, budget: Budget
    ) -> None:
        busy = errors.ProviderRateLimit("slow down", retry_after=retry_after)
        outcome = await asked(Script(ScriptedAnswer(lines([1]), error=busy)), budget=budget)

        assert (outcome.value, outcome.truncated) == (numbers([1]), True)
        assert why(outcome) == ["first"]
        assert asked.clock.slept == []
        assert "slow down" in str(outcome.issues[-1])

    @pytest.mark.parametrize("format", ["jsonl", "json"])
    async def test_permanent_error_within_an_answer_ends_the_request(self, asked: Asked, format: str) -> None:
        endless = errors.ProviderInvalidResponse("the answer has too many characters")
        outcome = await asked(
            Script(ScriptedAnswer(lines([1]) + '\n{"n": ', error=endless)), format=format, attempts=3
        )

        assert why(outcome) == ["first"]
        assert outcome.truncated is True
        assert isinstance(outcome.cause, errors.ProviderInvalidResponse)

    async def test_objects_before_a_permanent_error_are_kept(self, asked: Asked) -> None:
        endless = errors.ProviderInvalidResponse("too many characters")
        outcome = await asked(Script(ScriptedAnswer(lines([1, 2]), error=endless)))

        assert outcome.ok
        assert outcome.value == numbers([1, 2])
        assert "too many characters" in outcome.issues[0].message

    async def test_text_before_a_permanent_error_is_kept_and_marked_truncated(self, asked: Asked) -> None:
        gone = errors.ProviderUnavailable("gone")
        outcome = await asked(Script(ScriptedAnswer("Once upon", error=gone)), format="text")

        assert (outcome.value, outcome.truncated) == ("Once upon", True)
        assert isinstance(outcome.cause, errors.ProviderUnavailable)

    async def test_json_value_broken_by_an_error_is_a_provider_error(self, asked: Asked) -> None:
        gone = errors.ProviderUnavailable("gone")
        outcome = await asked(Script(ScriptedAnswer('{"n": ', error=gone)), format="json")

        assert outcome.reason is Reason.PROVIDER_ERROR
        assert isinstance(outcome.cause, errors.ProviderUnavailable)
        assert asked.given == []

    async def test_error_after_the_finish_reason_leaves_the_answer_whole(self, asked: Asked) -> None:
        class Tired:
            async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
                yield Delta(lines([1]), finish_reason="stop")
                raise errors.ProviderUnavailable("gone before the usage")

        outcome = await asked(Tired())

        assert (outcome.value, outcome.truncated, outcome.cause) == (numbers([1]), False, None)
        assert why(outcome) == ["first"]

    async def test_error_in_place_of_an_answer_is_tried_again(self, asked: Asked) -> None:
        outcome = await asked(Script(ScriptedAnswer(finish_reason="error"), ScriptedAnswer(lines([1]))))

        assert outcome.ok
        assert why(outcome) == ["first", "transient"]


class TestInvalidAnswers:
    async def test_invalid_answer_is_not_asked_again_without_attempts_in_the_prompt(
        self, asked: Asked
    ) -> None:
        outcome = await asked(Script(ScriptedAnswer("no JSON at all")), format="json")

        assert not outcome.ok
        assert why(outcome) == ["first"]

    async def test_correction_shows_the_answer_and_the_path_of_its_issue(self, asked: Asked) -> None:
        script = Script(ScriptedAnswer('{"n": "one"}'), ScriptedAnswer('{"n": 1}'))
        outcome = await asked(script, format="json", attempts=3)

        assert outcome.value == {"n": 1}
        assert why(outcome) == ["first", "invalid"]
        [system, user, answer, feedback] = script.calls[1].messages
        assert [system.role, user.role, answer.role, feedback.role] == ["system", "user", "assistant", "user"]
        assert answer.content == '{"n": "one"}'
        assert "/n" in feedback.content

    async def test_long_invalid_answer_is_shortened_in_the_correction(self, asked: Asked) -> None:
        script = Script(
            ScriptedAnswer(str(list(range(100_000)))[1:], chunk=50_000), ScriptedAnswer('{"n": 1}')
        )
        outcome = await asked(script, format="json", attempts=2)

        assert outcome.ok
        assert sum(len(message.content) for message in script.calls[1].messages) < 1_000

    @pytest.mark.parametrize("format", ["json", "jsonl"])
    async def test_cut_answer_without_a_value_is_shortened_in_the_correction(
        self, asked: Asked, format: str
    ) -> None:
        script = Script(cut(" ".join(f"word {n}" for n in range(1000))), ScriptedAnswer('{"n": 1}'))
        outcome = await asked(script, format=format, attempts=2)

        assert outcome.ok
        shown = script.calls[1].messages[-2].text
        assert shown.startswith("word 0 word 1")
        assert len(shown) == 400

    async def test_correction_of_broken_json_quotes_the_place(self, asked: Asked) -> None:
        sound = ", ".join(f'"key {n}": {n}' for n in range(500))
        broken = f'Here it is: {{{sound}, "n": one, "more": "x"}}'
        script = Script(ScriptedAnswer(broken), ScriptedAnswer('{"n": 1}'))
        await asked(script, format="json", attempts=2)

        answer, feedback = script.calls[1].messages[-2:]
        assert len(answer.text) == 400
        assert """"key 499": 499, "n": ` is followed by `one, "more": "x"}`""" in feedback.text
        assert len(feedback.text) < 600

    async def test_correction_shows_a_refused_value_without_the_words_around_it(self, asked: Asked) -> None:
        value = json.dumps({"n": "one", "text": "x" * 2_000})
        script = Script(ScriptedAnswer("Well. " * 900 + value + " Good?"), ScriptedAnswer('{"n": 1}'))
        await asked(script, format="json", attempts=2)

        assert script.calls[1].messages[-2].text == value

    async def test_correction_shows_all_refused_objects_where_none_was_accepted(self, asked: Asked) -> None:
        objects = '{"n": "one"}', '{"n": "two"}'
        script = Script(ScriptedAnswer("Here:\n" + "\n".join(objects)), ScriptedAnswer(lines([1, 2])))
        outcome = await asked(script, attempts=2)

        assert outcome.value == numbers([1, 2])
        assert script.calls[1].messages[-2].text == "\n".join(objects)

    async def test_objects_refused_in_an_earlier_attempt_are_forgotten(self, asked: Asked) -> None:
        script = Script(ScriptedAnswer('{"n": "one"}'), ScriptedAnswer(lines([1]) + '\n{"n": "two"}'))
        outcome = await asked(script, attempts=2)

        assert outcome.value == numbers([1])
        assert [(r.index, r.raw) for r in outcome.rejected] == [(1, '{"n": "two"}')]

    async def test_budget_of_no_attempts_makes_no_call(self, asked: Asked) -> None:
        outcome = await asked(Script(ScriptedAnswer("nothing")), attempts=3, budget=Budget(attempts=0))

        assert outcome.reason is Reason.BUDGET_SPENT
        assert outcome.calls == ()

    async def test_correction_carries_only_the_last_failed_answer(self, asked: Asked) -> None:
        script = Script(*(ScriptedAnswer(f"attempt {n}") for n in (1, 2)), ScriptedAnswer('{"n": 1}'))
        await asked(script, format="json", attempts=3)

        said = [message.content for message in script.calls[2].messages]
        assert "attempt 2" in said
        assert "attempt 1" not in said

    @pytest.mark.parametrize(("prompts", "budgets", "calls"), [(3, None, 3), (3, 2, 2), (1, 5, 1)])
    async def test_smaller_number_of_attempts_of_prompt_and_budget_counts(
        self, asked: Asked, prompts: int, budgets: int | None, calls: int
    ) -> None:
        outcome = await asked(
            Script(ScriptedAnswer("nothing")),
            format="json",
            attempts=prompts,
            budget=Budget(attempts=budgets),
        )

        assert len(outcome.calls) == calls
        assert not outcome.ok

    async def test_roles_still_alternate_after_an_empty_answer(self, asked: Asked) -> None:
        script = Script(ScriptedAnswer(" "), ScriptedAnswer(lines([1])))
        outcome = await asked(script, attempts=2)

        assert outcome.ok
        assert [message.role for message in script.calls[1].messages] == ["system", "user"]
        assert "was empty" in script.calls[1].messages[1].content

    @pytest.mark.parametrize(
        ("format", "reason", "value"),
        [("jsonl", Reason.EMPTY, []), ("json", Reason.EMPTY, None), ("text", Reason.SUCCESS, "")],
    )
    async def test_cut_answer_of_thinking_alone_is_not_asked_again(
        self, asked: Asked, format: str, reason: Reason, value: Any
    ) -> None:
        outcome = await asked(Script(cut("", thinking="hmm " * 50)), format=format, attempts=3)

        assert (outcome.reason, outcome.value, outcome.truncated) == (reason, value, True)
        assert why(outcome) == ["first"]


async def test_thinking_in_the_notation_of_the_provider_brings_no_object(asked: Asked) -> None:
    provider = Script(ScriptedAnswer(f"Hm. «muse» {lines([9])} «/muse» {lines([1, 2])}"))
    provider.thinking = ("«muse»", "«/muse»")

    outcome = await asked(provider)

    assert (outcome.value, asked.given) == (numbers([1, 2]), numbers([1, 2]))


@pytest.mark.parametrize("chunk", [1, 7, 1000])
@pytest.mark.parametrize(
    "texts",
    [
        [lines([1, 2, 2, 3])],
        [json.dumps(numbers(range(5)))],
        [json.dumps({"items": numbers(range(5))})],
        [json.dumps(numbers(range(5)), indent=2)],
        [f"Sure!\n```json\n{lines(range(5))}\n```\nThat is all."],
        [f"<think>{lines([9])}</think>\n{lines(range(5))}"],
        [f"{lines([9, 9, 1])}</think>\n{lines([1, 2])}"],
        [lines([1, 2, 3]), f"{lines([3, 4])}</think>\n{lines([4, 5])}"],
        [lines([1, 2]) + '\n{"n": 3', lines([2, 3, 3]) + '\n{"n"', "I have no more."],
    ],
)
async def test_objects_given_minus_those_retracted_are_the_value(
    asked: Asked, texts: list[str], chunk: int
) -> None:
    *begun, end = texts
    script = Script(*(cut(text, chunk=chunk) for text in begun), ScriptedAnswer(end, chunk=chunk))
    outcome = await asked(script)

    def count(values: Iterable[Any]) -> Counter[str]:
        return Counter(map(json.dumps, values))

    assert count(asked.given) - count(outcome.retracted) == count(outcome.value)
    assert count(outcome.retracted) <= count(asked.given)


async def test_objects_of_a_request_are_freed_without_garbage_collection() -> None:
    """Full collections stop everything: with 500 calls in flight, for most of a second."""
    prompt = PromptDefinition.from_entry("numbers", {"prompt": "unused", "response-type": "jsonl"})
    provider = ScriptedProvider([ScriptedAnswer(lines(range(5)))])
    await ask(prompt, Question("", "?"), provider)
    gc.collect()
    gc.disable()
    try:
        for _ in range(50):
            await ask(prompt, Question("", "?"), provider)
        assert gc.collect() < 50
    finally:
        gc.enable()
