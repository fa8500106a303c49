"""What a worker did lately: rates, spend, and the last outcomes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.steps import steps
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.cost import Usage
from trustgraph_prompt.outcome import CallReport
from trustgraph_prompt.prompts import PromptDefinition, Question, Template
from trustgraph_prompt.reader import read
from trustgraph_prompt.worker.telemetry.activity import (
    MAX_QUESTION,
    MAX_REJECTED,
    MAX_TEXT,
    OUTCOMES,
    Activity,
)

LIST = Contract.from_schema({"type": "object", "required": ["entity"]}, format="jsonl")
PROMPT = PromptDefinition("define", Template.compile("Define {{ text }}"), LIST)
GOOD = '{"entity": "chalk"}'


class Observed:
    """An activity, and a clock that stands."""

    def __init__(self, *, shows_content: bool = False) -> None:
        self.now = 1_000.0
        self.activity = Activity(shows_content=shows_content, clock=lambda: self.now)

    def ask(
        self,
        times: int = 1,
        *,
        answer: str = '{"entity": "chalk"}',
        cost: float | None = None,
        text: str = "it",
    ) -> None:
        call = CallReport("first", answer, usage=Usage(10, 5, 15), cost=cost)
        outcome = replace(read(answer, LIST), calls=(call,))
        question = Question("system", f"Define {text}", {"text": text, "short": "s", "number": 7})
        for _ in range(times):
            self.activity.asked("r" * 1_000, "f", PROMPT, question, outcome, 0.5)


def test_rates_are_those_of_whole_seconds() -> None:
    observed = Observed()
    for _ in range(60):
        observed.ask(3)
        observed.now += 1
    flow = observed.activity.flows["f"]

    def rates() -> tuple[float, float]:
        return flow.per_second(observed.now, 10), flow.per_second(observed.now, 60)

    observed.ask(1_000)
    assert rates() == (3.0, 3.0)
    observed.now += 10
    assert rates() == (
        100.0,
        (1_000 + 50 * 3) / 60,
    )
    observed.now += 60
    assert rates() == (0.0, 0.0)


def test_last_hour_is_shown_minute_by_minute() -> None:
    observed = Observed()
    for minute in range(70):
        observed.ask(minute)
        observed.now += 60
    observed.ask(7)
    flow = observed.activity.flows["f"]
    assert flow.per_minute(observed.now) == [*range(11, 70), 7]
    observed.now += 3_600
    assert flow.per_minute(observed.now) == [0] * 60


def test_spend_of_an_hour_follows_from_ten_minutes_or_the_age_of_the_flow() -> None:
    observed = Observed()
    observed.ask(cost=1.0)
    flow = observed.activity.flows["f"]
    assert flow.cost_per_hour(observed.now) == 60.0  # nothing is said of less than a minute
    observed.now += 120
    assert flow.cost_per_hour(observed.now) == 30.0
    observed.now += 120
    observed.ask(cost=1.0)
    assert flow.cost_per_hour(observed.now) == 30.0
    observed.now += 3_600
    assert flow.cost_per_hour(observed.now) == 0.0


def test_only_the_last_outcomes_are_kept_with_shortened_ids() -> None:
    observed = Observed()
    observed.ask(OUTCOMES + 1, cost=0.5)
    assert len(observed.activity.outcomes) == OUTCOMES
    last = observed.activity.outcomes[-1]
    assert (last["prompt"], last["version"], last["reason"]) == ("define", PROMPT.version, "success")
    assert (last["objects"], last["tokens"], last["cost"], last["calls"]) == (1, 15, 0.5, 1)
    assert "content" not in last
    assert len(last["request"]) == 200


def test_content_is_kept_only_on_request_and_only_of_failures() -> None:
    broken = "\n".join('{"name": "' + "x" * 2_000 + '"}' for _ in range(20))
    without = Observed()
    without.ask(answer=broken)
    assert "content" not in without.activity.outcomes[-1]

    observed = Observed(shows_content=True)
    observed.ask()
    assert "content" not in observed.activity.outcomes[-1]
    observed.ask(answer=broken, text="y" * 10_000)
    content = observed.activity.outcomes[-1]["content"]()
    assert content["question"] == "y" * (MAX_QUESTION - 1) + "…"
    assert len(content["rejected"]) == MAX_REJECTED
    assert {len(rejected["text"]) for rejected in content["rejected"]} == {MAX_TEXT}


def test_question_is_shown_where_there_are_no_terms() -> None:
    observed = Observed(shows_content=True)
    observed.activity.asked("r", "f", PROMPT, Question("system", "Say it."), read("no", LIST), 1.0)
    assert observed.activity.outcomes[-1]["content"]()["question"] == "Say it."


def test_forgotten_flow_begins_anew() -> None:
    observed = Observed()
    observed.ask()
    observed.activity.forget_flow("f")
    assert observed.activity.flows == {}
    observed.ask()
    assert sum(observed.activity.flows["f"].per_minute(observed.now)) == 1


@pytest.mark.parametrize("count", [1, 999, 5_000])
def test_durations_are_those_of_the_last_thousand_requests(count: int) -> None:
    observed = Observed()
    observed.ask(count)
    assert len(observed.activity.flows["f"].durations) == min(count, 1_000)


def test_broken_rules_are_found_at_the_first_look_and_only_then() -> None:
    observed = Observed(shows_content=True)
    observed.ask(answer='{"name": "chalk"}')
    [outcome] = observed.activity.outcomes

    first, second = (steps(lambda: outcome["content"]()) for _ in range(2))

    assert outcome["content"]()["rejected"][0]["issues"][0]["reason"] == "schema_missing_field"
    assert first > 20 * second > 0
