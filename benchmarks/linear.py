"""What must grow with its input and no faster, in native code: CPU time for ten times as much.

Tests count the steps of Python, and see nothing of what a regular expression, a validator or a copy takes.
Exits with 1 where anything grows by more than the bar. Reading is measured in hostile_reading.py.
"""

from __future__ import annotations

import gc
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial

from tests.support import hostile_passages
from tests.support.hostile_sources import HOSTILE, LARGE
from tests.support.stored_graph import Answer, Paper, relation
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.documents import Document
from trustgraph_prompt.documents.chunks import Size, chunks
from trustgraph_prompt.documents.markdown import heading_spans, markdown_places
from trustgraph_prompt.errors import ConfigError, LanguageError
from trustgraph_prompt.graph.statements import Statement
from trustgraph_prompt.graph_store.forget import forget
from trustgraph_prompt.graph_store.store import GraphStore
from trustgraph_prompt.grounding import Passage
from trustgraph_prompt.language import format, parse
from trustgraph_prompt.llm.openai.sse import EventStream
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.reader import read as read_answer

BAR = 30  # linear is 10, quadratic 100
ROUNDS = 5
AGAIN = 3  # times that work is measured which seems to grow too fast
MEGABYTE = 1_000_000
LEAST = 2e-4  # seconds, below which a measurement says nothing

PATTERN = Contract.from_schema({"pattern": "^(a+)+$"})
NAMES = Contract.from_schema({"patternProperties": {"^(a+)+$": {}}}, extra="ignore")
LINES = Contract.from_schema({"type": "object"}, format="jsonl")
REPAIRED = Contract.from_schema({"type": "object"}, format="jsonl", repair=True)
CONTAINS = Contract.from_schema(None, invariants=[" or ".join(["'zz' in a"] * 40)])
EQUALS = Contract.from_schema(None, invariants=[" and ".join(["a == b"] * 40)])


def contains(size: int) -> None:
    CONTAINS.issues({"a": "z" + "xz" * size})


def equals(size: int) -> None:
    EQUALS.issues({"a": [[1]] * size, "b": [[1]] * size})


def split(pattern: str, format: str, size: int) -> None:
    text = (pattern * (size // len(pattern) + 1))[:size]
    deque(chunks(Document("d", text, format), Size(2_000), Size(200)), maxlen=0)


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


@cache
def same_facts(chunks: int) -> tuple[str, list[Statement]]:
    """A document and its statements: each chunk states the same ten facts."""
    facts = {relation(f"Thing {n}", "is related to", f"Thing {n + 1}"): () for n in range(10)}
    paper = Paper("d", "\n" * chunks, {n: [Answer("p", facts)] for n in range(chunks)})
    return paper.iri, [*paper.statements()]


def forgotten(size: int) -> None:
    document, statements = same_facts(size)
    with GraphStore.in_memory() as store:
        store.add(statements)
        forget(store, document)


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
    "an answer that ends with blank lines": (
        lambda size: read_answer('{"a": 1}\n' + "\n" * size + "x", LINES),
        MEGABYTE,
    ),
    "a brace before digits, repaired": (
        lambda size: read_answer("{a:" + "0" * size, REPAIRED),
        MEGABYTE // 10,
    ),
    "a document of one word": (partial(split, "a", "text"), MEGABYTE),
    "a document of accents": (partial(split, "\u0301", "text"), MEGABYTE),
    "a document of prose in one paragraph": (
        partial(split, "The chalk is soft, and white. ", "text"),
        MEGABYTE,
    ),
    "a document of nested quotes": (partial(split, "> " * 50 + "a\n", "markdown"), MEGABYTE),
    "a document of open brackets": (partial(split, "[", "markdown"), MEGABYTE),
    "Markdown of blank lines": (lambda size: markdown_places("\n" * size), MEGABYTE),
    "Markdown of fences": (lambda size: markdown_places("```\n" * (size // 4)), MEGABYTE),
    "Markdown of one line of backticks": (lambda size: markdown_places("`" * size + " `"), MEGABYTE),
    "Markdown of one fence of tildes": (lambda size: markdown_places("~" * size), MEGABYTE),
    "headings of one line of backticks": (
        lambda size: deque(heading_spans("`" * size + " `"), maxlen=0),
        MEGABYTE,
    ),
    "Markdown of headings": (lambda size: markdown_places("# #\na\n=\n" * (size // 8)), MEGABYTE),
    **{f"refused: {name}": (partial(read, text), MEGABYTE) for name, text in HOSTILE.items()},
    **{f"formatted: {name}": (partial(rewrite, text), MEGABYTE // 4) for name, text in LARGE.items()},
    **{
        f"looked for: {name}": (partial(look, made), MEGABYTE // 8)
        for name, made in hostile_passages.HOSTILE.items()
    },
    "a document forgotten, of chunks with the same facts": (forgotten, 300),
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
        print(f"  {name:52} {little * 1e3:8.2f} ms {much * 1e3:8.1f} ms {growth:6.1f}x")
        if growth > BAR:
            over.append(name)
    if over:
        sys.exit(f"  over the bar: {', '.join(over)}")


if __name__ == "__main__":
    main()
