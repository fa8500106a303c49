"""Which things are one, by their names: finds candidates, and has the rules decide."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Set
from dataclasses import dataclass, field
from itertools import chain, combinations, product
from typing import Final, NamedTuple

from trustgraph_prompt.graph.names import naming
from trustgraph_prompt.graph_store.name_forms import LONGEST, NameForm, name_form
from trustgraph_prompt.graph_store.name_rules import NameVerdict, Undecided, compare
from trustgraph_prompt.graph_store.view import Thing
from trustgraph_prompt.grounding.inflection import base_forms

LARGEST_BLOCK: Final = 50
"""Names of a block of which all pairs are compared; in a larger one, sorted, each with the next ones."""

NEIGHBOURS: Final = 10
"""How many names of a larger block each is compared with, and how many longer names a part may stand for."""

_MOST_NAMES, _MOST_WORDS = 8, 6  # names of a thing, and words of a name, by which candidates are found


class Pair(NamedTuple):
    """Two things by their IRIs, and what the rules say of them."""

    one: str
    other: str
    verdict: NameVerdict


@dataclass(slots=True)
class Resolution:
    """The things that are the same, and the pairs that a person must decide."""

    same: list[Pair] = field(default_factory=list)
    open: list[Pair] = field(default_factory=list)
    compared: int = 0


def resolve_names(things: Iterable[Thing], apart: Set[frozenset[str]] = frozenset()) -> Resolution:
    """Compare things by their names; blank nodes are left out.

    `apart` has the pairs of IRIs that a person keeps apart: they are neither merged nor asked about.
    """
    resolver = _Resolver(things, apart)
    resolver.resolve()
    return resolver.found


def things_named(texts: Iterable[str], things: Collection[Thing]) -> dict[str, str]:
    """The IRIs of the things whose names texts are, by the IRI that they would get or by the rules.

    What the rules find for several things is the name of none.
    """
    by_iri = {iri: thing.iri for thing in things for iri in thing.iris}
    by_words: dict[tuple[str, ...], list[tuple[str, NameForm]]] = defaultdict(list)
    for thing in things:
        for form in filter(None, map(name_form, thing.names[:_MOST_NAMES])):
            by_words[form.words].append((thing.iri, form))

    def by_rule(text: str) -> set[str]:
        if not (form := name_form(text)):
            return set()
        alike = by_words.get(form.words, [])[:LARGEST_BLOCK]
        verdicts = ((iri, compare(form, other, is_one_type=False)) for iri, other in alike)
        return {iri for iri, verdict in verdicts if verdict and verdict.is_same}

    named, found = naming(), {}
    for text in {text for text in texts if len(text) <= LONGEST}:
        if own := by_iri.get(named(text)):
            found[text] = own
        elif len(same := by_rule(text)) == 1:
            found[text] = same.pop()
    return found


class _NamedThing:
    def __init__(self, thing: Thing) -> None:
        self.iris = thing.iris
        self.types = frozenset(each.casefold() for each in thing.types)
        self.forms = [form for name in thing.names[:_MOST_NAMES] if (form := name_form(name))]

    def compare(self, other: _NamedThing) -> NameVerdict | None:
        """Compare all names of both: those of one thing are all the same, but for capitals or accents."""
        is_one_type = bool(self.types & other.types)
        if self.types and other.types and not is_one_type:
            return None
        verdicts = [compare(*both, is_one_type=is_one_type) for both in product(self.forms, other.forms)]
        found = [verdict for verdict in verdicts if verdict]
        best = max(found, key=lambda each: (each.is_same, each.score), default=None)
        are_alike = found == verdicts and all(
            each.is_same or each.reason is Undecided.WRITTEN for each in found
        )
        return best._replace(reason=Undecided.CHAIN) if best and best.is_same and not are_alike else best


class _Resolver:
    def __init__(self, things: Iterable[Thing], apart: Set[frozenset[str]]) -> None:
        self.found = Resolution()
        self._apart = apart
        named = (thing for thing in things if not thing.iri.startswith("_:"))
        candidates = ((thing.iri, _NamedThing(thing)) for thing in named)
        self._candidates = {iri: candidate for iri, candidate in candidates if candidate.forms}
        self._verdicts: dict[tuple[str, str], NameVerdict] = {}

    def resolve(self) -> None:
        for pair in sorted(self._pairs()):
            self._judge(pair)
        groups = connected(pair for pair, verdict in self._verdicts.items() if verdict.is_same)
        whole = [group for group in groups if self._are_all_same(group)]
        merged = {iri for group in whole for iri in group}
        for pair, verdict in self._verdicts.items():
            if not verdict.is_same:
                self.found.open.append(Pair(*pair, verdict))
            elif pair[0] not in merged:
                self.found.open.append(Pair(*pair, verdict._replace(reason=Undecided.CHAIN)))
        for first, *others in whole:
            self.found.same += [Pair(first, each, self._verdicts[first, each]) for each in others]

    def _judge(self, pair: tuple[str, str]) -> None:
        self.found.compared += 1
        one, other = (self._candidates[each] for each in pair)
        if self._apart and not self._apart.isdisjoint(map(frozenset, product(one.iris, other.iris))):
            return
        if verdict := one.compare(other):
            self._verdicts[pair] = verdict

    def _are_all_same(self, group: list[str]) -> bool:
        """Whether the rules join every two of a group, and not only along a chain."""
        if len(group) > LARGEST_BLOCK:
            return False
        pairs = [*combinations(group, 2)]
        for pair in pairs:
            if pair not in self._verdicts:
                self._judge(pair)
        return all(pair in self._verdicts and self._verdicts[pair].is_same for pair in pairs)

    def _pairs(self) -> set[tuple[str, str]]:
        """The candidates that are compared, each pair in ascending order."""
        blocks: dict[int, list[str]] = defaultdict(list)
        short: dict[str, list[str]] = defaultdict(list)
        long: dict[str, set[str]] = defaultdict(set)
        for iri, candidate in self._candidates.items():
            for key in {hash(key) for form in candidate.forms for key in _keys(form)}:
                blocks[key].append(iri)
            for form in candidate.forms:
                if len(form.words) == 1:
                    short[form.words[0]].append(iri)
                else:
                    for word in (form.words[0], form.words[-1], form.acronym):
                        long[word].add(iri)
        pairs = chain.from_iterable(map(self._within, blocks.values()))
        few = (word for word in short if len(long[word]) <= NEIGHBOURS)
        of_parts = chain.from_iterable(product(short[word][:NEIGHBOURS], long[word]) for word in few)
        return {(min(pair), max(pair)) for pair in chain(pairs, of_parts) if pair[0] != pair[1]}

    def _within(self, block: list[str]) -> Iterable[tuple[str, str]]:
        if len(block) <= LARGEST_BLOCK:
            return combinations(block, 2)
        ordered = sorted(block, key=lambda each: self._candidates[each].forms[0].words)
        return ((one, two) for at, one in enumerate(ordered) for two in ordered[at + 1 : at + 1 + NEIGHBOURS])


def _keys(form: NameForm) -> Iterator[object]:
    """The blocks in which a name meets others."""
    words = form.spelled
    yield from ("".join(words), "".join(form.words), "".join(sorted(form.content)))
    if len(words) == 1:
        yield "begins", words[0][:3]
        yield "ends", words[0][-4:]
        yield from (("form", base) for base in base_forms(words[0]))
    elif len(words) <= _MOST_WORDS:
        yield "initials", words[-1], words[0][0]
        for at, word in enumerate(words):
            yield "".join(words[:at]), "".join(words[at + 1 :]), word[0]


def connected(pairs: Iterable[Iterable[str]]) -> list[list[str]]:
    """Groups of what is connected by pairs, each in ascending order."""
    groups: dict[str, set[str]] = {}
    for one, other in pairs:
        small, large = sorted((groups.get(one, {one}), groups.get(other, {other})), key=len)
        if small is not large:
            large |= small
            groups.update(dict.fromkeys((one, other, *small), large))
    return [sorted(group) for group in {id(group): group for group in groups.values()}.values()]
