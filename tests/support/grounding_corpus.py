"""Made sentences and values that stand in them, do not, or do in part: `tests/data/grounding.txt`.

`inflected_names.txt` has names in languages with cases, in the same form.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from trustgraph_prompt.grounding import MatchKind, Passage

PRECISION, RECALL = 0.995, 0.97
"""What is promised of the whole corpus."""

LEAST_NAMES_FOUND, MOST_NAMES_WRONG = 0.8, 0.01
"""What is promised of the names of each language with cases."""

_DATA = Path(__file__).parents[1] / "data"
_SENTENCES = {"|": 3, "!": 2, "~": 2}  # of a block, into which each line is put
_STANDS: dict[str, Literal["found", "absent", "in part"]] = {"|": "found", "!": "absent", "~": "in part"}


class Case(NamedTuple):
    """A value that is looked for in a text."""

    category: str
    kinds: frozenset[str]
    """Those that it may have where it is found. With `part` among them, a match in part counts as found."""
    text: str
    value: str
    stands: Literal["found", "absent", "in part"]
    places: tuple[tuple[int, int], ...]
    """Where what stands for it begins and ends."""


@cache
def cases(corpus: str = "grounding") -> tuple[Case, ...]:
    return tuple(_read((_DATA / f"{corpus}.txt").read_text(encoding="utf-8")))


@dataclass
class Tally:
    """What was found of some cases."""

    found: int = 0
    missed: int = 0
    wrong: int = 0
    absent: int = 0
    taken_for_parts: int = 0
    parts: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    @property
    def precision(self) -> float:
        return self.found / (self.found + self.wrong) if self.found else float(not self.wrong)

    @property
    def recall(self) -> float:
        return self.found / (self.found + self.missed) if self.found else float(not self.missed)

    @property
    def wrong_share(self) -> float:
        return self.wrong / self.absent if self.absent else 0.0


def tallies(corpus: str = "grounding") -> dict[str, Tally]:
    """By category. What is found in part counts as found only where the corpus says so."""
    by_category: dict[str, Tally] = defaultdict(Tally)
    for case in cases(corpus):
        tally = by_category[case.category]
        match = Passage(case.text).find(case.value)
        is_found = match is not None and (match.kind is not MatchKind.PART or "part" in case.kinds)
        if case.stands == "found":
            tally.found += is_found
            tally.missed += not is_found
        elif case.stands == "absent":
            tally.wrong += is_found
            tally.absent += 1
        else:
            tally.taken_for_parts += match is not None and not is_found
            tally.parts += 1
    return by_category


def _read(corpus: str) -> Iterator[Case]:
    for block in corpus.split("\n# ")[1:]:
        title, *lines = block.strip().splitlines()
        category, _, kinds = title.partition(": ")
        sentences = [_unescaped(line[2:]) for line in lines if line.startswith("> ")]
        pairs = [line for line in lines if line and not line.startswith("> ")]
        for number, line in enumerate(pairs):
            stands, sign, value = re.fullmatch(r"(.+) ([|!~]) (.+)", line, re.DOTALL).groups()  # type: ignore[union-attr]
            for step in range(_SENTENCES[sign]):
                sentence = sentences[(number + step) % len(sentences)]
                yield _case(category, frozenset(kinds.split()), sentence, _unescaped(stands), value, sign)


def _case(category: str, kinds: frozenset[str], sentence: str, stands: str, value: str, sign: str) -> Case:
    pieces = sentence.split("{}")
    text, places = pieces[0], []
    for piece in pieces[1:]:
        places.append((len(text), len(text) + len(stands)))
        text += stands + piece
    return Case(category, kinds, text, _unescaped(value), _STANDS[sign], tuple(places))


def _unescaped(written: str) -> str:
    named = {"n": "\n", "r": "\r", "t": "\t"}
    return re.sub(
        r"\\(?:u([0-9a-f]{4})|([nrt]))", lambda it: named[it[2]] if it[2] else chr(int(it[1], 16)), written
    )
