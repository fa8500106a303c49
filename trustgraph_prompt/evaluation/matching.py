"""Matches the objects that came with those that should have come, one to one."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import fuzz, process
from scipy.optimize import linear_sum_assignment

from trustgraph_prompt.json_text.encoding import canonical
from trustgraph_prompt.prompts.match_clause import How, MatchClause

NEAR: Final = 0.6
"""The least mean similarity of the keys of two objects that are shown side by side, though they differ."""

_ROUNDING: Final = 1e-9

Pair = tuple[int, int]
"""The index of an expected object, and that of a found one."""


@dataclass(frozen=True, slots=True)
class Matching:
    """What became of the objects of one text, by their indexes.

    `matched` are pairs of the same object. `near` are pairs of a missing and an unexpected one that are
    alike; `missing` and `unexpected` are all others.
    """

    matched: tuple[Pair, ...]
    near: tuple[Pair, ...]
    missing: tuple[int, ...]
    unexpected: tuple[int, ...]


def match(expected: Sequence[Any], found: Sequence[Any], clause: MatchClause) -> Matching:
    """Match as many objects as possible, and of all ways to do so the one with the most similar pairs."""
    if not (expected and found):
        return Matching((), (), (*range(len(expected)),), (*range(len(found)),))
    if clause.ignored:
        expected, found = ([_without(value, clause.ignored) for value in side] for side in (expected, found))
    same, similar = _compared(expected, found, clause)
    matched = _assigned(same, similar)
    alike = similar >= NEAR
    for one, other in matched:
        alike[one] = alike[:, other] = False
    near = _assigned(alike, similar)
    missing, unexpected = (
        tuple(sorted({*range(len(objects))} - {pair[side] for pair in (*matched, *near)}))
        for side, objects in enumerate((expected, found))
    )
    return Matching(matched, near, missing, unexpected)


def differences(expected: Any, found: Any, clause: MatchClause) -> list[str]:
    """The keys of an expected object, other than those it is matched by, that the found one has otherwise."""
    if not (clause.keys and isinstance(expected, dict) and isinstance(found, dict)):
        return []
    return [
        key
        for key, value in expected.items()
        if key not in clause.keys.keys() | clause.ignored and normalised(value) != normalised(found.get(key))
    ]


def _without(value: Any, keys: Collection[str]) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: part for key, part in value.items() if key not in keys}


def normalised(value: Any) -> str:
    """A text for a value that case, white space and the Unicode forms of characters do not change."""
    return _folded(value) if isinstance(value, str) else canonical(_mapped(value, _folded)).decode()


def _exact(value: Any) -> str:
    return canonical(_mapped(value, str)).decode()


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _mapped(value: Any, of_text: Callable[[str], str]) -> Any:
    """A value with its texts mapped; 1.0 is 1, as in JSON Schema, and a key that is null is not there."""
    match value:
        case str():
            return of_text(value)
        case list():
            return [_mapped(item, of_text) for item in value]
        case dict():
            return {key: _mapped(item, of_text) for key, item in value.items() if item is not None}
        case float() if value.is_integer():
            return int(value)
    return value


def _compared(
    expected: Sequence[Any], found: Sequence[Any], clause: MatchClause
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """For each pair, whether it is the same object, and the mean similarity of the keys that either has."""
    shape = len(expected), len(found)
    same, similarity, keys = np.ones(shape, bool), np.zeros(shape), np.zeros(shape)
    whole: Mapping[str | None, How] = {None: "normalised"}
    for key, how in (clause.keys or whole).items():
        left, right = _values(expected, key), _values(found, key)
        folded = ([normalised(value) if there else "" for there, value in side] for side in (left, right))
        alike = process.cdist(*folded, scorer=fuzz.ratio, dtype=np.float64) / 100
        if isinstance(how, float):
            same &= alike >= how - _ROUNDING
        else:
            codes: dict[str | None, int] = {}
            text_of = _exact if how == "exact" else normalised
            same &= np.equal.outer(_codes(left, text_of, codes), _codes(right, text_of, codes))
        counts = np.logical_or.outer([there for there, _ in left], [there for there, _ in right])
        similarity += alike * counts
        keys += counts
    return same, similarity / np.maximum(keys, 1)


def _values(objects: Sequence[Any], key: str | None) -> list[tuple[bool, Any]]:
    """Whether each object has the key, and its value; with the key None it is the whole object.

    Models write null for what is not there, or leave the key out: that says the same.
    """
    if key is None:
        return [(True, value) for value in objects]
    values = (value.get(key) if isinstance(value, dict) else None for value in objects)
    return [(value is not None, value) for value in values]


def _codes(
    values: Sequence[tuple[bool, Any]], text_of: Callable[[Any], str], codes: dict[str | None, int]
) -> NDArray[np.int64]:
    """Numbers that are equal for equal values, and for those that are not there."""
    texts = (text_of(value) if there else None for there, value in values)
    return np.array([codes.setdefault(text, len(codes)) for text in texts])


def _assigned(allowed: NDArray[np.bool_], similarity: NDArray[np.float64]) -> tuple[Pair, ...]:
    """As many allowed pairs as possible, and among all such choices the most similar ones."""
    most = min(allowed.shape)
    pairs = zip(*linear_sum_assignment(allowed * (most + 1 + similarity), maximize=True), strict=True)
    return tuple((int(row), int(column)) for row, column in pairs if allowed[row, column])
