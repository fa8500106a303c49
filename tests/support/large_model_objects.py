"""Objects as large models write them, each true of its passage: `tests/data/large_model_objects.jsonl`.

A line with a `text` is a short passage of its own; the others name one of those, or a file in
`benchmarks/passages/` or `demo/`. The names of `translated` objects are in another language than the passage.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

from trustgraph_prompt import package_data
from trustgraph_prompt.contract.support import support_flaws
from trustgraph_prompt.grounding import MatchKind, Passage
from trustgraph_prompt.grounding.sentences import SENTENCE_END
from trustgraph_prompt.prompts import PromptSet, files
from trustgraph_prompt.reader import read

MOST_REFUSED: Final = 0.03
"""The share of the objects that may be refused, without translated ones."""

TRANSLATED: Final = "translated"

_ROOT = Path(__file__).parents[2]
_FILE = _ROOT / "tests" / "data" / "large_model_objects.jsonl"


class LargeModelObject(NamedTuple):
    """What a large model wrote of a passage, and how it differs from what stands there."""

    passage: str
    prompt: str
    object: dict[str, Any]
    kind: str


@dataclass
class Count:
    """What became of the objects of a kind."""

    objects: int = 0
    marked: int = 0
    """Let through with a value that stands there in part or, where the schema says `mark`, not at all."""
    refused: tuple[str, ...] = ()
    """Why, of each."""


@cache
def objects() -> tuple[LargeModelObject, ...]:
    return tuple(
        LargeModelObject(
            passages()[line["passage"]], **{name: line[name] for name in ("prompt", "object", "kind")}
        )
        for line in _lines()
        if "object" in line
    )


@cache
def passages() -> dict[str, str]:
    """By the name of the file, or of the line."""
    paths = [*(_ROOT / "benchmarks" / "passages").glob("*.txt"), _ROOT / "demo" / "on-a-piece-of-chalk.txt"]
    short = {line["passage"]: line["text"] for line in _lines() if "text" in line}
    return {path.name: path.read_text("utf-8") for path in paths} | short


def counts(asked: Iterable[LargeModelObject]) -> dict[str, Count]:
    """By kind. Each object is read as an answer to its prompt about its passage, with a quote of it."""
    prompts = _bundled().prompts
    by_kind: dict[str, Count] = {}
    for each in asked:
        count = by_kind.setdefault(each.kind, Count())
        said = {"quote": _quote(each), **each.object}
        outcome = read(json.dumps(said), prompts[each.prompt].contract, terms={"text": each.passage})
        count.objects += 1
        count.refused += tuple(str(issue) for one in outcome.rejected for issue in one.issues)
        found = [where for one in outcome.grounding or () for where in one.values()]
        count.marked += any(where is None or where.kind is MatchKind.PART for where in found)
    return by_kind


@cache
def refused_with_each_sentence() -> tuple[tuple[LargeModelObject, list[bool]], ...]:
    """Whether each object is refused by what it says, with each sentence of its passage as its quote."""
    return tuple((each, [refused for _, refused in _by_sentence(each)]) for each in objects())


def _quote(each: LargeModelObject) -> str:
    """The first sentence of the passage that bears the object out: it was written down without a quote."""
    return next(sentence for sentence, refused in _by_sentence(each) if not refused)


def _by_sentence(each: LargeModelObject) -> Iterator[tuple[str, bool]]:
    """The sentences of the passage, and whether the object is refused with each."""
    clause = _bundled().prompts[each.prompt].graph
    roles, passage = tuple(clause.roles) if clause else (), _indexed(each.passage)
    ends = [0, *(end.end() for end in SENTENCE_END.finditer(passage.text)), len(passage.text)]
    for at, end in pairwise(ends):
        if sentence := passage.text[at:end].strip():
            start = passage.text.index(sentence, at)
            quotes = [(passage, [(start, start + len(sentence))])]
            yield sentence, any(support_flaws(each.object, roles, quotes, None))


@cache
def _bundled() -> PromptSet:
    return PromptSet.build(files.load(package_data.templates()))


@cache
def _indexed(text: str) -> Passage:
    return Passage(text)


@cache
def _lines() -> tuple[dict[str, Any], ...]:
    return tuple(map(json.loads, _FILE.read_text("utf-8").splitlines()))
