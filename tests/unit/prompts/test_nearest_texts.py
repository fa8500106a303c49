"""The texts that are nearest to a passage, and those that may be the passage itself."""

from __future__ import annotations

import threading

import pytest

from trustgraph_prompt.prompts.nearest_texts import MOST_LOOKED_AT, NearestTexts

TEXTS = [
    "The mill on the river Spree was built of brick.",
    "A castle stands above the river Rhine.",
    "Salt was mined under the castle hill.",
]
INDEX = NearestTexts(TEXTS)


def test_texts_that_share_rare_words_come_first_and_others_not_at_all() -> None:
    assert INDEX.choose("Who mined salt at the castle?", 3, "nearest").rows == [2, 1]
    assert INDEX.choose("A mill at the river Spree", 1, "nearest").rows == [0]


def test_common_words_of_a_language_bring_nothing_near() -> None:
    assert INDEX.choose("the and of was to it", 3, "nearest").rows == []


@pytest.mark.parametrize("passage", ["", "Ein Schloss am Ufer", "!!!", "\ud800"])
def test_passage_in_another_language_or_without_words_is_near_to_nothing(passage: str) -> None:
    assert INDEX.choose(passage, 3, "nearest") == ([], 0)


def test_text_without_spaces_is_found_by_its_characters() -> None:
    index = NearestTexts(["東京は日本の首都です。", "富士山は高い。"])
    assert index.choose("富士山の雪", 1, "nearest").rows == [1]


def test_first_texts_come_in_their_order_whatever_the_passage() -> None:
    assert INDEX.choose("salt", 2, "first").rows == [0, 1]


@pytest.mark.parametrize("by", ["nearest", "first"])
@pytest.mark.parametrize(
    "passage",
    [
        "a castle\nSTANDS above “the river Rhine”",
        "castle stands above the river",
        "Look: a castle stands above the river Rhine. It is old.",
    ],
)
def test_text_equal_to_the_passage_within_it_or_around_it_is_left_out(passage: str, by: str) -> None:
    rows, left_out = INDEX.choose(passage, 3, by)  # type: ignore[arg-type]
    assert 1 not in rows
    assert left_out == 1


def test_half_a_word_does_not_make_two_texts_the_same() -> None:
    index = NearestTexts(["The castle on the Rhine", "A salt mine"])
    assert index.choose("The castle on the Rhinelander road", 1, "nearest") == ([0], 0)


def test_passage_that_contains_all_texts_is_shown_none_after_a_bounded_number() -> None:
    texts = [f"brick number {number}" for number in range(5 * MOST_LOOKED_AT)]
    assert NearestTexts(texts).choose(". ".join(texts), 3, "nearest") == ([], MOST_LOOKED_AT)


def test_word_in_every_text_still_ranks_by_the_others() -> None:
    texts = [f"brick {'kiln' if number == 700 else number}" for number in range(1_000)]
    assert NearestTexts(texts).choose("a brick from the kiln", 1, "nearest").rows == [700]


def test_equal_texts_come_in_their_order() -> None:
    assert NearestTexts(["red brick wall"] * 4).choose("one brick", 3, "nearest").rows == [0, 1, 2]


def test_threads_that_share_an_index_choose_alike() -> None:
    found: list[list[int]] = []
    ask = lambda: found.extend(INDEX.choose("castle river salt", 3, "nearest").rows for _ in range(50))  # noqa: E731
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 200
    assert {tuple(rows) for rows in found} == {tuple(found[0])}
