"""How well values are found in texts, and what that costs. Exits with 1 beyond a bar.

Precision and recall are of the made sentences in `tests/data/grounding.txt`; a value that stands there in
part counts as not found. The names in `tests/data/inflected_names.txt` stand there in base form, and in their
sentences in other forms: here a match in part counts, too, as right or as wrong. The objects in
`tests/data/large_model_objects.jsonl` are true of their passages: it is stated how many are refused all the
same, and how many would be with a sentence of the passage as their quote.
The cost is that of two keys of each object, of which most stand in their chunk of 2,000 characters, by
the time that the same objects take to be read and judged; the folding of the chunk is stated by itself. Times
are CPU time, the least of many rounds.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path

from tests.support.grounding_corpus import (
    LEAST_NAMES_FOUND,
    MOST_NAMES_WRONG,
    PRECISION,
    RECALL,
    Tally,
    tallies,
)
from tests.support.large_model_objects import (
    MOST_REFUSED,
    TRANSLATED,
    counts,
    objects,
    refused_with_each_sentence,
)
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.grounding import Passage
from trustgraph_prompt.reader import read

SCHEMA = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("subject", "predicate", "object", "context")},
    "required": ["subject", "predicate", "object"],
}
CHALK = Path(__file__).parents[1] / "demo" / "on-a-piece-of-chalk.txt"
CHUNK = 2_000  # characters
OBJECTS = 40
ROUNDS = 200


def seconds(work: Callable[[], object]) -> float:
    """The best of some rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    return best


def print_quality() -> bool:
    """Whether it is within the bars."""
    by_category = tallies()
    total = sum(by_category.values(), Tally())
    print(f"  {'':52} stands  found   not  wrong  precision  recall")
    for name, tally in [*by_category.items(), ("in all", total)]:
        stands = tally.found + tally.missed
        print(
            f"  {name:52} {stands:6} {tally.found:6} {tally.absent:5} {tally.wrong:6} "
            f"{tally.precision:9.1%} {tally.recall:7.1%}"
        )
    print(f"  in part: {total.taken_for_parts} of {total.parts} are said to be so")
    print(f"  (bars: precision {PRECISION:.1%}, recall {RECALL:.0%} in all)\n")
    is_whole = total.taken_for_parts == total.parts
    return is_whole and total.precision >= PRECISION and total.recall >= RECALL


def print_names() -> bool:
    """Whether the names of each language with cases are within the bars."""
    by_language = tallies("inflected_names")
    print(f"  {'names in languages with cases':52} stands  found   not  wrong   found  wrong")
    for language, tally in [*by_language.items(), ("in all", sum(by_language.values(), Tally()))]:
        print(
            f"  {language:52} {tally.found + tally.missed:6} {tally.found:6} {tally.absent:5} "
            f"{tally.wrong:6} {tally.recall:7.1%} {tally.wrong_share:6.1%}"
        )
    print(f"  (bars: {LEAST_NAMES_FOUND:.0%} found, {MOST_NAMES_WRONG:.0%} wrong in each)\n")
    return all(
        tally.recall >= LEAST_NAMES_FOUND and tally.wrong_share <= MOST_NAMES_WRONG
        for tally in by_language.values()
    )


def print_refused() -> bool:
    """Of what large models write, by kind. Whether it is within the bar."""
    by_kind = counts(objects())
    print(f"  {'objects of large models':52} objects marked  refused")
    for kind, count in sorted(by_kind.items(), key=lambda each: -each[1].objects):
        print(f"  {kind:52} {count.objects:7} {count.marked:7} {len(count.refused):8}")
        for issue in count.refused:
            print(f"    {issue}")
    del by_kind[TRANSLATED]
    said = sum(count.objects for count in by_kind.values())
    refused = sum(len(count.refused) for count in by_kind.values())
    print(f"  in all, but for the {TRANSLATED}: {refused} of {said}, {refused / said:.1%}")
    print(f"  (bar: {MOST_REFUSED:.0%})\n")
    return refused <= MOST_REFUSED * said


def print_unsupported() -> bool:
    """Whether true objects are supported by a sentence of their passage, and not by most others."""
    refused = [refused for each, refused in refused_with_each_sentence() if each.kind != TRANSLATED]
    lost, by_sentence = sum(map(all, refused)), list(chain.from_iterable(refused))
    share = sum(by_sentence) / len(by_sentence)
    print(f"  refused with each sentence of the passage as the quote: {lost} of {len(refused)}")
    print(f"  refused with a sentence of the passage as the quote: {share:.1%}")
    print(f"  (bars: {MOST_REFUSED:.0%}, at least half)\n")
    return lost <= MOST_REFUSED * len(refused) and share >= 0.5


def print_cost() -> None:
    text = CHALK.read_text(encoding="utf-8")[:CHUNK]
    said = text.split()
    values = [" ".join(said[at : at + 2]).strip(",.;") for at in range(0, 6 * OBJECTS, 3)]
    lines = "\n".join(
        json.dumps(
            {"subject": one, "predicate": "is told of", "object": other, "context": "a lecture on chalk"}
        )
        for one, other in zip(values[::2], values[1::2], strict=True)
    )
    contract = Contract.from_schema(SCHEMA, format="jsonl")
    reading = seconds(lambda: read(lines, contract)) / OBJECTS

    def ground(asked: list[str]) -> float:
        return seconds(lambda: list(map(Passage(text).find, asked))) / OBJECTS

    folding = seconds(lambda: Passage(text).find("Xy")) - seconds(lambda: Passage("").find("Xy"))
    print(f"  reading and judging an object: {reading * 1e6:.1f} us = 1.0x")
    tell("as they are", ground(values), reading)
    for name, asked in (
        ("in other letters", [value.upper() for value in values]),
        ("not at all", [f"zz{value[::-1]}" for value in values]),
    ):
        tell(name, ground(asked) - folding / OBJECTS, reading)
    print(f"  folding a chunk of {CHUNK:,} characters, once: {folding * 1e6:.0f} us")


def tell(name: str, took: float, reading: float) -> None:
    ratio = f"{took / reading:.1f}x ({took / 2 * 1e6:.1f} us each)"
    print(f"  {f'two keys of it that stand there {name}':52} {ratio}")


if __name__ == "__main__":
    is_good = print_quality() & print_names() & print_refused() & print_unsupported()
    print_cost()
    sys.exit(not is_good)
