"""The scores of a model with known errors, their intervals, and the comparison of two versions."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.support.flawed_model import evaluation, flawed, gold_texts
from trustgraph_prompt.errors import Reason
from trustgraph_prompt.evaluation.gold import FEWEST, GoldQuestion
from trustgraph_prompt.evaluation.measures import compared, measured
from trustgraph_prompt.evaluation.scores import Comparison, Evaluation
from trustgraph_prompt.extraction.results import Result
from trustgraph_prompt.prompts.gold_file import GoldText
from trustgraph_prompt.prompts.match_clause import MatchClause
from trustgraph_prompt.worker.messages.answer_record import Answer

SEEDS = range(100)
TEXTS = 20
RECALL, MADE_UP = 0.8, 0.25
PRECISION = RECALL / (RECALL + MADE_UP)
F1 = 2 * RECALL / (1 + RECALL + MADE_UP)


def version(seed: int, *, recall: float = RECALL, made_up: float = MADE_UP, of: str = "a") -> Evaluation:
    texts = gold_texts(TEXTS, random.Random(seed))
    chance = random.Random(f"{seed} {of}")
    return evaluation(texts, [flawed(text.objects, chance, recall=recall, made_up=made_up) for text in texts])


def test_intervals_cover_the_true_scores_for_at_least_90_of_100_seeds() -> None:
    versions = [version(seed) for seed in SEEDS]
    for name, built_in in (("precision", PRECISION), ("recall", RECALL), ("f1", F1)):
        found = [each.measures[name] for each in versions]
        covered = sum(each.low <= built_in <= each.high for each in found if each.low and each.high)
        assert covered >= 90, name
        assert np.mean([each.value for each in found]) == pytest.approx(built_in, abs=0.01), name


def test_equal_versions_are_called_different_for_at_most_10_of_100_seeds() -> None:
    compared = [Comparison.of(version(seed), version(seed, of="b")) for seed in SEEDS]
    assert sum(each.verdict in ("better", "worse") for each in compared) <= 10


def test_much_better_version_is_called_better_in_every_seed() -> None:
    for seed in SEEDS[:20]:
        found = Comparison.of(version(seed), version(seed, recall=0.4, of="b"))
        assert found.verdict == "better"
        assert found.differences["f1"].value > 0


def test_scores_are_computed_from_the_counts() -> None:
    found = measured(np.array([[3, 4, 5], [0, 0, 0], [1, 2, 1]]))
    assert found["precision"].value == pytest.approx(4 / 6)
    assert found["recall"].value == pytest.approx(4 / 6)
    assert found["f1"].value == pytest.approx(8 / 12)
    assert found["f1_of_texts"].value == pytest.approx((6 / 9 + 1 + 2 / 3) / 3)


@pytest.mark.parametrize(
    ("counts", "precision", "recall"),
    [([[0, 0, 0]], 1, 1), ([[0, 3, 0]], 0, 0), ([[0, 0, 3]], 0, 0), ([[2, 2, 2]], 1, 1)],
    ids=["nothing to find", "nothing came", "nothing should come", "all"],
)
def test_scores_without_a_denominator_are_0_or_1(
    counts: list[list[int]], precision: float, recall: float
) -> None:
    found = measured(np.array(counts))
    assert (found["precision"].value, found["recall"].value) == (precision, recall)
    assert found["f1"].low is None  # one text


def test_same_answers_give_the_same_intervals() -> None:
    assert version(1).measures == version(1).measures


def test_interval_of_two_thousand_texts_is_narrow() -> None:
    counts = np.tile(np.array([[3, 4, 5], [4, 4, 4]]), (1_000, 1))
    found = measured(counts)["recall"]
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high < found.low + 0.03


def test_few_texts_show_no_difference() -> None:
    better, worse = np.array([[4, 4, 4]] * FEWEST), np.array([[2, 4, 4]] * FEWEST)
    assert Comparison(FEWEST, compared(better, worse), []).verdict == "better"
    assert Comparison(FEWEST - 1, compared(better[1:], worse[1:]), []).verdict == "too few texts"


def test_versions_are_compared_on_the_texts_that_both_answered() -> None:
    texts = gold_texts(8, random.Random(1))
    right = [list(text.objects) for text in texts]
    found = Comparison.of(evaluation(texts, right), evaluation(texts[2:], right[2:]))
    assert (found.texts, found.verdict, found.changes) == (6, "noise", [])
    assert Comparison.of(evaluation(texts[:1], right[:1]), evaluation([], [])).differences == {}


def test_comparison_lists_the_objects_that_changed_sides() -> None:
    texts = gold_texts(1, random.Random(1), objects=(3, 3))
    one, two, three = texts[0].objects
    wrong = {"name": "Atlantis"}
    found = Comparison.of(evaluation(texts, [[one, two]]), evaluation(texts, [[one, three, wrong]]))
    assert [(change.what, change.object) for change in found.changes] == [
        ("found", two),
        ("missing", three),
        ("no longer too many", wrong),
    ]


@pytest.mark.parametrize(
    ("value", "expected", "right"),
    [(["Etna", "Hekla"], ["hekla"], 1), ({"name": "Etna"}, [{"name": "ETNA"}], 1), ("Etna", ["Hekla"], 0)],
)
def test_json_value_is_scored_and_so_are_the_elements_of_its_list(
    value: object, expected: list[object], right: int
) -> None:
    text = GoldText("gold:1", "line 1", {}, tuple(expected))
    answer = Answer("r", "extract", "names", "v", Reason.SUCCESS, "direct", False, (), value)
    found = Evaluation.of(
        "v", "m", MatchClause({}), [Result(GoldQuestion(0, "r", "names", text), (), answer)]
    )
    assert found.counts[0, 0] == right


def test_refused_answer_counts_as_empty_and_failed_ones_are_not_scored() -> None:
    texts = [GoldText(f"gold:{number}", f"line {number}", {}, ("Etna",)) for number in (1, 2, 3, 4)]
    answers = [
        Answer("r", "extract", "names", "v", reason, "direct", False, ())
        for reason in (Reason.REFUSED, Reason.PROVIDER_ERROR, Reason.BUDGET_SPENT)
    ]
    results = [
        Result(GoldQuestion(index, f"r{index}", "names", text), (), answer, "why")
        for index, (text, answer) in enumerate(zip(texts, [*answers, None], strict=True))
    ]
    found = Evaluation.of("v", "m", MatchClause({}), results)
    assert found.counts.tolist() == [[0, 1, 0]]
    assert [text.where for text, _ in found.failed] == ["gold:2", "gold:3", "gold:4"]
