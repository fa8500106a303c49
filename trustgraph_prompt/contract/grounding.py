"""A contract that knows the terms an answer was asked with: what it vouches for stands in their texts."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import islice
from typing import Any, Final

from trustgraph_prompt.contract.contract import Contract, JsonSchema
from trustgraph_prompt.contract.explain import MAX_ISSUES, show
from trustgraph_prompt.contract.grounded_keys import Source
from trustgraph_prompt.contract.limits import TooCostly
from trustgraph_prompt.contract.references import Path, References
from trustgraph_prompt.errors import Issue, Reason
from trustgraph_prompt.grounding import MatchKind, Passage
from trustgraph_prompt.json_text.pointer import pointer

_MOST_KEPT: Final = 10_000  # values of which it is known where they stand
_SHORTEST: Final = 3  # characters of a string that tells an echo
_LOOKING_UP: Final = 300  # steps for each character of a value
_RANK: Final = {kind: rank for rank, kind in enumerate(MatchKind)}


@dataclass(frozen=True, slots=True)
class Grounding:
    """Where a value stands in a text that was asked about: in which term, how, and how well.

    `score` is 1 for a value that stands there as it is, and less the more it differs; of one that stands
    there in part, the share of its words. `spans` are its first places (100 at most) in the term, each from
    its first code point to behind its last.
    """

    term: str
    kind: MatchKind
    score: float
    spans: tuple[tuple[int, int], ...]


class Echoes:
    """Objects that are written out in a question. What repeats one is no answer, unless a term speaks of it.

    Strings that the schema prescribes are in every answer, and say nothing; nor do numbers. An object that
    has nothing else may be right by chance, and is no echo.
    """

    def __init__(self, examples: Iterable[Any], contract: Contract) -> None:
        objects = [part for example in examples for part in _objects(example)]
        written = [*objects, *map(contract.conform, objects)]
        self._objects = frozenset(map(_canonical, written))
        self._prescribed = frozenset(_prescribed(contract.schema))

    def __len__(self) -> int:
        return len(self._objects)

    def has(self, value: Any) -> bool:
        return isinstance(value, dict) and _canonical(value) in self._objects

    def free(self, value: Any) -> list[str]:
        """The strings of a value that a model is free to choose; short ones where there are no others."""
        free = [said for said in _strings(value) if said.strip() and said not in self._prescribed]
        return [said for said in free if len(said) >= _SHORTEST] or free


Grounded = tuple[Mapping[str, Grounding | None], ...]
"""Where the values of each object stand in the terms of the question, by JSON Pointer into the object.

None for what stands in none of them, and was let through."""


def grounded(
    contract: Contract, terms: Mapping[str, object] | None, echoes: Echoes | None = None
) -> Contract:
    """The contract of an answer to a question with these terms.

    It refuses what the sources of its schema do not hold, and the `echoes`. The same contract where there is
    nothing of that kind to judge.
    """
    if terms is None or not (contract.sources or echoes):
        return contract
    said = {each.name: getattr(contract, each.name) for each in fields(contract)}
    return _WithTerms(**said, _plain=contract, _texts=_Texts(terms), _echoes=echoes)


class _Texts:
    """The texts among terms, each gone through when it is first asked for."""

    def __init__(self, terms: Mapping[str, object]) -> None:
        self._terms = terms
        self._known: dict[tuple[tuple[str, ...], str], Grounding | None] = {}
        self._passages = {name: Passage(text) for name, text in terms.items() if isinstance(text, str)}

    def find(self, source: Source, value: str) -> Grounding | None:
        """Where it stands best."""
        if (key := (source.terms, value)) not in self._known:
            found = self._search(source, value)
            if len(self._known) >= _MOST_KEPT:
                return found
            self._known[key] = found
        return self._known[key]

    def _search(self, source: Source, value: str) -> Grounding | None:
        found = [
            Grounding(term, match.kind, match.score, match.spans)
            for term in source.terms
            if term in self._passages and (match := self._passages[term].find(value))
        ]
        return min(found, key=lambda each: (_RANK[each.kind], -each.score), default=None)

    def are_known(self, source: Source) -> bool:
        """Whether there is any of its terms."""
        return not self._passages.keys().isdisjoint(source.terms)

    @cached_property
    def all(self) -> Passage:
        """Whatever stands in any term."""
        return Passage("\n".join(_strings(self._terms)))


@dataclass(frozen=True, slots=True)
class _WithTerms(Contract):
    """Judges by the schema first: a value is looked for where it is what it should be."""

    _plain: Contract | None = field(default=None, compare=False, repr=False)
    _texts: _Texts = field(default_factory=lambda: _Texts({}), compare=False, repr=False)
    _echoes: Echoes | None = field(default=None, compare=False, repr=False)

    @property
    def without_terms(self) -> Contract:
        return self._plain or self

    @property
    def demand(self) -> int:
        return self._judge.demand + _LOOKING_UP

    def take(self, value: Any, characters: int | None = None) -> tuple[Any, bool]:
        taken, accepted = Contract.take(self, value, characters)
        return taken, accepted and self._is_true(taken)

    def take_all(
        self, values: list[Any], characters: int | None = None, longest: int = 0
    ) -> list[Any] | None:
        left = self._meter.left if self._meter else 0
        taken = Contract.take_all(self, values, characters, longest)
        if taken is None or all(map(self._is_true, taken)):
            return taken
        if self._meter:  # each is judged alone, and paid for then
            self._meter.left = left
        return None

    def accepts_all(self, values: Iterable[object]) -> bool:
        return all(map(self.accepts, values))

    def issues(self, value: object, characters: int | None = None) -> tuple[Issue, ...]:
        if found := Contract.issues(self, value, characters):
            return found
        try:
            return tuple(islice(self._flaws(self.conform(value)), MAX_ISSUES))
        except TooCostly as error:
            return (Issue(Reason.EFFORT_SPENT, str(error)),)

    def grounding(self, values: Iterable[Any]) -> Grounded | None:
        if self.sources is None:
            return None
        return tuple(
            {pointer(path): self._texts.find(source, said) for path, source, said in self._judged(value)}
            for value in values
        )

    def _is_true(self, value: Any) -> bool:
        try:
            return next(self._flaws(value), None) is None
        except TooCostly:
            return False

    def _judged(self, value: Any) -> Iterator[tuple[Path, Source, str]]:
        if self.sources is not None:
            for path, source, said in self.sources.values(value):
                if self._texts.are_known(source):
                    yield path, source, said

    def _flaws(self, value: Any) -> Iterator[Issue]:
        """What a value says that the texts do not."""
        if self._is_list:
            for index, item in enumerate(value):
                yield from (replace(issue, path=f"/{index}{issue.path}") for issue in self._flaws_of(item))
        else:
            yield from self._flaws_of(value)

    def _flaws_of(self, value: Any) -> Iterator[Issue]:
        for path, source, said in self._judged(value):
            if source.policy == "mark":
                continue
            if self._meter:
                self._meter.spend(_LOOKING_UP * len(said))
            found = self._texts.find(source, said)
            if found is None:
                message = f"{show(said)} is not in the passage; leave the object out"
                yield Issue(Reason.UNGROUNDED, message, pointer(path))
            elif source.policy == "strict" and found.kind is MatchKind.PART:
                message = f"{show(said)} is in the passage only in part; name it as the passage does"
                yield Issue(Reason.UNGROUNDED, message, pointer(path))
        if self._is_echo(value):
            yield Issue(Reason.ECHOED, "this is an example of the question, and not in the passage")

    def _is_echo(self, value: Any) -> bool:
        if self._echoes is None or (self.format == "json" and self.sources is None):
            return False
        if not self._echoes.has(value):
            return False
        free = self._echoes.free(value)
        found = map(self._texts.all.find, free)
        return bool(free) and not any(match and match.kind is not MatchKind.PART for match in found)


def _canonical(value: Any) -> str:
    """The same for values that differ in nothing but how they are written."""
    return unicodedata.normalize("NFC", json.dumps(_plain_numbers(value), sort_keys=True, ensure_ascii=False))


def _plain_numbers(value: Any) -> Any:
    """The value with 6650 for 6650.0."""
    if isinstance(value, dict):
        return {name: _plain_numbers(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain_numbers(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """The objects that a value is or holds."""
    if isinstance(value, dict):
        yield value
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _objects(part)


def _strings(value: Any) -> Iterator[str]:
    open_ = [value]
    while open_:
        one = open_.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping):
            open_ += one.values()
        elif isinstance(one, list | tuple):
            open_ += one


def _prescribed(schema: JsonSchema | None) -> Iterator[str]:
    if isinstance(schema, dict):
        for _, part in References(schema).subschemas():
            yield from _strings([part.get("const"), part.get("enum")])
