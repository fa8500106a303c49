"""Joins the things of a store that the rules, or a person, say are one; and takes them apart again."""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Final, NamedTuple

import pyoxigraph as ox

from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.graph import vocabulary as v
from trustgraph_prompt.graph.provenance import hash_of
from trustgraph_prompt.graph.statements import Iri, Literal, Statement, TripleTerm
from trustgraph_prompt.graph_store.name_rules import NameVerdict, Same
from trustgraph_prompt.graph_store.read_view import read_view
from trustgraph_prompt.graph_store.same_names import Pair, Resolution, connected, resolve_names
from trustgraph_prompt.graph_store.store import GRAPH_DIFFERENT, GRAPH_OF, GRAPH_SAME, GraphStore
from trustgraph_prompt.graph_store.view import Fact, GraphView, SourceDocument
from trustgraph_prompt.replaced_file import replaced

_DEFINITIONS = frozenset(("definition", "description"))
_AROUND, _LONGEST = 60, 1_000  # characters of a passage around a name, and of a definition
_COLUMNS: Final = ("decision", "reason", "score", *(
    f"{what} {n}" for what in ("name", "types", "definition", "passage", "iri") for n in (1, 2)
))  # fmt: skip
_COLUMNS_READ: Final = frozenset(("decision", "iri 1", "iri 2"))
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


class ThingSummary(NamedTuple):
    """What a person needs to know of a thing."""

    name: str
    types: str
    definition: str
    passage: str
    iri: str


@dataclass(frozen=True, slots=True)
class Resolved:
    """What the rules found in a graph."""

    view: GraphView
    found: Resolution

    def described(self, pairs: Iterable[Pair]) -> Iterator[tuple[ThingSummary, ThingSummary, NameVerdict]]:
        """The things of pairs, with a definition and a passage of each."""
        facts: dict[str, list[Fact]] = defaultdict(list)
        for fact in self.view.facts:
            facts[fact.subject].append(fact)
            if fact.is_relation:
                facts[fact.object].append(fact)
        for one, other, verdict in pairs:
            yield self._describe(one, facts[one]), self._describe(other, facts[other]), verdict

    def _describe(self, iri: str, facts: list[Fact]) -> ThingSummary:
        thing = self.view.things[iri]
        text = ""
        if place := self._place(thing.name, facts):
            document, start = place
            quoted = document.text[max(0, start - _AROUND) : start + 2 * _AROUND]
            text = f"{', '.join(document.files)}: …{' '.join(quoted.split())}…"
        texts = (f.object for f in facts if not f.is_relation and f.predicate in _DEFINITIONS)
        return ThingSummary(thing.name, ", ".join(thing.types), next(texts, "")[:_LONGEST], text, iri)

    def _place(self, name: str, facts: list[Fact]) -> tuple[SourceDocument, int] | None:
        """Where a thing is named, or else where its first fact stands: a quote may have only a pronoun."""
        named, first = re.compile(r"\s+".join(map(re.escape, name.split())), re.IGNORECASE), None
        for passage in (each for fact in facts for each in (*fact.passages, *fact.chunks)):
            document = self.view.documents[passage.document]
            if found := named.search(document.text, passage.start, passage.end):
                return document, found.start()
            first = first or (document, passage.start)
        return first


def resolve(store: GraphStore, *, dry_run: bool = False) -> Resolved:
    """Join the things of a store that the rules say are one. With `dry_run` nothing is written."""
    view = read_view(store)
    found = resolve_names(view.things.values(), store.pairs(v.DIFFERENT_FROM))
    if not dry_run:
        store.add(statement for each in found.same for statement in _same(each))
    return Resolved(view, found)


def undo(store: GraphStore) -> int:
    """Take everything apart again that was joined, also by a person. Returns how many pairs there were."""
    count = len(store.pairs(v.SAME_AS))
    store.dataset.remove_graph(ox.NamedNode(GRAPH_SAME))
    return count


def write_pairs(path: Path, resolved: Resolved) -> None:
    """Write the open pairs to a CSV file with an empty column `decision`; then those merged, with `same`.

    Decisions that the file had are there until the new one is complete. Raises `StoreError`.
    """
    with replaced(path) as part, part.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(_COLUMNS)
        for decision, pairs in (("", resolved.found.open), ("same", resolved.found.same)):
            for one, other, verdict in resolved.described(pairs):
                each = (text for both in zip(one, other, strict=True) for text in both)
                cells = (f"'{cell}" if cell.startswith(_FORMULA) else cell for cell in each)
                writer.writerow((decision, verdict.reason, verdict.score, *cells))


def apply_decisions(store: GraphStore, path: Path, *, then_replaced: bool = False) -> tuple[int, int]:
    """Join and separate what a person decided in a CSV file; returns how many pairs of each are new.

    Of the columns `decision`, `iri 1` and `iri 2` are read. What was joined before, and is in the way of a
    decision, is taken apart. Nothing is written unless all rows are valid, and if the file is then replaced,
    unless all columns are those of `write_pairs`. Raises `ConfigError`.
    """
    known = {iri for each in read_view(store).things.values() for iri in each.iris}
    decided = _read_decisions(path, known, then_replaced=then_replaced)
    was_same, was_apart = store.pairs(v.SAME_AS), store.pairs(v.DIFFERENT_FROM)
    joined = {pair for pair, is_same in decided.items() if is_same}
    apart = (was_apart | decided.keys()) - joined
    # The rules may join two things through others that a person now keeps apart: of the pairs that were
    # joined before, those of either thing give way.
    kept = was_same - apart
    contradicted = {iri for pair in _joined(kept | joined, apart) for iri in pair}
    same = joined | {pair for pair in kept if contradicted.isdisjoint(pair)}
    if still_joined := _joined(same, apart):
        found = " and ".join(sorted(still_joined[0]))
        raise ConfigError("joins, through others, what is kept apart", where=str(path), found=found)
    for pair in was_same - same:
        _remove(store, v.SAME_AS, pair)
    for pair in was_apart - apart:
        _remove(store, v.DIFFERENT_FROM, pair)
    new_same, new_apart = same - was_same, apart - was_apart
    for one, other in map(sorted, new_same):
        store.add(_same(Pair(one, other, NameVerdict(Same.PERSON))))
    for one, other in map(sorted, new_apart):
        store.add([Statement(Iri(one), v.DIFFERENT_FROM, Iri(other), GRAPH_DIFFERENT)])
    return len(new_same), len(new_apart)


def _joined(same: Set[frozenset[str]], apart: Set[frozenset[str]]) -> list[frozenset[str]]:
    """The pairs of `apart` that are one, through others."""
    groups = {iri: number for number, group in enumerate(connected(same)) for iri in group}
    return [pair for pair in apart if pair <= groups.keys() and len({groups[iri] for iri in pair}) == 1]


def _read_decisions(path: Path, known: Set[str], *, then_replaced: bool) -> dict[frozenset[str], bool]:
    """The decided pairs, and whether they are the same. Raises `ConfigError`."""
    decisions: dict[frozenset[str], bool] = {}
    try:
        text = path.read_text("utf-8-sig", errors="replace")  # the IRIs are ASCII, whatever wrote the names
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path)) from error
    separator = max(",;", key=text.partition("\n")[0].count)  # beside decimal commas, spreadsheets write `;`
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        if missing := _COLUMNS_READ.difference(rows.fieldnames or ()):
            expected = ", ".join(sorted(missing))
            raise ConfigError("columns are missing", where=str(path), expected=expected)
        if then_replaced and (own := [each for each in rows.fieldnames or () if each not in _COLUMNS]):
            message = "has columns of your own, which would be lost: give --open another name"
            raise ConfigError(message, where=str(path), found=", ".join(own))
        for number, row in enumerate(rows, 2):
            where = f"{path}, row {number}"
            decision, *iris = ((row[each] or "").strip() for each in ("decision", "iri 1", "iri 2"))
            if not decision:
                continue
            if decision.casefold() not in ("same", "different"):
                expected = "same, different or nothing"
                raise ConfigError("no such decision", where=where, found=decision, expected=expected)
            pair, is_same = frozenset(iris), decision.casefold() == "same"
            if len(pair) < 2 or not pair <= known:
                raise ConfigError("these are not two things of the store", where=where, found=", ".join(iris))
            if decisions.setdefault(pair, is_same) != is_same:
                raise ConfigError("an earlier row decides otherwise", where=where, found=decision)
    except csv.Error as error:
        raise ConfigError(f"cannot be read: {error}", where=str(path)) from error
    return decisions


def _remove(store: GraphStore, predicate: Iri, pair: frozenset[str]) -> None:
    """Remove a statement about two things, in both directions, and what is said of it."""
    for one, other in permutations(map(ox.NamedNode, pair)):
        said = ox.Triple(one, ox.NamedNode(predicate), other)
        graph = ox.NamedNode(GRAPH_OF[predicate])
        store.dataset.remove(ox.Quad(one, ox.NamedNode(predicate), other, graph))
        for reifies in [*store.dataset.quads_for_pattern(None, ox.NamedNode(v.REIFIES), said, graph)]:
            for about in [*store.dataset.quads_for_pattern(reifies.subject, None, None, graph)]:
                store.dataset.remove(about)


def _same(pair: Pair) -> Iterator[Statement]:
    said = TripleTerm(Iri(pair.one), v.SAME_AS, Iri(pair.other))
    reifier = Iri(f"urn:trustgraph-prompt:same:{hash_of(*said)}")
    yield Statement(said.subject, said.predicate, said.object, GRAPH_SAME)
    yield Statement(reifier, v.REIFIES, said, GRAPH_SAME)
    yield Statement(reifier, v.REASON, Literal(str(pair.verdict.reason)), GRAPH_SAME)
    yield Statement(reifier, v.SCORE, Literal(str(pair.verdict.score), v.DOUBLE), GRAPH_SAME)
