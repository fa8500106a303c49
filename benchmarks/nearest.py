"""How long it takes to choose the examples of a pool. Exits with 1 beyond the limit for 1,000 texts.

The texts are windows of the repository's own guides, of as many words as a sentence, and as a chunk of 2,000
characters has; so are the passages, which are not among the texts. The scan ranks all texts by all words,
without an index; it is stated how many of three chosen texts it would choose, too. Times are CPU time, the
least of some rounds.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from math import log
from pathlib import Path

from trustgraph_prompt.grounding.words import STOP_WORDS, words
from trustgraph_prompt.prompts.nearest_texts import NearestTexts

DOCS = Path(__file__).parents[1] / "docs"
SENTENCE, CHUNK = 25, 300  # words
SIZES = {SENTENCE: (100, 1_000, 10_000), CHUNK: (100, 1_000)}  # texts; a pool holds no 10,000 chunks
LIMIT = 2.0  # ms for 1,000 texts
SHOWN = 3
PASSAGES, ROUNDS = 10, 3


def least_ms(work: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    return 1_000 * best


def choose_all(choose: Callable[[str], object], passages: Sequence[str]) -> None:
    for passage in passages:
        choose(passage)


def windows(source: Sequence[str], count: int, length: int, seed: int) -> list[str]:
    chance = random.Random(seed)
    starts = [chance.randrange(len(source) - length) for _ in range(count)]
    return [" ".join(source[start : start + length]) for start in starts]


class Scan:
    """The ranking by a scan of all texts."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = [Counter(words(text).folded) for text in texts]
        self._average = sum(map(Counter.total, self._texts)) / len(texts)
        self._counts = Counter(word for text in self._texts for word in text)

    def choose(self, passage: str) -> list[int]:
        sought = {word for word in words(passage).folded if word in self._counts and word not in STOP_WORDS}
        weights = {
            word: log(1 + (len(self._texts) - self._counts[word] + 0.5) / (self._counts[word] + 0.5))
            for word in sought
        }
        scores = [
            sum(
                weights[word] * text[word] / (text[word] + 1.2 * (0.25 + 0.75 * text.total() / self._average))
                for word in sought & text.keys()
            )
            for text in self._texts
        ]
        return sorted(range(len(scores)), key=lambda row: -scores[row])[:SHOWN]


def main() -> int:
    source = " ".join(path.read_text() for path in sorted(DOCS.rglob("*.md"))).split()
    half = len(source) // 2  # texts are of the first half, passages of the second
    print(
        f"  {'texts':>7}  {'words each':>10}  {'index, once':>12}  {'choice':>8}  {'scan':>9}  chosen alike"
    )
    is_within = True
    for length in (SENTENCE, CHUNK):
        for size in SIZES[length]:
            texts, passages = (
                windows(source[:half], size, length, 1),
                windows(source[half:], PASSAGES, length, 2),
            )
            made = least_ms(partial(NearestTexts, texts))
            index, scan = NearestTexts(texts), Scan(texts)
            nearest = partial(index.choose, count=SHOWN, by="nearest")
            choice = least_ms(partial(choose_all, nearest, passages)) / PASSAGES
            scanned = least_ms(partial(choose_all, scan.choose, passages)) / PASSAGES
            alike = sum(
                len({*index.choose(each, SHOWN, "nearest").rows} & {*scan.choose(each)}) for each in passages
            )
            print(
                f"  {size:>7,}  {length:>10}  {made:>9,.0f} ms  {choice:>5.2f} ms  {scanned:>6.1f} ms"
                f"  {100 * alike / (SHOWN * PASSAGES):>11.0f} %"
            )
            is_within &= size > 1_000 or choice <= LIMIT
    if not is_within:
        print(f"a choice from 1,000 texts takes more than {LIMIT:g} ms")
    return 0 if is_within else 1


if __name__ == "__main__":
    sys.exit(main())
