"""What large models write of a passage is hardly ever refused, be its names written differently there."""

from __future__ import annotations

from tests.support.large_model_objects import (
    MOST_REFUSED,
    TRANSLATED,
    counts,
    objects,
    passages,
    refused_with_each_sentence,
)


def test_hardly_any_object_of_large_models_is_refused() -> None:
    by_kind = counts(objects())
    translated = by_kind.pop(TRANSLATED)
    refused = {kind: count.refused for kind, count in by_kind.items() if count.refused}
    said = sum(count.objects for count in by_kind.values())
    assert (said, translated.objects) == (150, 16)
    assert sum(map(len, refused.values())) <= MOST_REFUSED * said, refused


def test_every_passage_has_objects() -> None:
    assert {each.passage for each in objects()} == {*passages().values()}


def test_true_object_is_not_refused_with_the_right_sentence_as_its_quote() -> None:
    assert not [each.object for each, refused in refused_with_each_sentence() if all(refused)]


def test_object_is_mostly_refused_with_another_sentence_as_its_quote() -> None:
    said = [refused for each, refused in refused_with_each_sentence() if each.kind != TRANSLATED]
    assert sum(map(sum, said)) > sum(map(len, said)) / 2
