"""What must grow with its input and no faster, in native code: CPU time for ten times as much.

Tests count the steps of Python, and see nothing of what a regular expression, a validator or a copy takes.
Exits with 1 where anything grows by more than the bar. Reading is measured in hostile_reading.py.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from tests.support import hostile_passages
from tests.support.hostile_sources import HOSTILE, LARGE
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import ConfigError, LanguageError
from trustgraph_prompt.grounding import Passage
from trustgraph_prompt.language import format, parse
from trustgraph_prompt.llm.openai.sse import EventStream
from trustgraph_prompt.prompts import PromptDefinition

BAR = 30  # linear is 10, quadratic 100
ROUNDS = 5
AGAIN = 3  # times that work is measured which seems to grow too fast
MEGABYTE = 1_000_000
LEAST = 2e-4  # seconds, below which a measurement says nothing

PATTERN = Contract.from_schema({"pattern": "^(a+)+$"})
NAMES = Contract.from_schema({"patternProperties": {"^(a+)+$": {}}}, extra="ignore")
CONTAINS = Contract.from_schema(None, invariants=[" or ".join(["'zz' in a"] * 40)])
EQUALS = Contract.from_schema(None, invariants=[" and ".join(["a == b"] * 40)])


def contains(size: int) -> None:
    CONTAINS.issues({"a": "z" + "xz" * size})


def equals(size: int) -> None:
    EQUALS.issues({"a": [[1]] * size, "b": [[1]] * size})


def events(chunk: bytes, size: int) -> None:
    stream = EventStream()
    for _ in range(size):
        stream.feed(chunk)


def refused(item: Callable[[int], object], size: int) -> None:
    entry = {"dialect": "jinja", "prompt": "x", "aliases": [item(n) for n in range(size)]}
    with suppress(ConfigError):
        PromptDefinition.from_entry("p", entry)


def read(text: Callable[[int], str], size: int) -> None:
    with suppress(LanguageError):
        parse(text(size))


def rewrite(text: Callable[[int], str], size: int) -> None:
    format(text(size))


def look(made: Callable[[int], tuple[str, str]], size: int) -> None:
    text, value = made(size)
    Passage(text).find(value)


#: What is done, and the larger of its two sizes.
WORK: dict[str, tuple[Callable[[int], object], int]] = {
    "a hostile pattern": (lambda size: PATTERN.issues("a" * size + "!"), MEGABYTE),
    "a hostile pattern for names": (lambda size: NAMES.conform({"a" * size + "!": 1}), MEGABYTE),
    "the largest rule, `in`": (contains, MEGABYTE),
    "the largest rule, `==`": (equals, MEGABYTE // 20),
    "events in single bytes": (partial(events, b"x"), MEGABYTE),
    "events in lines": (partial(events, b"data: x\n"), MEGABYTE // 8),
    "an entry of wrong aliases": (partial(refused, lambda n: {"n": n}), MEGABYTE // 20),
    "an entry of aliases, one of them twice": (partial(refused, lambda n: str(max(n, 1))), MEGABYTE // 20),
    **{f"refused: {name}": (partial(read, text), MEGABYTE) for name, text in HOSTILE.items()},
    **{f"formatted: {name}": (partial(rewrite, text), MEGABYTE // 4) for name, text in LARGE.items()},
    **{
        f"looked for: {name}": (partial(look, made), MEGABYTE // 8)
        for name, made in hostile_passages.HOSTILE.items()
    },
}


def seconds(work: Callable[[int], object], size: int) -> float:
    """The best of some rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        gc.collect()
        started = time.process_time()
        work(size)
        best = min(best, time.process_time() - started)
    return best


def measured(work: Callable[[int], object], size: int) -> tuple[float, float]:
    """Seconds of a tenth and of the whole; again where they seem to grow too fast, as on a busy machine."""
    little = much = float("inf")
    for _ in range(AGAIN):
        little, much = min(little, seconds(work, size // 10)), min(much, seconds(work, size))
        if much <= BAR * max(little, LEAST):
            break
    return little, much


def main() -> None:
    over = []
    print(f"CPU time for ten times as much (bar: {BAR}x)\n")
    for name, (work, size) in WORK.items():
        work(size // 20)  # what is loaded or compiled once
        little, much = measured(work, size)
        growth = much / max(little, LEAST)
        print(f"  {name:42} {little * 1e3:8.2f} ms {much * 1e3:8.1f} ms {growth:6.1f}x")
        if growth > BAR:
            over.append(name)
    if over:
        sys.exit(f"  over the bar: {', '.join(over)}")


if __name__ == "__main__":
    main()
