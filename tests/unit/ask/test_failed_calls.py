"""A call that fails after an answer: the answer is kept, and the failure is an issue beside it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.support.asking import Asked, Script, cut, lines, numbers, why
from tests.support.error_frames import holds_frames
from trustgraph_prompt import errors
from trustgraph_prompt.cost import Budget, Usage
from trustgraph_prompt.errors import Reason
from trustgraph_prompt.llm import Call, Delta, RuntimeConfig, ScriptedAnswer

TOO_LONG = errors.ProviderInvalidRequest("2103 tokens exceed the context")
GONE = errors.ProviderUnavailable("gone")
FULL = Usage(10, 100, 110)


@pytest.mark.parametrize("before", ["", "Sorry, "])
@pytest.mark.parametrize(
    ("format", "answer", "next_is", "reason"),
    [
        ("json", ScriptedAnswer("no JSON at all"), "invalid", Reason.EXTRACTION_FAILED),
        ("json", ScriptedAnswer('{"n": "one"}'), "invalid", Reason.SCHEMA_TYPE_ERROR),
        ("json", ScriptedAnswer('{"n": one}'), "invalid", Reason.INVALID_JSON),
        ("json", ScriptedAnswer(""), "invalid", Reason.EMPTY),
        ("json", cut('{"n": 1, "x": '), "continue", Reason.TRUNCATED),
        ("json", cut('{"n": 1, "x": ', usage=FULL), "room", Reason.TRUNCATED),
        ("json", cut("", usage=FULL), "room", Reason.EMPTY),
        ("jsonl", ScriptedAnswer("no object at all"), "invalid", Reason.EXTRACTION_FAILED),
        ("jsonl", ScriptedAnswer('{"n": "one"}'), "invalid", Reason.SCHEMA_TYPE_ERROR),
        ("jsonl", cut("Here is the fi"), "continue", Reason.TRUNCATED),
        ("jsonl", cut('{"n": ', usage=FULL), "room", Reason.TRUNCATED),
    ],
)
async def test_reason_is_that_of_the_answer_before_the_failed_call(
    asked: Asked, format: str, answer: ScriptedAnswer, next_is: str, reason: Reason, before: str
) -> None:
    """Of each kind of further call, one that fails for good: at once, or after words without a value."""
    config = RuntimeConfig(max_tokens=100 if next_is == "room" else None)
    how: dict[str, Any] = {"format": format, "attempts": 1 + (next_is == "invalid"), "config": config}
    alone = await asked(Script(answer), **{**how, "attempts": 1, "config": RuntimeConfig()})
    script = Script(answer, ScriptedAnswer(before, error=TOO_LONG), prefill=next_is == "continue")
    outcome = await asked(script, **how)

    assert why(outcome) == ["first", next_is]
    assert (outcome.reason, outcome.value, outcome.truncated) == (reason, alone.value, alone.truncated)
    assert outcome.rejected == alone.rejected
    assert outcome.issues[:-1] == alone.issues
    assert str(outcome.issues[-1]) == "provider_invalid_request: 2103 tokens exceed the context"
    assert isinstance(outcome.cause, errors.ProviderInvalidRequest)
    assert before or outcome.text == answer.text
    with pytest.raises(errors.StructuredOutputInvalid, match="2103 tokens"):
        outcome.unwrap()


@pytest.mark.parametrize("format", ["json", "jsonl", "text"])
async def test_reason_is_provider_error_where_nothing_was_answered(asked: Asked, format: str) -> None:
    outcome = await asked(Script(ScriptedAnswer(error=TOO_LONG)), format=format, attempts=3)

    assert outcome.reason is Reason.PROVIDER_ERROR
    with pytest.raises(errors.ProviderInvalidRequest):
        outcome.unwrap()


async def test_reason_is_provider_error_where_only_half_an_answer_came(asked: Asked) -> None:
    outcome = await asked(Script(ScriptedAnswer('{"n": ', error=TOO_LONG)), format="json", attempts=3)

    assert (outcome.reason, outcome.truncated) == (Reason.PROVIDER_ERROR, True)


async def test_transient_failure_after_an_invalid_answer_is_a_provider_error(asked: Asked) -> None:
    outcome = await asked(
        Script(ScriptedAnswer("no JSON"), *[ScriptedAnswer(error=GONE)] * 3), format="json", attempts=2
    )

    assert outcome.reason is Reason.PROVIDER_ERROR
    assert isinstance(outcome.cause, errors.ProviderUnavailable)
    assert [issue.reason for issue in outcome.issues] == [Reason.EXTRACTION_FAILED, Reason.PROVIDER_ERROR]


async def test_budget_that_ends_within_a_call_leaves_the_reason_of_the_answer(asked: Asked) -> None:
    class Slow(Script):
        def stream(self, call: Any) -> Any:
            if self.calls:
                asked.clock.now += 99
            return super().stream(call)

    script = Slow(ScriptedAnswer("no JSON"), ScriptedAnswer(error=GONE))
    outcome = await asked(script, format="json", attempts=2, budget=Budget(seconds=30))

    assert outcome.reason is Reason.EXTRACTION_FAILED
    assert outcome.issues[-1].reason is Reason.BUDGET_SPENT


@pytest.mark.parametrize("before", ["", "Sorry, "])
async def test_failed_correction_is_an_issue_beside_the_accepted_objects(asked: Asked, before: str) -> None:
    answer = lines([1]) + '\n{"n": "two"}'
    outcome = await asked(Script(ScriptedAnswer(answer), ScriptedAnswer(before, error=TOO_LONG)), attempts=2)

    assert outcome.ok
    assert outcome.value == numbers([1])
    assert [rejected.raw for rejected in outcome.rejected] == ['{"n": "two"}']
    assert "2103 tokens" in str(outcome.issues[-1])
    assert isinstance(outcome.cause, errors.ProviderInvalidRequest)


@pytest.mark.parametrize("before", ["", "half an ans"])
async def test_failure_is_kept_with_its_cause_and_without_frames(asked: Asked, before: str) -> None:
    outcome = await asked(Lost(before), format="text")

    assert isinstance(outcome.cause, errors.ProviderInvalidRequest)
    assert isinstance(outcome.cause.__cause__, OSError)
    assert not holds_frames(outcome.cause)


class Lost(Script):
    """A model whose network breaks after some text."""

    def __init__(self, before: str) -> None:
        super().__init__(ScriptedAnswer(before))

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        async for delta in super().stream(call):
            if delta.text:
                yield delta
        try:
            raise OSError("the network")
        except OSError as error:
            raise errors.ProviderInvalidRequest("it broke") from error
