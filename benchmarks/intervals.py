"""How often the intervals of `eval` cover the true F1, and how often two equal versions are called different.

For plain and for expanded percentiles, over texts of 3 to 8 expected objects, of which 80 % come, with
made-up ones besides. Decision 0038 has the figures. Takes a minute:  python benchmarks/intervals.py
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtrit

SEEDS, RESAMPLES = 400, 2_000
RECALL, MADE_UP = 0.8, 0.2
TRUE_F1 = 2 * RECALL / (1 + RECALL + MADE_UP)


def f1(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """F1 of matched, expected and found objects in the last axis."""
    values: NDArray[np.float64] = 2 * counts[..., 0] / (counts[..., 1] + counts[..., 2])
    return values


def answered(expected: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.int64]:
    """The counts of one version on these texts."""
    matched = random.binomial(expected, RECALL)
    return np.stack([matched, expected, matched + random.poisson(MADE_UP * expected)], axis=1)


def contains(drawn: NDArray[np.float64], value: float, tail: float) -> bool:
    """Whether the interval of resamples contains a value."""
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return bool(low <= value <= high)


def main() -> None:
    """Print a line for each number of texts."""
    print("texts  covered: plain  expanded   different: plain  expanded")
    for texts in (5, 7, 10, 20, 40):
        tails = 0.025, float(ndtr(np.sqrt(texts / (texts - 1)) * stdtrit(texts - 1, 0.025)))
        covered, different = [0, 0], [0, 0]
        for seed in range(SEEDS):
            random = np.random.default_rng(seed)
            expected = random.integers(3, 9, texts)
            one, other = answered(expected, random), answered(expected, random)
            draws = random.multinomial(texts, np.full(texts, 1 / texts), size=RESAMPLES)
            for index, tail in enumerate(tails):
                covered[index] += contains(f1(draws @ one), TRUE_F1, tail)
                different[index] += not contains(f1(draws @ one) - f1(draws @ other), 0, tail)
        shares = [f"{100 * count / SEEDS:.0f} %" for count in (*covered, *different)]
        print(f"{texts:5}  {shares[0]:>14}  {shares[1]:>8}  {shares[2]:>17}  {shares[3]:>8}")


if __name__ == "__main__":
    main()
