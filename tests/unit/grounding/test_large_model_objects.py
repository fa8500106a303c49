"""What large models write of a passage is hardly ever refused, be its names written differently there."""

from __future__ import annotations

from tests.support.large_model_objects import MOST_REFUSED, TRANSLATED, counts, objects, passages


def test_hardly_any_object_of_large_models_is_refused() -> None:
    by_kind = counts(objects())
    translated = by_kind.pop(TRANSLATED)
    refused = {kind: count.refused for kind, count in by_kind.items() if count.refused}
    said = sum(count.objects for count in by_kind.values())
    assert (said, translated.objects) == (150, 16)
    assert sum(map(len, refused.values())) <= MOST_REFUSED * said, refused


def test_every_passage_has_objects() -> None:
    assert {each.passage for each in objects()} == {*passages().values()}
