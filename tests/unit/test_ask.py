"""How an answer is got, over a scripted provider and with a clock that only moves when somebody sleeps."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Any

import pytest

from trustgraph_prompt import errors
from trustgraph_prompt.ask import Piece, ask
from trustgraph_prompt.cost import Budget, Price, Usage
from trustgraph_prompt.errors import Reason
from trustgraph_prompt.llm import Call, Delta, ScriptedAnswer, ScriptedProvider
from trustgraph_prompt.prompts import PromptDefinition, Question
from trustgraph_prompt.reader import Outcome

OBJECT = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}


class Clock:
    """Seconds since the epoch, which pass by sleeping."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class Script:
    """A scripted provider that remembers what it was asked."""

    def __init__(self, *answers: ScriptedAnswer) -> None:
        self.calls: list[Call] = []
        self._provider = ScriptedProvider(answers)

    def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        self.calls.append(call)
        return self._provider.stream(call)

    async def close(self) -> None:
        await self._provider.close()


class Asked:
    """Asks a question, keeps the pieces that were given on the way."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.pieces: list[Piece] = []

    async def __call__(
        self, provider: Any, *, format: str = "jsonl", attempts: int = 1, **options: Any
    ) -> Outcome:
        entry = {"prompt": "unused", "response-type": format, "attempts": attempts, "dialect": "jinja"}
        if format != "text":
            entry["schema"] = OBJECT
        return await ask(
            PromptDefinition.from_entry("numbers", entry),
            Question("Be exact.", "Which numbers?"),
            provider,
            listen=self._listen,
            clock=self.clock,
            sleep=self.clock.sleep,
            **options,
        )

    async def _listen(self, piece: Piece) -> None:
        self.pieces.append(piece)

    @property
    def given(self) -> list[Any]:
        return [value for piece in self.pieces for value in piece.objects]


@pytest.fixture
def asked() -> Asked:
    return Asked()


def numbers(values: Iterable[int]) -> list[dict[str, int]]:
    return [{"n": n} for n in values]


def lines(values: Iterable[int]) -> str:
    return "\n".join(json.dumps(value) for value in numbers(values))


def why(outcome: Outcome) -> list[str]:
    return [call.why for call in outcome.calls]


def cut(text: str, **more: Any) -> ScriptedAnswer:
    return ScriptedAnswer(text, finish_reason="length", **more)


class TestOneCall:
    async def test_a_good_answer_takes_one_call(self, asked: Asked) -> None:
        outcome = await asked(Script(ScriptedAnswer(lines(range(3)), usage=Usage(9, 8, 17), model="small")))

        assert outcome.ok
        assert outcome.value == numbers(range(3))
        assert outcome.truncated is False
        assert outcome.usage == Usage(9, 8, 17)
        [call] = outcome.calls
        assert (call.why, call.text, call.finish_reason) == ("first", lines(range(3)), "stop")
        assert call.model == "small"

    async def test_the_question_is_put_as_it_stands(self, asked: Asked) -> None:
        script = Script(ScriptedAnswer(lines([1])))
        await asked(script)

        [call] = script.calls
        assert [(m.role, m.content) for m in call.messages] == [
            ("system", "Be exact."),
            ("user", "Which numbers?"),
        ]
        assert call.labels["prompt"] == "numbers"

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

    async def test_a_json_value_is_given_once(self, asked: Asked) -> None:
        outcome = await asked(Script(ScriptedAnswer('Here: {"n": 7}', chunk=1)), format="json")

        assert outcome.value == {"n": 7}
        assert [piece.objects for piece in asked.pieces] == [({"n": 7},)]

    async def test_a_filtered_answer_is_refused_and_not_asked_again(self, asked: Asked) -> None:
        script = Script(ScriptedAnswer("I would rather not.", finish_reason="content_filter"))
        outcome = await asked(script, format="text", attempts=3)

        assert outcome.reason is Reason.REFUSED
        assert why(outcome) == ["first"]

    async def test_a_filter_takes_nothing_back(self, asked: Asked) -> None:
        outcome = await asked(Script(ScriptedAnswer(lines([1, 2]), finish_reason="content_filter")))

        assert outcome.value == numbers([1, 2])
        assert outcome.truncated is True

    async def test_an_empty_answer_is_empty(self, asked: Asked) -> None:
        assert (await asked(Script(ScriptedAnswer("")))).reason is Reason.EMPTY

    async def test_what_the_listener_raises_ends_the_asking(self, asked: Asked) -> None:
        async def broken(piece: Piece) -> None:
            raise errors.BrokerUnavailable("gone")

        asked._listen = broken  # type: ignore[method-assign]
        with pytest.raises(errors.BrokerUnavailable):
            await asked(Script(ScriptedAnswer(lines([1]))))

    async def test_cancelling_ends_the_call(self, asked: Asked) -> None:
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
    async def test_what_passes_is_waited_for(self, asked: Asked, error: type[errors.ProviderError]) -> None:
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
        assert 0 <= asked.clock.slept[0] <= 1
        assert 0 <= asked.clock.slept[1] <= 2

    async def test_three_tries_are_all(self, asked: Asked) -> None:
        outcome = await asked(Script(ScriptedAnswer(error=errors.ProviderUnavailable("down"))))

        assert outcome.reason is Reason.PROVIDER_ERROR
        assert isinstance(outcome.cause, errors.ProviderUnavailable)
        assert why(outcome) == ["first", "transient", "transient"]
        assert outcome.value == []

    @pytest.mark.parametrize(
        "error",
        [errors.ProviderAuthentication, errors.ProviderInvalidModel, errors.ProviderInvalidRequest],
    )
    async def test_what_does_not_pass_is_not_tried_again(
        self, asked: Asked, error: type[errors.ProviderError]
    ) -> None:
        outcome = await asked(Script(ScriptedAnswer(error=error("never"))), attempts=3)

        assert outcome.reason is Reason.PROVIDER_ERROR
        assert why(outcome) == ["first"]
        with pytest.raises(error, match="never"):
            outcome.unwrap()

    async def test_a_provider_is_not_asked_before_it_wants_to_be(self, asked: Asked) -> None:
        limit = errors.ProviderRateLimit("slow down", retry_after=45)
        outcome = await asked(Script(ScriptedAnswer(error=limit), ScriptedAnswer(lines([1]))))

        assert outcome.ok
        assert asked.clock.slept == [45]

    @pytest.mark.parametrize("budget", [Budget(), Budget(seconds=600)])
    async def test_nobody_waits_for_hours(self, asked: Asked, budget: Budget) -> None:
        limit = errors.ProviderRateLimit("come back tomorrow", retry_after=86400)
        outcome = await asked(Script(ScriptedAnswer(error=limit)), budget=budget)

        assert outcome.reason is Reason.PROVIDER_ERROR
        assert asked.clock.slept == []

    async def test_a_call_that_gave_text_is_not_repeated(self, asked: Asked) -> None:
        gone = errors.ProviderUnavailable("gone")
        script = Script(ScriptedAnswer(lines([1, 2]) + '\n{"n": ', error=gone), ScriptedAnswer(lines([3])))
        outcome = await asked(script)

        assert outcome.value == asked.given == numbers([1, 2, 3])
        assert outcome.truncated is False
        assert why(outcome) == ["first", "continue"]

    async def test_a_broken_text_is_kept_and_marked(self, asked: Asked) -> None:
        gone = errors.ProviderUnavailable("gone")
        outcome = await asked(Script(ScriptedAnswer("Once upon", error=gone)), format="text")

        assert (outcome.value, outcome.truncated) == ("Once upon", True)
        assert isinstance(outcome.cause, errors.ProviderUnavailable)

    async def test_a_broken_json_value_is_the_providers_error(self, asked: Asked) -> None:
        gone = errors.ProviderUnavailable("gone")
        outcome = await asked(Script(ScriptedAnswer('{"n": ', error=gone)), format="json")

        assert outcome.reason is Reason.PROVIDER_ERROR
        assert isinstance(outcome.cause, errors.ProviderUnavailable)
        assert asked.given == []

    async def test_what_breaks_after_the_end_breaks_nothing(self, asked: Asked) -> None:
        class Tired:
            async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
                yield Delta(lines([1]), finish_reason="stop")
                raise errors.ProviderUnavailable("gone before the usage")

        outcome = await asked(Tired())

        assert (outcome.value, outcome.truncated, outcome.cause) == (numbers([1]), False, None)
        assert why(outcome) == ["first"]

    async def test_an_error_in_place_of_an_answer_is_tried_again(self, asked: Asked) -> None:
        outcome = await asked(Script(ScriptedAnswer(finish_reason="error"), ScriptedAnswer(lines([1]))))

        assert outcome.ok
        assert why(outcome) == ["first", "transient"]


class TestInvalidAnswers:
    async def test_one_attempt_unless_the_prompt_says_more(self, asked: Asked) -> None:
        outcome = await asked(Script(ScriptedAnswer("no JSON at all")), format="json")

        assert not outcome.ok
        assert why(outcome) == ["first"]

    async def test_the_model_is_told_what_was_wrong(self, asked: Asked) -> None:
        script = Script(ScriptedAnswer('{"n": "one"}'), ScriptedAnswer('{"n": 1}'))
        outcome = await asked(script, format="json", attempts=3)

        assert outcome.value == {"n": 1}
        assert why(outcome) == ["first", "invalid"]
        [system, user, answer, feedback] = script.calls[1].messages
        assert [system.role, user.role, answer.role, feedback.role] == ["system", "user", "assistant", "user"]
        assert answer.content == '{"n": "one"}'
        assert "/n" in feedback.content

    async def test_only_the_last_failure_is_carried(self, asked: Asked) -> None:
        script = Script(*(ScriptedAnswer(f"attempt {n}") for n in (1, 2)), ScriptedAnswer('{"n": 1}'))
        await asked(script, format="json", attempts=3)

        said = [message.content for message in script.calls[2].messages]
        assert "attempt 2" in said
        assert "attempt 1" not in said

    @pytest.mark.parametrize(("prompts", "budgets", "calls"), [(3, None, 3), (3, 2, 2), (1, 5, 1)])
    async def test_the_smaller_number_of_attempts_counts(
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

    async def test_after_an_empty_answer_the_roles_still_alternate(self, asked: Asked) -> None:
        script = Script(ScriptedAnswer(" "), ScriptedAnswer(lines([1])))
        outcome = await asked(script, attempts=2)

        assert outcome.ok
        assert [message.role for message in script.calls[1].messages] == ["system", "user"]

    async def test_a_cut_that_held_only_thinking_is_not_asked_again(self, asked: Asked) -> None:
        outcome = await asked(Script(cut("", thinking="hmm " * 50)), attempts=3)

        assert (outcome.reason, outcome.truncated) == (Reason.EMPTY, True)
        assert why(outcome) == ["first"]


class TestCutAnswers:
    async def test_only_the_rest_is_asked_for(self, asked: Asked) -> None:
        script = Script(cut(lines(range(10)) + '\n{"n": 1'), ScriptedAnswer(lines(range(10, 15))))
        outcome = await asked(script)

        assert outcome.value == asked.given == numbers(range(15))
        assert outcome.truncated is False
        assert outcome.rejected == ()
        assert why(outcome) == ["first", "continue"]
        shown, demand = script.calls[1].messages[-2:]
        assert shown.content == "\n".join(f'{{"n":{n}}}' for n in range(5, 10))
        assert "10 objects" in demand.content

    async def test_a_thousand_objects_come_in_as_few_calls_as_it_takes(self, asked: Asked) -> None:
        parts = [cut(lines(range(n, n + 100))) for n in range(0, 900, 100)]
        outcome = await asked(Script(*parts, ScriptedAnswer(lines(range(900, 1000)))))

        assert outcome.value == asked.given == numbers(range(1000))
        assert len(outcome.calls) == 10
        assert outcome.usage.completion_tokens == sum(c.usage.completion_tokens or 0 for c in outcome.calls)

    async def test_what_is_said_twice_at_the_seam_counts_once(self, asked: Asked) -> None:
        outcome = await asked(Script(cut(lines(range(10))), ScriptedAnswer(lines(range(7, 14)))))

        assert outcome.value == asked.given == numbers(range(14))

    async def test_an_answer_in_one_piece_may_repeat_itself(self, asked: Asked) -> None:
        outcome = await asked(Script(ScriptedAnswer(lines([6, 6, 1]))))

        assert outcome.value == numbers([6, 6, 1])

    async def test_it_is_complete_when_the_model_says_there_is_no_more(self, asked: Asked) -> None:
        outcome = await asked(Script(cut(lines(range(3))), ScriptedAnswer("[]")))

        assert outcome.value == numbers(range(3))
        assert outcome.truncated is False

    async def test_words_without_an_object_leave_it_open_whether_it_is_complete(self, asked: Asked) -> None:
        outcome = await asked(Script(cut(lines(range(3))), ScriptedAnswer("I cannot help with that.")))

        assert outcome.value == numbers(range(3))
        assert outcome.truncated is None

    async def test_going_on_ends_where_nothing_new_comes(self, asked: Asked) -> None:
        outcome = await asked(Script(cut(lines(range(3)))))

        assert outcome.value == numbers(range(3))
        assert outcome.truncated is True
        assert why(outcome) == ["first", "continue"]
        assert "nothing new" in outcome.issues[0].message

    async def test_a_loop_is_not_continued(self, asked: Asked) -> None:
        outcome = await asked(Script(cut(lines([1, 2, 3] * 20))))

        assert why(outcome) == ["first"]
        assert outcome.truncated is True
        assert "repeated itself" in outcome.issues[0].message

    async def test_a_model_that_never_ends_is_ended(self, asked: Asked) -> None:
        def endless(call: Call) -> ScriptedAnswer:
            return cut(lines([int(call.labels["call"])]))

        outcome = await asked(ScriptedProvider(endless))

        assert len(outcome.calls) == 51
        assert outcome.truncated is True

    async def test_a_cut_before_the_first_object_is_not_continued(self, asked: Asked) -> None:
        outcome = await asked(Script(cut('{"n": ')))

        assert not outcome.ok
        assert outcome.truncated is True
        assert why(outcome) == ["first"]

    async def test_what_was_kept_outlives_a_failing_continuation(self, asked: Asked) -> None:
        key = errors.ProviderAuthentication("the key has expired")
        outcome = await asked(Script(cut(lines(range(3))), ScriptedAnswer(error=key)))

        assert outcome.ok
        assert outcome.value == numbers(range(3))
        assert outcome.truncated is True
        assert isinstance(outcome.cause, errors.ProviderAuthentication)

    async def test_rejected_objects_are_counted_through(self, asked: Asked) -> None:
        outcome = await asked(Script(cut(lines([0, 1])), ScriptedAnswer('{"n": 2}\n{"n": "three"}')))

        assert [rejected.index for rejected in outcome.rejected] == [3]

    @pytest.mark.parametrize("finish_reason", ["stop", "tool_calls"])
    async def test_an_end_that_the_wire_vouches_for_is_no_cut(self, asked: Asked, finish_reason: Any) -> None:
        outcome = await asked(Script(ScriptedAnswer(lines([1]) + '\n{"n"', finish_reason=finish_reason)))

        assert why(outcome) == ["first"]

    async def test_where_the_wire_says_nothing_the_text_tells(self, asked: Asked) -> None:
        open_end = ScriptedAnswer(lines([1]) + '\n{"n": 2, "x', finish_reason=None)
        outcome = await asked(Script(open_end, ScriptedAnswer(lines([2]))))

        assert outcome.value == numbers([1, 2])
        assert why(outcome) == ["first", "continue"]

    async def test_a_cut_json_value_is_asked_for_again_within_the_attempts(self, asked: Asked) -> None:
        outcome = await asked(Script(cut('{"n": '), ScriptedAnswer('{"n": 1}')), format="json", attempts=2)

        assert outcome.value == {"n": 1}
        assert why(outcome) == ["first", "invalid"]

    async def test_a_cut_text_is_kept_and_marked(self, asked: Asked) -> None:
        outcome = await asked(Script(cut("Once upon")), format="text")

        assert (outcome.value, outcome.truncated) == ("Once upon", True)
        assert why(outcome) == ["first"]


class TestBudgets:
    async def test_what_has_expired_is_not_paid_for(self, asked: Asked) -> None:
        outcome = await asked(
            Script(ScriptedAnswer(lines([1]))), budget=Budget(seconds=60), published=asked.clock.now - 61
        )

        assert outcome.reason is Reason.BUDGET_SPENT
        assert outcome.calls == ()
        assert "60 seconds" in outcome.explain()

    async def test_tokens_end_a_continuation(self, asked: Asked) -> None:
        parts = [cut(lines(range(n, n + 10)), usage=Usage(50, 50, 100)) for n in range(0, 100, 10)]
        outcome = await asked(Script(*parts), budget=Budget(tokens=350))

        assert outcome.value == numbers(range(30))
        assert outcome.truncated is True
        assert len(outcome.calls) == 3
        assert outcome.issues[-1].reason is Reason.BUDGET_SPENT

    async def test_a_call_is_not_given_more_tokens_than_are_left(self, asked: Asked) -> None:
        script = Script(cut(lines([1]), usage=Usage(50, 50, 100)), ScriptedAnswer(lines([2])))
        await asked(script, budget=Budget(tokens=250))

        first, second = (call.config.max_tokens for call in script.calls)
        assert first is not None
        assert second is not None
        assert second < 150 < first < 250

    async def test_tokens_that_nobody_reports_are_counted_all_the_same(self, asked: Asked) -> None:
        def silent(call: Call) -> Iterable[Delta]:
            number = int(call.labels["call"])
            return [Delta(lines(range(number * 100, number * 100 + 100))), Delta(finish_reason="length")]

        outcome = await asked(ScriptedProvider(silent), budget=Budget(tokens=1000))

        assert 2 <= len(outcome.calls) <= 5
        assert outcome.usage == Usage()

    async def test_money_ends_a_continuation(self, asked: Asked) -> None:
        parts = [cut(lines([n]), usage=Usage(0, 1000, 1000)) for n in range(9)]
        outcome = await asked(Script(*parts), budget=Budget(money=0.01), price=Price(prompt=1, completion=5))

        assert len(outcome.calls) == 2
        assert outcome.truncated is True

    async def test_no_wait_outlasts_the_seconds(self, asked: Asked) -> None:
        limit = errors.ProviderRateLimit("slow down", retry_after=45)
        outcome = await asked(Script(ScriptedAnswer(error=limit)), budget=Budget(seconds=30))

        assert asked.clock.slept == []
        assert outcome.reason is Reason.PROVIDER_ERROR

    @pytest.mark.parametrize(
        ("before", "reason", "value"),
        [("", Reason.BUDGET_SPENT, []), (lines([1, 2]), Reason.SUCCESS, numbers([1, 2]))],
    )
    async def test_a_model_that_hangs_is_left_when_the_seconds_end(
        self, asked: Asked, before: str, reason: Reason, value: list[Any]
    ) -> None:
        class Hangs:
            async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
                asked.clock.now += 29.95
                yield Delta(before)
                asked.clock.now += 0.04
                try:
                    await asyncio.Event().wait()
                finally:
                    asked.clock.now += 1

        outcome = await asked(Hangs(), budget=Budget(seconds=30))

        assert outcome.reason is reason
        assert outcome.value == value
        assert len(outcome.calls) == 1


def test_the_listener_hears_nothing_that_the_outcome_does_not_say() -> None:
    """Whatever the layout: given and not retracted is what stands in the end."""

    async def all_of(make: Callable[[], ScriptedAnswer]) -> None:
        asked = Asked()
        outcome = await asked(Script(make()))
        retracted = list(outcome.retracted)
        standing = [value for value in asked.given if value not in retracted]
        assert sorted(standing, key=str) == sorted(outcome.value, key=str)

    for text in (
        lines(range(5)),
        json.dumps(numbers(range(5))),
        json.dumps({"items": numbers(range(5))}),
        json.dumps(numbers(range(5)), indent=2),
        f"Sure!\n```json\n{lines(range(5))}\n```\nThat is all.",
        f"<think>{lines([9])}</think>\n{lines(range(5))}",
        f"{lines([9])}</think>\n{lines(range(5))}",
    ):
        for chunk in (1, 7, 1000):
            asyncio.run(all_of(lambda text=text, chunk=chunk: ScriptedAnswer(text, chunk=chunk)))  # type: ignore[misc]
