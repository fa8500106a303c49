"""Statements of documents as a store holds them (docs/how-to/graph-store.md)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from trustgraph_prompt.graph import vocabulary as v
from trustgraph_prompt.graph.names import naming
from trustgraph_prompt.graph.provenance import GRAPH_SOURCE
from trustgraph_prompt.graph.statements import Iri, Literal, Statement, TripleTerm
from trustgraph_prompt.graph_store.store import GRAPH_SAME

NAMED: Final = naming()
_BASE: Final = "https://trustgraph.ai"


def entity(name: str) -> Iri:
    return NAMED(name)


def relation(subject: str, predicate: str, object: str) -> Statement:
    return Statement(entity(subject), entity(predicate), entity(object))


def definition(subject: str, text: str) -> Statement:
    return Statement(entity(subject), v.DEFINITION, Literal(text))


def type_(subject: str, class_: str) -> Statement:
    return Statement(entity(subject), v.TYPE, entity(class_))


def label(name: str) -> Statement:
    return Statement(entity(name), v.LABEL, Literal(name))


@dataclass
class Answer:
    """What one answer says of a line: `facts`, each with the texts that it quotes, `weak` ones in part."""

    prompt: str
    facts: Mapping[Statement, tuple[str, ...]]
    labels: Sequence[str] = ()
    refused: dict[str, str] = field(default_factory=dict)
    truncated: bool = False
    weak: Sequence[Statement] = ()


@dataclass
class Paper:
    """A document with one chunk per line; the answers are by the number of the line, from 0."""

    file: str
    text: str
    answers: dict[int, Sequence[Answer]]
    pages: bool = False

    @property
    def iri(self) -> Iri:
        return Iri(f"urn:sha256:{hashlib.sha256(self.text.encode()).hexdigest()}")

    def statements(self) -> Iterator[Statement]:
        document = self.iri
        yield _about(document, v.TYPE, v.DIGITAL_DOCUMENT)
        yield _about(document, v.NAME, Literal(self.file))
        yield _about(document, v.ENCODING_FORMAT, Literal("text"))
        yield _about(document, v.SHA256, Literal(document.removeprefix("urn:sha256:")))
        yield _about(document, v.TEXT, Literal(self.text))
        start = 0
        for number, line in enumerate(self.text.splitlines(keepends=True)):
            chunk = Iri(f"{document}#char={start},{start + len(line)}")
            for answer in self.answers.get(number, ()):
                yield _about(chunk, v.WAS_DERIVED_FROM, document)
                yield _about(chunk, v.CHAR_OFFSET, _number(start))
                yield _about(chunk, v.CHAR_LENGTH, _number(len(line)))
                yield from self._answer(answer, chunk, start, line, number + 1)
            start += len(line)

    def _answer(self, answer: Answer, chunk: Iri, offset: int, line: str, page: int) -> Iterator[Statement]:
        id = _hash(chunk, answer.prompt)
        subgraph, activity = Iri(f"{_BASE}/subgraph/{id}"), Iri(f"{_BASE}/activity/{id}")
        agent = Iri(f"{_BASE}/agent/extract")
        yield _about(activity, v.TYPE, v.ACTIVITY)
        yield _about(activity, v.USED, chunk)
        yield _about(activity, v.PROMPT, Literal(answer.prompt))
        yield _about(activity, v.WAS_ASSOCIATED_WITH, agent)
        yield _about(agent, v.TYPE, v.AGENT)
        yield _about(agent, v.LABEL, Literal("extract"))
        if answer.truncated:
            yield _about(activity, v.TRUNCATED, Literal("true", v.BOOLEAN))
        for number, (object, reason) in enumerate(answer.refused.items()):
            refused = Iri(f"{activity}#refused-{number}")
            yield _about(activity, v.REFUSED, refused)
            yield _about(refused, v.REFUSED_OBJECT, Literal(object))
            yield _about(refused, v.REASON, Literal(reason))
        stated = [*answer.facts, *map(label, answer.labels)]
        for fact in stated:
            yield fact
            yield _about(subgraph, v.CONTAINS, _quoted(fact))
        if stated:
            yield _about(subgraph, v.TYPE, v.SUBGRAPH)
            yield _about(subgraph, v.WAS_DERIVED_FROM, chunk)
            yield _about(subgraph, v.WAS_GENERATED_BY, activity)
        for fact, quotes in answer.facts.items():
            reifier = Iri(f"{_BASE}/statement/{_hash(id, *fact[:3])}")
            yield _about(reifier, v.REIFIES, _quoted(fact))
            if not quotes:
                yield _about(reifier, v.UNGROUNDED, Literal("true", v.BOOLEAN))
                yield _about(reifier, v.WAS_DERIVED_FROM, chunk)
            if fact in answer.weak:
                yield _about(reifier, v.WEAK, Literal("true", v.BOOLEAN))
            for quote in quotes:
                start = offset + line.index(quote)
                target = Iri(f"{_BASE}/target/{_hash(chunk, start, quote)}")
                position, exact = Iri(f"{target}#position"), Iri(f"{target}#quote")
                yield _about(reifier, v.HAS_TARGET, target)
                yield _about(target, v.HAS_SOURCE, self.iri)
                yield _about(target, v.HAS_SELECTOR, position)
                yield _about(target, v.HAS_SELECTOR, exact)
                yield _about(position, v.TYPE, v.TEXT_POSITION_SELECTOR)
                yield _about(position, v.START, Literal(str(start), v.NON_NEGATIVE_INTEGER))
                yield _about(position, v.END, Literal(str(start + len(quote)), v.NON_NEGATIVE_INTEGER))
                yield _about(exact, v.TYPE, v.TEXT_QUOTE_SELECTOR)
                yield _about(exact, v.EXACT, Literal(quote))
                if self.pages:
                    yield _about(target, v.PAGE_NUMBER, _number(page))
                    yield _about(target, v.HEADING, Literal(f"Line {page}"))


def same(one: str, other: str, reason: str = "same words", score: float = 1.0) -> list[Statement]:
    """That two things are the same, as `graph resolve` says it."""
    said = Statement(entity(one), v.SAME_AS, entity(other), GRAPH_SAME)
    reifier = Iri(f"{_BASE}/statement/{_hash(*said[:3])}")
    return [
        said,
        Statement(reifier, v.REIFIES, _quoted(said), GRAPH_SAME),
        Statement(reifier, v.REASON, Literal(reason), GRAPH_SAME),
        Statement(reifier, v.SCORE, Literal(str(score), v.DOUBLE), GRAPH_SAME),
    ]


def _about(subject: Iri, predicate: Iri, object: Iri | Literal | TripleTerm) -> Statement:
    return Statement(subject, predicate, object, GRAPH_SOURCE)


def _quoted(fact: Statement) -> TripleTerm:
    assert not isinstance(fact.object, TripleTerm)
    return TripleTerm(fact.subject, fact.predicate, fact.object)


def _number(value: int) -> Literal:
    return Literal(str(value), v.INTEGER)


def _hash(*parts: object) -> str:
    return hashlib.sha256(ascii(parts).encode()).hexdigest()[:32]


CHALK: Final = Paper(
    "chalk.txt",
    "Chalk 🦕 is a soft rock of England.\nThe Needles of 白亜 are chalk.\nNothing here.\n",
    {
        0: [
            Answer(
                "definitions",
                {definition("Chalk", "A soft rock."): ("Chalk",), type_("Chalk", "Rock"): ("Chalk",)},
                ["Chalk", "Rock"],
            ),
            Answer(
                "relationships",
                {relation("Chalk", "found in", "England"): ("Chalk", "England")},
                ["Chalk", "found in", "England"],
                {'{"subject": "moon"}': "`moon` does not occur in the text"},
            ),
        ],
        1: [
            Answer(
                "relationships",
                {
                    relation("Needles", "made of", "Chalk"): ("Needles", "chalk"),
                    relation("Needles", "part of", "Isle of Wight"): (),
                },
                ["Needles", "made of", "Chalk", "part of", "Isle of Wight"],
                truncated=True,
            )
        ],
    },
    pages=True,
)
ROCKS: Final = Paper(
    "rocks.md",
    "England has chalk.\n",
    {
        0: [
            Answer(
                "relationships",
                {
                    relation("Chalk", "found in", "England"): ("chalk", "England"),
                    relation("England", "part of", "Europe"): ("England",),
                },
                ["Chalk", "found in", "England", "part of", "Europe"],
            )
        ]
    },
)
