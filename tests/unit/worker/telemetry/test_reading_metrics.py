"""What the worker counts of reading: each answer once, with stage, reason and time; what was mended."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support import fuzz
from tests.support.asking import Asked, Script
from trustgraph_prompt import reader
from trustgraph_prompt.errors import ProviderUnavailable
from trustgraph_prompt.llm import ScriptedAnswer
from trustgraph_prompt.llm.records import FinishReason
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.worker.telemetry.metrics import Metrics

CUT: FinishReason = "length"


async def outcome_of(
    asked: Asked, *answers: tuple[str, FinishReason], prefill: bool = False, **options: Any
) -> Outcome:
    script = Script(
        *(ScriptedAnswer(text, finish_reason=reason) for text, reason in answers), prefill=prefill
    )
    return await asked(script, **options)


def counted(outcome: Outcome, name: str, *labels: str) -> dict[tuple[str, ...], float]:
    """A counter after the outcome, by some of its labels."""
    metrics = Metrics()
    metrics.asked("f", "p", "v1", outcome, 1.0)
    return {
        tuple(sample.labels[label] for label in labels): sample.value
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
        if sample.name == f"trustgraph_prompt_{name}"
    }


def read(outcome: Outcome) -> dict[tuple[str, ...], float]:
    by_stage = counted(outcome, "answers_read_total", "stage", "reason")
    timed = counted(outcome, "reading_seconds_count", "stage")
    assert sum(timed.values()) == sum(by_stage.values())
    return by_stage


@pytest.mark.parametrize(
    ("text", "stage", "reason"),
    [
        ('{"n": 1}', "direct", "success"),
        ('So: {"n": 1}', "extracted", "success"),
        ("{'n': 1}", "repaired", "success"),
        ('{"n": 1, "m": "a', "salvaged", "success"),
        ("nothing", "failed", "extraction_failed"),
        ('{"m": 1}', "failed", "schema_missing_field"),
        ("", "failed", "empty"),
    ],
)
async def test_answer_is_counted_by_stage_and_reason(
    asked: Asked, text: str, stage: str, reason: str
) -> None:
    outcome = await outcome_of(asked, (text, "stop"), format="json", repair=True)

    assert read(outcome) == {(stage, reason): 1}


async def test_each_attempt_is_counted_as_an_answer(asked: Asked) -> None:
    outcome = await outcome_of(
        asked, ("nothing", "stop"), ('{"n": "one"}', "stop"), ('{"n": 1}', "stop"), format="json", attempts=3
    )

    assert read(outcome) == {
        ("failed", "extraction_failed"): 1,
        ("failed", "schema_type_error"): 1,
        ("direct", "success"): 1,
    }


async def test_answer_continued_after_a_cut_is_counted_once(asked: Asked) -> None:
    value = await outcome_of(asked, ('{"m": "a', CUT), ('b", "n": 1}', "stop"), format="json", prefill=True)
    objects = await outcome_of(asked, ('{"n": 1}\n{"n"', CUT), ('{"n": 2}', "stop"))

    assert (value.ok, objects.value) == (True, [{"n": 1}, {"n": 2}])
    assert read(value) == read(objects) == {("direct", "success"): 1}


async def test_answer_whose_rest_is_missing_is_counted_as_far_as_it_was_read(asked: Asked) -> None:
    gone = ScriptedAnswer("", error=ProviderUnavailable("gone"))
    cut = ScriptedAnswer('{"n": 1}\n{"n"', finish_reason=CUT)

    rest_failed = await asked(Script(cut, gone, gone, gone, gone))
    rest_came_late = await asked(Script(gone, cut, gone, ScriptedAnswer('{"n": 2}')))

    assert [call.why for call in rest_failed.calls][:3] == ["first", "continue", "transient"]
    assert rest_failed.value == [{"n": 1}]
    assert sum(read(rest_failed).values()) == 1
    assert len(rest_came_late.value) == 2
    assert read(rest_came_late) == {("direct", "success"): 1}


async def test_text_answer_is_not_counted(asked: Asked) -> None:
    assert read(await outcome_of(asked, ("a text", "stop"), format="text")) == {}


async def test_repairs_are_counted_once_for_each_object_and_kind(asked: Asked) -> None:
    outcome = await outcome_of(
        asked,
        ("{'n': 1, 'm': 'a'}\n{'n': 2, \"m\": 3,}\n{\"n\": 4}", "stop"),
        repair=True,
    )

    assert len(outcome.value) == 3
    assert counted(outcome, "objects_repaired_total", "what") == {
        ("other quotes than JSON's",): 2,
        ("a comma too many",): 1,
    }


async def test_seconds_are_those_of_reading_not_of_waiting(asked: Asked) -> None:
    outcome = await outcome_of(asked, ('{"n": 1}\n' * 1000, "stop"))

    [call] = outcome.calls
    assert call.read is not None
    assert call.read.seconds > 0
    assert counted(outcome, "reading_seconds_sum", "stage") == {("direct",): call.read.seconds}


def test_repairs_are_of_a_few_kinds_whatever_the_answer() -> None:
    kinds: set[str] = set()
    chance = random.Random(3)
    for _ in range(3000):
        text = fuzz.mutated(chance) if chance.random() < 0.5 else fuzz.soup(chance)
        outcome = reader.read(text, fuzz.MENDING["jsonl"])
        kinds |= {edit.what for repaired in outcome.repaired for edit in repaired.edits}

    assert 10 < len(kinds) <= 40
    assert all(re.fullmatch(r"[A-Za-z', ]+", kind) for kind in kinds)
