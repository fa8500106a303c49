"""Graphs of any size for the tests of pages: made sentences, in which every relation stands."""

from __future__ import annotations

import hashlib
import random
from itertools import cycle

from trustgraph_prompt.graph_store.view import (
    Cut,
    Fact,
    GraphView,
    RefusedObject,
    SourceDocument,
    SourcePassage,
    Thing,
)

TYPES = ["Person", "Place", "Organisation", "Event", "Idea", "Species", "Instrument", "Work"]
VERBS = ["studied", "described", "lived in", "worked with", "wrote about", "discovered"]
NAMES = [
    "Ada Lovelace",
    "Globigerina",
    "Thomas Huxley",
    "東京大学",
    "Norwich 🚀 Society",
    "Chalk",
    "Émile Zola",
]
FILLERS = [
    "🦀 It rained. ",
    "Nobody knows why — 誰も知らない。 ",
    "The rest is in the notes.\n\n",
    "So it was.\n",
]
GROUP = 25
"""So many things are related mostly among themselves."""


def made_graph(things: int, relations: int, documents: int = 1, seed: int = 1) -> GraphView:
    """Return a graph whose texts hold a sentence for each relation, after emoji and in two scripts.

    Each relation has its two names as passages. Each twentieth thing has a definition without a passage.
    One answer in a hundred is cut, and one object refused.
    """
    chance = random.Random(seed)
    iris = [f"https://example.org/e/{number}" for number in range(things)]
    names = [f"{name} {number}" for number, name in zip(range(things), cycle(NAMES), strict=False)]
    each_thing = {
        iri: Thing(iri, name, (iri,), (name, name.upper()), (TYPES[number // GROUP % len(TYPES)],))
        for number, (iri, name) in enumerate(zip(iris, names, strict=True))
    }
    texts = [_Text() for _ in range(documents)]
    stated: list[tuple[int, int, str, int, list[tuple[int, int]]]] = []
    for number in range(relations):
        a = number if number < things else chance.randrange(things)
        near = a // GROUP * GROUP + chance.randrange(GROUP)
        b = chance.randrange(things) if chance.random() < 0.08 else min(near, things - 1)
        verb, where = VERBS[number % len(VERBS)], number * documents // relations
        stated.append((a, b, verb, where, texts[where].say(names[a], verb, names[b], chance)))
    sources = [
        SourceDocument(
            f"urn:sha256:{hashlib.sha256(text.text.encode()).hexdigest()}",
            (f"notes-{n}.md",),
            "markdown",
            text.text,
        )
        for n, text in enumerate(texts, 1)
    ]

    def passage(where: int, start: int, end: int) -> SourcePassage:
        return SourcePassage(
            sources[where].iri, start, end, start // 3000 + 1, f"Chapter {start // 9000 + 1}"
        )

    facts = [
        Fact(
            iris[a],
            verb,
            iris[b],
            True,
            tuple(passage(where, *span) for span in spans),
            ("extract-relationships",),
        )
        for a, b, verb, where, spans in stated
    ]
    facts += [
        Fact(
            iris[number],
            "definition",
            f"Number {number} of the things.",
            False,
            (),
            ("extract-definitions",),
            (passage(0, 0, 300),),
            True,
        )
        for number in range(0, things, 20)
    ]
    refused = [
        RefusedObject(
            passage(n % documents, 0, 200),
            "extract-relationships",
            '{"subject": "Zeus"}',
            "/subject: is not in the text: Zeus",
        )
        for n in range(relations // 100)
    ]
    cuts = [Cut(passage(n % documents, 200, 400), "extract-definitions") for n in range(relations // 100)]
    return GraphView(each_thing, facts, {source.iri: source for source in sources}, refused, cuts)


class _Text:
    """A text to which sentences are added."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def say(self, subject: str, verb: str, object: str, chance: random.Random) -> list[tuple[int, int]]:
        """Add a sentence and return where its subject and its object stand."""
        self._add(chance.choice(FILLERS))
        spans = [self._add(subject)]
        self._add(f" {verb} ")
        spans.append(self._add(object))
        self._add(". ")
        return spans

    def _add(self, part: str) -> tuple[int, int]:
        start = self._length
        self._parts.append(part)
        self._length += len(part)
        return start, self._length
