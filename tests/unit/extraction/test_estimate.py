"""What a run will take: calls, tokens, money."""

from __future__ import annotations

from typing import Any

import pytest

from trustgraph_prompt.cost import Price
from trustgraph_prompt.errors import RequestError
from trustgraph_prompt.extraction.estimate import KnownAnswer, PlannedQuestion, estimate
from trustgraph_prompt.prompts import PromptDefinition

JSONL: dict[str, Any] = {"response-type": "jsonl", "schema": {"type": "object"}}
TEXT = "word " * 100


def planned(count: int = 1, **keys: Any) -> list[PlannedQuestion]:
    prompt = PromptDefinition.from_entry("say", {"dialect": "jinja", "prompt": "Say {{ text }}", **keys})
    return [PlannedQuestion.of(prompt, {"text": TEXT}) for _ in range(count)]


def test_estimated_question_is_that_of_the_first_call() -> None:
    [question] = planned(model={"max-tokens": 50})
    assert question.call.messages[-1].text == "Say " + TEXT
    assert question.call.config.answer_limit == 50
    with pytest.raises(RequestError, match="text"):
        PlannedQuestion.of(question.prompt, {})


def test_real_answers_narrow_the_range_around_their_length() -> None:
    questions = planned(10)
    known = [KnownAnswer(questions[0].term_tokens, tokens, 1) for tokens in (100, 120, 110) * 12]
    low, high = estimate(questions, [30] * 10, {"say": known}, price=Price(1e6, 2e6))
    assert (low.calls, low.tokens_in) == (10, 300)
    assert 1_100 / 2 < low.tokens_out < 1_100 < high.tokens_out < 2 * 1_100
    assert low.money == 300 + 2 * low.tokens_out
    few_low, few_high = estimate(questions, [30] * 10, {"say": known[:3]})
    assert few_low.tokens_out < low.tokens_out < high.tokens_out < few_high.tokens_out
    assert few_low.money is None


def test_example_answers_give_the_length_of_short_and_long_answers() -> None:
    known = [KnownAnswer(50, 2), KnownAnswer(19, 60)]
    low, high = estimate(planned(), [30], {"say": known})
    assert low.tokens_out == 2
    assert high.tokens_out == 3 * 126  # three tokens for each of the text, which has 125


def test_length_of_answers_is_estimated_from_the_texts_without_known_answers() -> None:
    low, high = estimate(planned(), [30], {})
    assert (low.tokens_out, high.tokens_out) == (126 // 4, 126 * 4)


def test_estimated_text_is_no_longer_than_its_limit() -> None:
    _, high = estimate(planned(model={"max-tokens": 50}), [30], {})
    assert (high.calls, high.tokens_out) == (1, 50)


def test_estimated_calls_are_at_most_all_attempts_and_passes() -> None:
    low, high = estimate(planned(**JSONL, attempts=3, passes=2), [30], {})
    assert (low.calls, high.calls) == (1, 3 * 2)
    assert high.tokens_in == 30 + 5 * (30 + high.tokens_out)


def test_objects_beyond_the_token_limit_take_more_calls() -> None:
    _, within = estimate(planned(model={"max-tokens": 4_000}, **JSONL), [30], {})
    _, beyond = estimate(planned(model={"max-tokens": 50}, **JSONL), [30], {})
    assert within.calls == 1 + 2  # the limit may be doubled twice
    assert beyond.calls > within.calls


def test_few_known_answers_do_not_rule_out_further_calls() -> None:
    questions = planned(20, **JSONL, attempts=3)
    _, few = estimate(questions, [30] * 20, {"say": [KnownAnswer(126, 100, 1)] * 20})
    _, many = estimate(questions, [30] * 20, {"say": [KnownAnswer(126, 100, 1)] * 2_000})
    assert 60 > few.calls > many.calls > 20
