"""How the answers of two versions are compared, and what rules decide; over answers that are made up."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.worker import Answer
from trustgraph_prompt.worker.canary.compare import AbortRule, Look, Observed, look_counts, looks, ratio

SEEDS = range(20)
OBJECTS = 10
RULES = [AbortRule.parse(text, "--abort-if") for text in ("refused > 1.5x", "objects < 0.7x")]
SERVED = Observed(0.0, None, "v1", "success", 8, {"schema_type_error": 2}, False, False, 1, 100, 0.01, 2.0)
CANARY = replace(SERVED, canary="c", version="v2")


def refused_of(dice: random.Random, share: float, correlation: float) -> int:
    """How many objects of an answer are refused. Some answers are better than others (beta-binomial)."""
    size = 1 / correlation - 1
    chance = dice.betavariate(share * size, (1 - share) * size)
    return sum(dice.random() < chance for _ in range(OBJECTS))


def answers(
    seed: int, *, old: float, new: float, count: int = 3_000, correlation: float = 0.05
) -> Iterator[Observed]:
    """Answers of which a fifth is the canary's; of their objects some are refused."""
    dice = random.Random(seed)
    for number in range(count):
        base = CANARY if dice.random() < 0.2 else SERVED
        refused = refused_of(dice, old if base is SERVED else new, correlation)
        reasons = {"schema_type_error": refused} if refused else {}
        yield replace(base, published=float(number), objects=OBJECTS - refused, refused=reasons)


def last_look(found: Iterator[Observed]) -> Look:
    return [*looks(found, "c", RULES, 50, 500)][-1]


def test_equal_version_is_promoted_in_nineteen_of_twenty_seeds() -> None:
    ends = [last_look(answers(seed, old=0.2, new=0.2)) for seed in SEEDS]
    assert sum(end.fired is None and end.answers == 500 for end in ends) >= 19


def test_version_with_twice_as_many_refused_objects_is_aborted_in_200_answers() -> None:
    ends = [last_look(answers(seed, old=0.2, new=0.4)) for seed in SEEDS]
    assert all(end.fired and end.answers <= 200 for end in ends)


def test_many_looks_at_equal_versions_rarely_fire_a_rule_without_a_margin() -> None:
    rule = AbortRule.parse("refused > 1x", "--abort-if")
    found = (looks(answers(seed, old=0.2, new=0.2), "c", [rule], 50, 500) for seed in range(60))
    assert sum([*seen][-1].fired is not None for seen in found) <= 3


def test_interval_covers_the_true_ratio_in_ninety_of_a_hundred_seeds() -> None:
    covered = 0
    for seed in range(100):
        found = [*answers(seed, old=0.2, new=0.3, count=600, correlation=0.2)]
        compared = ratio(
            "refused", [each for each in found if not each.canary], [each for each in found if each.canary]
        )
        assert compared is not None
        covered += compared.low <= 1.5 <= compared.high
    assert covered >= 90


def test_looks_do_not_depend_on_when_the_watcher_was_started() -> None:
    found = [*answers(7, old=0.2, new=0.25)]
    whole = [*looks(found, "c", RULES, 50, 500)]
    for count in range(0, len(found), 300):
        seen = [*looks(found[:count], "c", RULES, 50, 500)]
        assert seen == whole[: len(seen)]


def test_rules_look_at_few_fixed_counts() -> None:
    assert look_counts(50, 500) == [50, 100, 200, 400, 500]
    assert look_counts(50, 50) == [50]


def test_no_rule_looks_before_both_versions_have_enough_answers() -> None:
    assert [*looks([CANARY] * 400 + [SERVED] * 49, "c", RULES, 50, 500)] == []
    assert [*looks([CANARY] * 49 + [SERVED] * 400, "c", RULES, 50, 500)] == []
    assert [
        *looks([SERVED, CANARY] * 49 + [replace(CANARY, canary="earlier")] * 99, "c", RULES, 50, 500)
    ] == []


@pytest.mark.parametrize(
    ("quantity", "change", "sign"),
    [
        ("objects", {"objects": 0}, "<"),
        ("refused", {"refused": {"x": 9}}, ">"),
        ("failed", {"reason": "empty"}, ">"),
        ("truncated", {"truncated": True}, ">"),
        ("attempts", {"attempts": 3}, ">"),
        ("tokens", {"tokens": 300}, ">"),
        ("cost", {"cost": 0.03}, ">"),
        ("seconds", {"seconds": 6.0}, ">"),
    ],
)
def test_rule_of_each_quantity_fires_only_for_the_worse_version(
    quantity: str, change: dict[str, Any], sign: str
) -> None:
    rule = AbortRule.parse(f"{quantity}{sign}{'0.7' if sign == '<' else '1.5'} x", "--abort-if")
    worse = replace(CANARY, **change)
    [bad] = looks([SERVED, worse] * 50, "c", [rule], 50, 50)
    [good] = looks([SERVED, CANARY] * 50, "c", [rule], 50, 50)
    assert (bad.fired, good.fired) == (rule, None)


def test_two_events_against_none_fire_no_rule() -> None:
    served, cut = [SERVED] * 50, [replace(CANARY, truncated=True)] * 2 + [CANARY] * 48
    compared = ratio("truncated", served, cut)
    assert compared is not None
    assert compared.low < 1.5
    assert ratio("truncated", served, [CANARY] * 50) is None


def test_cached_answers_are_not_compared_by_their_cost() -> None:
    cached = [replace(CANARY, cached=True, attempts=0, tokens=0, cost=0.0, seconds=0.0)] * 40
    compared = ratio("tokens", [SERVED] * 50, [CANARY] * 50 + cached)
    assert compared is not None
    assert compared.value == pytest.approx(1.0)


def test_quantity_without_a_price_or_enough_answers_is_not_compared() -> None:
    free = replace(SERVED, cost=None)
    assert ratio("cost", [free] * 50, [free] * 50) is None
    assert ratio("objects", [SERVED] * 19, [CANARY] * 50) is None


def test_refused_objects_that_a_record_does_not_list_are_counted() -> None:
    rejected = ({"index": 0, "raw": "", "issues": [{"reason": "ungrounded", "path": "", "message": ""}]},)
    record = Answer("r", "f", "p", "v", "success", "native", False, (), rejected_count=3, rejected=rejected)
    assert Observed.of(record, 1.0).refused == {"ungrounded": 1, "unlisted": 2}


@pytest.mark.parametrize(
    "text",
    ["", "refused", "refused > 1.5", "refusals > 1.5x", "refused >= 1.5x", "objects < -1x", "objects < 1e9x"],
)
def test_malformed_rule_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="refused, failed"):
        AbortRule.parse(text, "--abort-if")
