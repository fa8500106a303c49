"""What an outcome says of itself."""

from __future__ import annotations

import pytest

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.cost import Usage
from trustgraph_prompt.errors import ProviderUnavailable, Reason, StructuredOutputInvalid
from trustgraph_prompt.reader import CallReport, Outcome, Stage, read

INTEGERS = Contract.from_schema({"type": "array", "items": {"type": "integer"}})


def test_unwrap_tells_the_whole_story_of_a_bad_answer() -> None:
    outcome = read('["x"]', INTEGERS, finish_reason="stop")
    with pytest.raises(StructuredOutputInvalid) as caught:
        outcome.unwrap()
    error = caught.value
    assert error.error_message == '/0: expected integer, found string "x"'
    assert (error.output_content, error.finish_reason) == ('["x"]', "stop")
    assert error.response_schema == INTEGERS.schema
    assert error.issues == outcome.issues


def test_unwrap_raises_what_the_provider_raised() -> None:
    cause = ProviderUnavailable("down")
    outcome = Outcome(None, Reason.PROVIDER_ERROR, INTEGERS, cause=cause)
    with pytest.raises(ProviderUnavailable) as caught:
        outcome.unwrap()
    assert caught.value is cause


def test_an_explanation_names_a_few_issues_and_counts_the_rest() -> None:
    explanation = read('["a", "b", "c", "d"]', INTEGERS).explain(limit=2)
    assert explanation == (
        '/0: expected integer, found string "a"; /1: expected integer, found string "b"; and 2 more'
    )


def test_an_outcome_without_issues_says_its_reason() -> None:
    assert Outcome(None, Reason.BUDGET_SPENT, INTEGERS).explain() == "budget spent"


def test_usage_is_that_of_all_calls() -> None:
    calls = (CallReport("first", "", usage=Usage(1, 2, 3)), CallReport("invalid", "", usage=Usage(4, 5, 9)))
    assert Outcome([], Reason.SUCCESS, INTEGERS, calls=calls).usage == Usage(5, 7, 12)


def test_a_later_stage_took_more() -> None:
    assert Stage.NATIVE < Stage.DIRECT < Stage.EXTRACTED < Stage.REPAIRED < Stage.SALVAGED
