"""A graph as people see it: things with names, relations between them, and the passages that state them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class SourcePassage(NamedTuple):
    """A passage of a document. Offsets are code points of the document's text, the end exclusive."""

    document: str
    start: int
    end: int
    page: int | None = None
    heading: str | None = None


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """A document of the graph: its IRI, the names of its files, its format and its whole text."""

    iri: str
    files: tuple[str, ...]
    format: str
    text: str = field(repr=False)

    @property
    def name(self) -> str:
        """The name of its first file, or else its IRI."""
        return self.files[0] if self.files else self.iri


@dataclass(frozen=True, slots=True)
class Thing:
    """An entity. Things that are the same by `owl:sameAs` are one, whose `iris` are all of theirs.

    `iri` is the first of `iris`, `name` the name that most statements use, `names` all of them. `types` are
    the names of its classes.
    """

    iri: str
    name: str
    iris: tuple[str, ...]
    names: tuple[str, ...]
    types: tuple[str, ...] = ()


class Fact(NamedTuple):
    """A statement about a thing.

    `subject` is a thing's IRI; `object` is one too if `is_relation`, or else a text. `predicate` is a name,
    `prompts` are the ids of the prompts that stated it. `passages` are where its values stand in the text;
    `is_ungrounded` if one was looked up there and not found, `is_weak` if one was found only in part; a fact
    that is stated elsewhere without such a doubt is neither. `is_looked_up` if this was asked of all names in
    it. `chunks` are the passages that it was extracted from.
    """

    subject: str
    predicate: str
    object: str
    is_relation: bool
    passages: tuple[SourcePassage, ...]
    prompts: tuple[str, ...]
    chunks: tuple[SourcePassage, ...] = ()
    is_ungrounded: bool = False
    is_weak: bool = False
    is_looked_up: bool = True


class RefusedObject(NamedTuple):
    """An object that was refused: the passage it was extracted from, its text, and why."""

    passage: SourcePassage
    prompt: str
    object: str
    reason: str


class Cut(NamedTuple):
    """An answer that was truncated: objects may be missing."""

    passage: SourcePassage
    prompt: str


@dataclass(frozen=True, slots=True)
class GraphView:
    """All of a graph. `things` and `documents` are by IRI."""

    things: dict[str, Thing]
    facts: list[Fact]
    documents: dict[str, SourceDocument]
    refusals: list[RefusedObject]
    cuts: list[Cut]
