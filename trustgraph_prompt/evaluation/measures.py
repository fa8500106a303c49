"""Precision, recall and F1 with bootstrap intervals, of one version and of the difference between two.

The texts are drawn again, not the objects: those of one text succeed and fail together. The ends of an
interval are expanded percentiles (Hesterberg 2015), without which those of few texts are too narrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtrit

CONFIDENCE: Final = 0.95

MEASURES: Final = ("precision", "recall", "f1", "f1_of_texts")
"""Over all objects of all texts; the last is the mean of the F1 of each text."""

_RESAMPLES: Final = 4_000
_SEED: Final = 20_251_127  # any one: the same answers give the same intervals
_BATCH: Final = 4_000_000  # numbers drawn at a time

Counts = NDArray[np.int64]
"""A row for each text: the objects that match, the expected ones, the found ones."""

Draws = NDArray[np.int64]
"""A row for each resample: how often each text is drawn."""


class Measure(NamedTuple):
    """A value and its 95 % interval, which one text does not have."""

    value: float
    low: float | None = None
    high: float | None = None


def measured(counts: Counts) -> dict[str, Measure]:
    """Each of `MEASURES`."""
    return _with_intervals(lambda draws: _measures(draws, counts), len(counts))


def compared(new: Counts, old: Counts) -> dict[str, Measure]:
    """By how much each measure of a version exceeds that of another; both have the same texts, in order."""
    return _with_intervals(lambda draws: _measures(draws, new) - _measures(draws, old), len(new))


def _with_intervals(of: Callable[[Draws], NDArray[np.float64]], texts: int) -> dict[str, Measure]:
    values = of(np.ones((1, texts), np.int64))[0]
    if texts < 2:
        return {name: Measure(float(value)) for name, value in zip(MEASURES, values, strict=True)}
    drawn = np.concatenate([of(draws) for draws in _draws(texts)])
    tail = float(ndtr(np.sqrt(texts / (texts - 1)) * stdtrit(texts - 1, (1 - CONFIDENCE) / 2)))
    ends = np.quantile(drawn, [tail, 1 - tail], axis=0)
    return {
        name: Measure(float(value), float(low), float(high))
        for name, value, low, high in zip(MEASURES, values, *ends, strict=True)
    }


def _draws(texts: int) -> Iterator[Draws]:
    """All resamples, in batches."""
    random = np.random.default_rng(_SEED)
    at_once = max(1, min(_RESAMPLES, _BATCH // texts))
    for begin in range(0, _RESAMPLES, at_once):
        yield random.multinomial(texts, np.full(texts, 1 / texts), size=min(at_once, _RESAMPLES - begin))


def _measures(draws: Draws, counts: Counts) -> NDArray[np.float64]:
    """The measures of each resample."""
    matched, expected, found = (draws @ counts).T
    precision, recall = _share(matched, found, expected), _share(matched, expected, found)
    of_each = _share(2 * counts[:, 0], counts[:, 1] + counts[:, 2])
    return np.stack(
        [precision, recall, _share(2 * matched, expected + found), draws @ of_each / len(counts)], axis=1
    )


def _share(
    part: NDArray[np.int64], whole: NDArray[np.int64], other: NDArray[np.int64] | int = 0
) -> NDArray[np.float64]:
    """Part by whole; of nothing, 1 if there is nothing on the other side either, else 0."""
    of_nothing = np.where(np.equal(other, 0), 1.0, 0.0)
    shares: NDArray[np.float64] = np.where(whole == 0, of_nothing, part / np.maximum(whole, 1))
    return shares
