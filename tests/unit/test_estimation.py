"""What questions will take: tokens, later calls, money, time."""

from __future__ import annotations

from typing import Any

import pytest

from trustgraph_prompt.cost import Price
from trustgraph_prompt.errors import RequestError
from trustgraph_prompt.estimation.answer_lengths import AnswerLengths, Sample
from trustgraph_prompt.estimation.calls import Calls
from trustgraph_prompt.estimation.estimate import Pace, PlannedQuestion, estimate
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.prompts.example import Example


def prompt(**keys: Any) -> PromptDefinition:
    return PromptDefinition.from_entry("say", {"dialect": "jinja", "prompt": "Say {{ text }}", **keys})


def planned(count: int = 1, **keys: Any) -> list[PlannedQuestion]:
    return [PlannedQuestion.of(prompt(**keys), {"text": "word " * 100}) for _ in range(count)]


def test_a_question_is_that_of_the_first_call() -> None:
    [question] = planned(model={"max-tokens": 50})
    assert question.call.messages[-1].text == "Say " + "word " * 100
    assert question.call.config.answer_limit == 50
    with pytest.raises(RequestError, match="text"):
        PlannedQuestion.of(prompt(), {})


def test_answers_are_as_long_as_those_that_are_known() -> None:
    lengths = AnswerLengths({"say": [Sample(100), Sample(120), Sample(110)]})
    found = estimate(planned(10), [30] * 10, lengths, price=Price(1e6, 2e6), pace=Pace(4))
    assert (found.first.low.calls, found.first.low.tokens_in) == (10, 300)
    assert found.first.low.tokens_out < 1_100 < found.first.high.tokens_out
    assert found.first.low.tokens_out > 900
    assert found.money is not None
    assert found.money.low == 300 + 2 * found.first.low.tokens_out
    assert found.answers_by == {"say": "3 kept answers"}


def test_without_answers_the_examples_tell_and_without_these_the_texts() -> None:
    short, long = Example("say", "one two"), Example("say", "word " * 60, terms={"text": "word " * 20})
    by_examples = estimate(planned(), [30], AnswerLengths({}, [short, long]), price=None, pace=Pace(1))
    assert by_examples.answers_by == {"say": "the prompt's examples"}
    low, high = by_examples.first.low.tokens_out, by_examples.first.high.tokens_out
    assert low < 10
    assert 250 < high < 400  # three words for each word of the text, which has a hundred

    by_texts = estimate(planned(), [30], AnswerLengths({}), price=None, pace=Pace(1))
    assert by_texts.answers_by == {"say": "the length of the texts"}
    assert by_texts.first.low.tokens_out < by_texts.first.high.tokens_out
    assert by_texts.money is None


def test_no_answer_is_longer_than_its_limit() -> None:
    found = estimate(planned(model={"max-tokens": 50}), [30], AnswerLengths({}), price=None, pace=Pace(1))
    assert found.first.high.tokens_out == 50


def test_later_calls_are_a_range_of_their_own_up_to_all_attempts_and_passes() -> None:
    jsonl: dict[str, Any] = {
        "response-type": "jsonl",
        "schema": {"type": "object"},
        "attempts": 3,
        "passes": 2,
    }
    [question] = planned(**jsonl)
    found = estimate([question], [30], AnswerLengths({}), price=None, pace=Pace(1))
    assert found.later.low == Calls()
    assert found.later.high.calls == 3 * 2 - 1


def test_answers_that_reach_their_limit_are_continued_and_asked_for_with_a_higher_one() -> None:
    jsonl: dict[str, Any] = {"response-type": "jsonl", "schema": {"type": "object"}}
    long, enough = (planned(model={"max-tokens": limit}, **jsonl) for limit in (50, 4_000))
    within = estimate(enough, [30], AnswerLengths({}), price=None, pace=Pace(1))
    beyond = estimate(long, [30], AnswerLengths({}), price=None, pace=Pace(1))
    assert within.later.high.calls == 2  # the limit may be doubled twice
    assert beyond.later.high.calls > within.later.high.calls
    assert 50 < beyond.later.high.tokens_out / beyond.later.high.calls <= 200


def test_few_questions_without_later_calls_do_not_promise_that_there_are_none() -> None:
    jsonl: dict[str, Any] = {"response-type": "jsonl", "schema": {"type": "object"}, "attempts": 3}
    lengths = AnswerLengths({"say": [Sample(100, Calls()), Sample(100, Calls())]})
    found = estimate(planned(20, **jsonl), [30] * 20, lengths, price=None, pace=Pace(1))
    assert found.later.low.calls == 0
    assert found.later.high.calls > 0


def test_the_limits_of_the_run_are_the_least_time() -> None:
    lengths = AnswerLengths({"say": [Sample(1, Calls()), Sample(1, Calls())]})
    questions = planned(600)
    free = estimate(questions, [30] * 600, lengths, price=None, pace=Pace(100))
    slow = estimate(questions, [30] * 600, lengths, price=None, pace=Pace(100, requests_per_minute=60))
    assert free.seconds.low < 1
    assert slow.seconds.low == 60 * 9  # the first minute's worth may be asked at once
    tokens = estimate(questions, [1_000] * 600, lengths, price=None, pace=Pace(100, None, 100_000))
    assert 60 * 5 <= tokens.seconds.low < 60 * 6


def test_what_a_kept_answer_took_is_read_from_its_record() -> None:
    calls = [{"usage": {"prompt_tokens": n, "completion_tokens": 2 * n}} for n in (10, 20, 30)]
    assert Sample.of(calls) == Sample(20, Calls(2, 50, 100))
    assert Sample.of([]) is None
    assert Sample.of([{"usage": {"prompt_tokens": None, "completion_tokens": None}}]) is None
