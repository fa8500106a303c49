"""Objects are matched one to one by the keys of a clause, as many as possible."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trustgraph_prompt.evaluation.matching import differences, match
from trustgraph_prompt.prompts.match_clause import How, MatchClause


def clause(**keys: How) -> MatchClause:
    return MatchClause(keys)


@pytest.mark.parametrize(
    ("how", "one", "other", "same"),
    [
        ("exact", "Etna", "Etna", True),
        ("exact", "Etna", "etna", False),
        ("exact", 1, 1.0, True),
        ("exact", 1, True, False),
        ("exact", [1, {"a": 2}], [1, {"a": 2.0}], True),
        ("normalised", "Mount  Etna", " mount etna\n", True),
        ("normalised", "Größe", "GRÖSSE", True),
        ("normalised", "Caf\u00e9", "Cafe\u0301", True),
        ("normalised", "\ufb01re", "fire", True),
        ("normalised", "Etna", "Etna!", False),
        ("normalised", ["A", None], ["a", None], True),
        ("normalised", None, False, False),
        (0.8, "is found under", "found under", True),
        (0.8, "IS  FOUND under", "is found under", True),
        (0.9, "is found under", "found under", False),
        (1.0, "Etna", "etna", True),
    ],
)
def test_values_are_compared_exactly_normalised_or_by_similarity(
    how: How, one: Any, other: Any, same: bool
) -> None:
    found = match([{"key": one}], [{"key": other}], clause(key=how))
    assert found.matched == (((0, 0),) if same else ())


def test_all_keys_of_the_clause_must_agree_and_others_are_not_compared() -> None:
    by = clause(a="exact", b="exact")
    assert match([{"a": 1, "b": 2, "c": 3}], [{"a": 1, "b": 2, "c": 4}], by).matched == ((0, 0),)
    assert match([{"a": 1, "b": 2}], [{"a": 1, "b": 3}], by).matched == ()
    assert differences({"a": 1, "b": 2, "c": "X", "d": 4}, {"a": 1, "b": 2, "c": " x", "d": 5}, by) == ["d"]


def test_key_that_both_objects_lack_agrees() -> None:
    by = clause(type="exact", name="normalised")
    assert match([{"type": "a"}], [{"type": "a"}], by).matched == ((0, 0),)
    assert match([{"type": "a"}], [{"type": "a", "name": "x"}], by).matched == ()


def test_key_that_is_null_counts_as_missing() -> None:
    for how in ("exact", "normalised", 0.8):
        by = clause(type="exact", name=how)
        assert match([{"type": "a"}], [{"type": "a", "name": None}], by).matched == ((0, 0),)
        assert match([{"type": "a", "name": None}], [{"type": "a", "name": "x"}], by).matched == ()
    assert match([{"a": 1}], [{"a": 1, "b": None}], clause()).matched == ((0, 0),)
    assert match([{"a": {"b": 1, "c": None}}], [{"a": {"b": 1}}], clause(a="exact")).matched == ((0, 0),)
    assert differences({"a": 1, "b": None}, {"a": 1}, clause(a="exact")) == []


def test_whole_values_are_compared_without_keys() -> None:
    assert match(["Etna", {"a": "X"}], [{"a": "x"}, "etna", 3], clause()).matched == ((0, 1), (1, 0))
    assert differences({"a": 1}, {"a": 2}, clause()) == []


def test_as_many_pairs_as_possible_are_matched() -> None:
    expected = [{"p": "is found under"}, {"p": "found under"}]
    came = [{"p": "found under"}, {"p": "lies and is found under"}]
    found = match(expected, came, clause(p=0.7))
    assert found.matched == ((0, 1), (1, 0))


def test_each_object_is_matched_once_and_a_repeated_one_is_unexpected() -> None:
    found = match([{"n": "a"}], [{"n": "a"}, {"n": "A"}], clause(n="normalised"))
    assert (found.matched, found.unexpected) == (((0, 0),), (1,))


def test_missing_object_is_shown_beside_the_most_similar_unexpected_one() -> None:
    expected = [{"n": "Needles"}, {"n": "Albion"}]
    came = [{"n": "Yorkshire"}, {"n": "The Needles"}]
    found = match(expected, came, clause(n="normalised"))
    assert (found.near, found.missing, found.unexpected) == (((0, 1),), (1,), (0,))


@pytest.mark.parametrize(("expected", "came"), [([], []), ([{"n": 1}], []), ([], [{"n": 1}])])
def test_all_objects_are_unmatched_if_the_other_side_is_empty(expected: list[Any], came: list[Any]) -> None:
    found = match(expected, came, clause(n="exact"))
    assert (found.matched, found.near) == ((), ())
    assert (len(found.missing), len(found.unexpected)) == (len(expected), len(came))


WORDS = st.lists(st.sampled_from(["a", "ab", "abc", "abcd", "b", "bcd"]), max_size=4)


@given(WORDS, WORDS)
def test_no_other_choice_of_pairs_matches_more_objects(one: list[str], other: list[str]) -> None:
    by = clause(n=0.6)
    expected, came = ([{"n": word} for word in words] for words in (one, other))
    found = match(expected, came, by)

    def agrees(left: int, right: int) -> bool:
        return bool(match([expected[left]], [came[right]], by).matched)

    size = min(len(one), len(other))
    choices = (
        [
            sum(agrees(left, right) for left, right in zip(lefts, rights, strict=True))
            for lefts in permutations(range(len(one)), size)
            for rights in [range(size)]
        ]
        if len(one) > len(other)
        else [
            sum(agrees(left, right) for left, right in enumerate(rights))
            for rights in permutations(range(len(other)), size)
        ]
    )
    assert len(found.matched) == max(choices)
    assert all(agrees(*pair) for pair in found.matched)
    indexes = [index for index, _ in (*found.matched, *found.near)] + list(found.missing)
    assert sorted(indexes) == list(range(len(one)))


def test_objects_are_the_same_whatever_a_key_that_is_ignored() -> None:
    whole = MatchClause({}, ignored=frozenset({"quote"}))
    expected, found = [{"name": "Etna"}, 7], [{"quote": "Etna is high", "name": "etna"}, 7]
    assert match(expected, found, whole).matched == ((0, 0), (1, 1))
    assert match(expected, found, MatchClause({})).matched == ((1, 1),)
    by_name = MatchClause({"name": "normalised"}, ignored=frozenset({"quote"}))
    assert differences({"quote": "a", "name": "Etna", "n": 1}, {"quote": "b", "name": "Etna"}, by_name) == [
        "n"
    ]
