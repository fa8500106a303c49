"""When a call is made again: the policy itself, and `complete` with one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from trustgraph_prompt import errors
from trustgraph_prompt.cost import Usage
from trustgraph_prompt.errors import ProviderRateLimit, ProviderUnavailable, StructuredOutputInvalid
from trustgraph_prompt.llm import (
    Call,
    Delta,
    Message,
    RetryPolicy,
    RuntimeConfig,
    ScriptedAnswer,
    ScriptedProvider,
)
from trustgraph_prompt.llm.retry import LONGEST_WAIT, full_jitter

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
ASKED = [{"role": "user", "content": "Which number?"}]
TRANSIENT = [
    errors.ProviderUnavailable,
    errors.ProviderModelNotLoaded,
    errors.ProviderRateLimit,
    errors.ProviderModelAway,
]
FINAL = [kind for kind in errors.ProviderError.__subclasses__() if kind not in TRANSIENT]


def at_once(**more: Any) -> RetryPolicy:
    return RetryPolicy(backoff=lambda attempt: 0.0, **more)


def failing(kind: type[errors.ProviderError] = ProviderUnavailable, **more: Any) -> ScriptedAnswer:
    return ScriptedAnswer(error=kind("not now", **more))


class Script:
    """A provider that gives one answer after another, and remembers the calls."""

    def __init__(self, *answers: str | ScriptedAnswer | Iterable[Delta]) -> None:
        self.calls: list[Call] = []
        self._answers = iter(answers)
        self._provider = ScriptedProvider(self._answer)

    def _answer(self, call: Call) -> str | ScriptedAnswer | Iterable[Delta]:
        self.calls.append(call)
        return next(self._answers)

    @property
    def complete(self) -> Any:
        return self._provider.complete


class Tries:
    """Something to try, which fails as told; a clock of which waiting makes no time pass."""

    def __init__(self, *failures: BaseException) -> None:
        self.slept: list[float] = []
        self.made = 0
        self._failures = iter(failures)

    async def attempt(self) -> str:
        self.made += 1
        for failure in self._failures:
            raise failure
        return "done"

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


class TestThePolicy:
    async def test_waits_are_random_and_grow_up_to_thirty_seconds(self) -> None:
        most = [max(full_jitter(attempt) for _ in range(2000)) for attempt in (0, 1, 2, 3, 4, 5, 1_000_000)]
        least = [min(full_jitter(attempt) for _ in range(2000)) for attempt in (0, 5)]

        assert most == pytest.approx([1, 2, 4, 8, 16, 30, 30], rel=0.05)
        assert least == pytest.approx([0, 0], abs=1)

    async def test_backoff_is_given_the_number_of_the_failed_attempt(self) -> None:
        tries = Tries(*[ProviderUnavailable("no")] * 3)
        policy = RetryPolicy(4, backoff=lambda attempt: 10.0 + attempt)

        assert await policy.run(tries.attempt, sleep=tries.sleep) == "done"
        assert tries.slept == [10, 11, 12]

    async def test_retry_after_is_a_floor_under_any_backoff(self) -> None:
        tries = Tries(ProviderRateLimit("no", retry_after=7), ProviderRateLimit("no", retry_after=1))
        policy = RetryPolicy(backoff=lambda attempt: 5.0)

        await policy.run(tries.attempt, sleep=tries.sleep)

        assert tries.slept == [7, 5]

    async def test_retry_after_beyond_the_longest_wait_is_not_waited_for(self) -> None:
        tries = Tries(ProviderRateLimit("no", retry_after=LONGEST_WAIT))

        with pytest.raises(ProviderRateLimit):
            await RetryPolicy().run(tries.attempt, sleep=tries.sleep)
        assert tries.slept == []

    async def test_backoff_of_the_caller_may_be_any_length(self) -> None:
        tries = Tries(ProviderUnavailable("no"))

        await RetryPolicy(backoff=lambda attempt: 3600.0).run(tries.attempt, sleep=tries.sleep)
        assert tries.slept == [3600]

    async def test_on_retry_is_called_before_each_wait(self) -> None:
        failures = [ProviderUnavailable("one"), ProviderUnavailable("two"), ProviderUnavailable("three")]
        tries, told = Tries(*failures), []

        async def on_retry(error: Exception, attempt: int) -> None:
            told.append((error, attempt, len(tries.slept)))

        with pytest.raises(ProviderUnavailable, match="three"):
            await at_once(on_retry=on_retry).run(tries.attempt, sleep=tries.sleep)
        assert told == [(failures[0], 0, 0), (failures[1], 1, 1)]

    async def test_direct_cause_of_an_error_may_be_the_transient_one(self) -> None:
        error = ValueError("mine")
        error.__cause__ = ProviderRateLimit("not now", retry_after=7)
        tries = Tries(error)

        assert await at_once().run(tries.attempt, sleep=tries.sleep) == "done"
        assert tries.slept == [7]

    @pytest.mark.parametrize("kind", [asyncio.CancelledError, KeyboardInterrupt])
    async def test_cancellation_is_not_tried_again_whatever_the_classifier_says(
        self, kind: type[BaseException]
    ) -> None:
        tries = Tries(kind())

        with pytest.raises(kind):
            await at_once(classifier=lambda error: True).run(tries.attempt)
        assert tries.made == 1

    async def test_attempt_ends_with_the_deadline(self) -> None:
        async def never() -> None:
            await asyncio.Event().wait()

        with pytest.raises(ProviderUnavailable, match=r"retry deadline of 0\.02 seconds"):
            await at_once(deadline=0.02).run(never)

    async def test_wait_beyond_the_deadline_is_not_begun(self) -> None:
        tries = Tries(ProviderUnavailable("no", retry_after=50))

        with pytest.raises(ProviderUnavailable, match="no"):
            await RetryPolicy(deadline=40).run(tries.attempt, sleep=tries.sleep)
        assert tries.slept == []

    async def test_timeout_of_somebody_else_is_not_the_deadline(self) -> None:
        with pytest.raises(TimeoutError, match="theirs"):
            await at_once(deadline=100).run(Tries(TimeoutError("theirs")).attempt)


class TestCompleting:
    @pytest.mark.parametrize("kind", TRANSIENT + FINAL)
    async def test_failed_call_is_not_tried_again_without_a_policy(
        self, kind: type[errors.ProviderError]
    ) -> None:
        script = Script(failing(kind), "never")

        with pytest.raises(kind):
            await script.complete(ASKED)
        assert len(script.calls) == 1

    @pytest.mark.parametrize("kind", TRANSIENT)
    async def test_transient_error_is_tried_again(self, kind: type[errors.ProviderError]) -> None:
        script = Script(failing(kind), failing(kind), "Seven.")

        response = await script.complete(ASKED, retry=at_once())

        assert response.message.content == "Seven."
        assert [call.why for call in response.calls] == ["first", "transient", "transient"]
        assert response.calls[0].error == f"{kind.category}: not now"
        assert {call.messages for call in script.calls} == {(Message("user", "Which number?"),)}

    @pytest.mark.parametrize("kind", FINAL)
    async def test_permanent_error_is_not_tried_again(self, kind: type[errors.ProviderError]) -> None:
        script = Script(failing(kind), "never")

        with pytest.raises(kind):
            await script.complete(ASKED, retry=at_once())
        assert len(script.calls) == 1

    async def test_last_error_has_all_calls_and_their_usage(self) -> None:
        broken = ScriptedAnswer("Sev", error=ProviderUnavailable("gone"))
        script = Script([Delta("", usage=Usage(3, 4, 7)), Delta('{"n": 1')], broken, failing())

        with pytest.raises(ProviderUnavailable) as caught:
            await script.complete(ASKED, response_schema=SCHEMA, retry=at_once(classifier=lambda error: True))

        assert caught.value.usage == Usage(3, 4, 7)
        assert [call.text for call in caught.value.calls] == ['{"n": 1', "Sev", ""]
        assert caught.value.__notes__ == ["the last of 3 attempts, which took 12 tokens"]

    async def test_invalid_answer_is_not_tried_again_by_default(self) -> None:
        script = Script("seven", "never")

        with pytest.raises(StructuredOutputInvalid):
            await script.complete(ASKED, response_schema=SCHEMA, retry=at_once())
        assert len(script.calls) == 1

    async def test_classifier_may_have_an_invalid_answer_tried_again_at_once(self) -> None:
        script = Script("seven", '{"n": 7}')
        policy = RetryPolicy(
            classifier=lambda error: isinstance(error, StructuredOutputInvalid), backoff=lambda attempt: 1e9
        )

        response = await script.complete(ASKED, response_schema=SCHEMA, retry=policy)

        assert response.parsed == {"n": 7}
        assert script.calls[0].messages == script.calls[1].messages

    async def test_usage_is_the_sum_of_all_calls(self) -> None:
        script = Script(
            ScriptedAnswer("seven", usage=Usage(3, 4, 7, cached_tokens=1)),
            ScriptedAnswer('{"n": 7}', usage=Usage(30, 40, 70)),
        )

        response = await script.complete(ASKED, response_schema=SCHEMA, retry=at_once(reask=str))

        assert response.usage == Usage(33, 44, 77, cached_tokens=1)
        assert response.calls[-1].usage == Usage(30, 40, 70)

    async def test_attempts_end_once_the_tokens_of_the_policy_are_spent(self) -> None:
        wrong = ScriptedAnswer("seven", usage=Usage(3, 4, 7))
        script = Script(failing(), *[wrong] * 5)

        with pytest.raises(StructuredOutputInvalid) as caught:
            await script.complete(
                ASKED, response_schema=SCHEMA, retry=at_once(max_attempts=6, tokens=14, reask=str)
            )
        assert caught.value.usage == Usage(6, 8, 14)
        assert len(script.calls) == 3

    async def test_tokens_that_nobody_reports_are_estimated(self) -> None:
        script = Script([Delta("x" * 4000)], [Delta("x")])

        with pytest.raises(StructuredOutputInvalid) as caught:
            await script.complete(ASKED, response_schema=SCHEMA, retry=at_once(tokens=1000, reask=str))
        assert len(script.calls) == 1
        assert caught.value.usage == Usage()

    async def test_settings_change_from_attempt_to_attempt(self) -> None:
        base = RuntimeConfig(temperature=0.5, max_tokens=100, extras={"a": 1, "b": 1})
        overrides = [
            RuntimeConfig(max_tokens=200, extras={"b": 2}),
            RuntimeConfig(temperature=0.0, stop_sequences=("END",)),
        ]
        script = Script(failing(), failing(), failing(), "Seven.")

        await script.complete(
            ASKED, None, base, retry=at_once(max_attempts=4, per_attempt_override=overrides)
        )

        last = RuntimeConfig(0.0, 100, stop_sequences=("END",), extras={"a": 1, "b": 1})
        assert [call.config for call in script.calls] == [
            base,
            RuntimeConfig(0.5, 200, extras={"a": 1, "b": 2}),
            last,
            last,
        ]

    async def test_invalid_override_is_refused_before_any_call(self) -> None:
        script = Script("never")
        policy = at_once(per_attempt_override=[RuntimeConfig(), RuntimeConfig(seed="x")])  # type: ignore[arg-type]

        with pytest.raises(errors.ProviderInvalidRequest, match=r"per_attempt_override\[1\]\.seed"):
            await script.complete(ASKED, retry=policy)
        assert script.calls == []


class TestReask:
    async def test_reask_shows_the_model_its_wrong_answer_and_the_error(self) -> None:
        script = Script("seven", failing(), '{"n": "7"}', '{"n": 7}')
        policy = at_once(max_attempts=4, reask=lambda error: f"Wrong: {error.error_message}")

        response = await script.complete(ASKED, response_schema=SCHEMA, retry=policy)

        assert response.parsed == {"n": 7}
        assert [call.why for call in response.calls] == ["first", "invalid", "transient", "invalid"]
        first = (Message("user", "Which number?"),)
        second = (*first, Message("assistant", "seven"), Message("user", "Wrong: no JSON in the answer"))
        assert [call.messages for call in script.calls[:3]] == [first, second, second]
        assert script.calls[3].messages[:3] == second
        assert script.calls[3].messages[3] == Message("assistant", '{"n": "7"}')
        assert "/n: expected integer" in script.calls[3].messages[4].text

    async def test_reask_is_not_called_after_the_last_attempt(self) -> None:
        asked = []

        def words(error: StructuredOutputInvalid) -> str:
            asked.append(error.output_content)
            return "Again."

        with pytest.raises(StructuredOutputInvalid) as caught:
            await Script("a", "b", "c", "d").complete(
                ASKED, response_schema=SCHEMA, retry=at_once(reask=words)
            )
        assert asked == ["a", "b"]
        assert caught.value.output_content == "c"
        assert len(caught.value.calls) == 3

    async def test_reask_does_not_show_an_empty_answer(self) -> None:
        script = Script(" ", '{"n": 7}')

        await script.complete(ASKED, response_schema=SCHEMA, retry=at_once(reask=lambda error: "Again."))

        assert [message.role for message in script.calls[1].messages] == ["user", "user"]

    async def test_answer_broken_off_by_the_provider_is_asked_for_again_unchanged(self) -> None:
        script = Script(ScriptedAnswer('{"n', finish_reason="error"), '{"n": 7}')

        response = await script.complete(ASKED, response_schema=SCHEMA, retry=at_once(reask=str))

        assert response.calls[1].why == "transient"
        assert script.calls[0].messages == script.calls[1].messages

    @pytest.mark.parametrize("words", ["", None, 7])
    async def test_reask_that_returns_no_text_is_refused(self, words: Any) -> None:
        with pytest.raises(errors.ProviderInvalidRequest, match="reask"):
            await Script("a", "b").complete(
                ASKED, response_schema=SCHEMA, retry=at_once(reask=lambda error: words)
            )

    async def test_override_may_give_a_truncated_answer_more_room(self) -> None:
        def answer(call: Call) -> ScriptedAnswer:
            return ScriptedAnswer('{"n": 12345678}', cut_after=call.config.max_tokens)

        response = await ScriptedProvider(answer).complete(
            ASKED,
            config=RuntimeConfig(max_tokens=5),
            response_schema=SCHEMA,
            retry=at_once(
                classifier=lambda error: getattr(error, "finish_reason", None) == "length",
                per_attempt_override=[RuntimeConfig(max_tokens=10), RuntimeConfig(max_tokens=20)],
            ),
        )

        assert response.parsed == {"n": 12345678}
        assert len(response.calls) == 3


class TestListening:
    @pytest.fixture
    def heard(self) -> list[str]:
        return []

    @pytest.fixture
    def listen(self, heard: list[str]) -> Callable[[Delta], Any]:
        async def listen(delta: Delta) -> None:
            heard.append(delta.text)

        return listen

    async def test_answer_that_was_partly_heard_is_not_repeated(self, heard: list[str], listen: Any) -> None:
        script = Script(ScriptedAnswer("Sev", error=ProviderUnavailable("gone")), "Seven.")

        with pytest.raises(ProviderUnavailable) as caught:
            await script.complete(ASKED, stream=True, listen=listen, retry=at_once())
        assert heard == ["Sev"]
        assert caught.value.calls[0].text == "Sev"

    async def test_answer_of_which_nothing_was_heard_is_tried_again(
        self, heard: list[str], listen: Any
    ) -> None:
        broken = ScriptedAnswer(thinking="Hm", error=ProviderUnavailable("gone"))
        response = await Script(broken, "Seven.").complete(ASKED, stream=True, listen=listen, retry=at_once())

        assert response.message.content == "Seven."
        assert "".join(heard) == "Seven."

    async def test_streamed_answer_without_a_listener_is_tried_again(self) -> None:
        script = Script(ScriptedAnswer("Sev", error=ProviderUnavailable("gone")), "Seven.")

        assert (await script.complete(ASKED, stream=True, retry=at_once())).message.content == "Seven."

    async def test_listener_hears_the_retry_between_two_answers(self, heard: list[str], listen: Any) -> None:
        async def on_retry(error: Exception, attempt: int) -> None:
            heard.append("again")

        await Script("seven", '{"n": 7}').complete(
            ASKED,
            response_schema=SCHEMA,
            stream=True,
            listen=listen,
            retry=at_once(reask=lambda error: "Again.", on_retry=on_retry),
        )

        before, _, after = "|".join(filter(None, heard)).partition("|again|")
        assert (before, json.loads(after)) == ("seven", {"n": 7})
