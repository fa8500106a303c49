"""Contracts with the terms of the question: values must occur in their texts, and must not echo examples."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import islice
from typing import Any, Final

from trustgraph_prompt.contract.canonical_schema import JsonSchema
from trustgraph_prompt.contract.contract import Contract
from trustgraph_prompt.contract.explain import MAX_ISSUES, show
from trustgraph_prompt.contract.grounded_keys import Source
from trustgraph_prompt.contract.limits import TooCostly
from trustgraph_prompt.contract.references import Path, References
from trustgraph_prompt.errors import Issue, Reason
from trustgraph_prompt.grounding import RANK, MatchKind, Passage
from trustgraph_prompt.json_text.latex import control_words
from trustgraph_prompt.json_text.pointer import pointer

_MOST_KEPT: Final = 10_000  # values whose grounding is cached
_SHORTEST: Final = 3  # characters of a string that can identify an echo
_SEARCHING: Final = 300  # steps for each character of a value

_LEAVE_OUT: Final = "; leave the object out"
_WRITE_NULL: Final = "; write null here if the passage does not say it"
_NAME_AS_THERE: Final = "; name it as the passage does"


@dataclass(frozen=True, slots=True)
class Grounding:
    """Where a value occurs in the terms of the question, how, and how well.

    `score` is 1 for an exact match and decreases with the differences; for a match in part it is the share of
    the words that were found. `spans` are the first occurrences (100 at most) in `term`, as start and end in
    code points.
    """

    term: str
    kind: MatchKind
    score: float
    spans: tuple[tuple[int, int], ...]


def without_advice(message: str) -> str:
    """A recorded message without the advice to the model that earlier versions recorded with it."""
    for advice in (_LEAVE_OUT, _NAME_AS_THERE):
        message = message.replace(advice, "")
    return message


class Echoes:
    """The example objects in a question, which an answer must not repeat unless they occur in a term.

    Only strings that the model can choose freely identify an echo: strings that the schema prescribes are in
    every answer. An object without any free string may be correct by chance, and is no echo.
    """

    def __init__(self, examples: Iterable[Any], contract: Contract) -> None:
        objects = [part for example in examples for part in _objects(example)]
        self._objects = frozenset(map(_canonical, (*objects, *map(contract.conform, objects))))
        self._prescribed = frozenset(_prescribed(contract.schema))

    def __len__(self) -> int:
        return len(self._objects)

    def has(self, value: Any) -> bool:
        return isinstance(value, dict) and _canonical(value) in self._objects

    def free(self, value: Any) -> list[str]:
        """The strings of a value that the model can choose freely; short ones only if there are no others."""
        free = [text for text in _strings(value) if text.strip() and text not in self._prescribed]
        return [text for text in free if len(text) >= _SHORTEST] or free


Grounded = tuple[Mapping[str, Grounding | None], ...]
"""For each object, the grounding of its values by JSON Pointer into the object; None for values that occur
in no term and were accepted."""


def grounded(
    contract: Contract, terms: Mapping[str, object] | None, echoes: Echoes | None = None
) -> Contract:
    """Return the contract for the answer to a question with these terms.

    It rejects values that do not occur in their sources, and echoes of examples. It is the same contract
    without terms, and for a text.
    """
    if terms is None or contract.format == "text":
        return contract
    values = {each.name: getattr(contract, each.name) for each in fields(contract)}
    return _WithTerms(**values, _plain=contract, _texts=_Texts(terms), _echoes=echoes)


class _Texts:
    """The terms that are texts, each indexed on first use."""

    def __init__(self, terms: Mapping[str, object]) -> None:
        self._terms = terms
        self._known: dict[tuple[tuple[str, ...], str], Grounding | None] = {}
        self._passages = {name: Passage(text) for name, text in terms.items() if isinstance(text, str)}

    def find(self, source: Source, value: str) -> Grounding | None:
        """The best match of a value in the terms of its source."""
        if (key := (source.terms, value)) in self._known:
            return self._known[key]
        matches = [
            Grounding(term, match.kind, match.score, match.spans)
            for term in source.terms
            if term in self._passages and (match := self._passages[term].find(value))
        ]
        best = min(matches, key=lambda each: (RANK[each.kind], -each.score), default=None)
        if len(self._known) < _MOST_KEPT:
            self._known[key] = best
        return best

    def are_known(self, source: Source) -> bool:
        """Whether at least one term of the source is a text here."""
        return not self._passages.keys().isdisjoint(source.terms)

    @cached_property
    def control_words(self) -> frozenset[str]:
        return frozenset().union(*map(control_words, _strings(self._terms)))

    @cached_property
    def all(self) -> Passage:
        """All strings in all terms."""
        return Passage("\n".join(_strings(self._terms)))


@dataclass(frozen=True, slots=True)
class _WithTerms(Contract):
    """Validates against the schema first, and searches the terms only for valid values."""

    _plain: Contract | None = field(default=None, compare=False, repr=False)
    _texts: _Texts = field(default_factory=lambda: _Texts({}), compare=False, repr=False)
    _echoes: Echoes | None = field(default=None, compare=False, repr=False)

    @property
    def without_terms(self) -> Contract:
        return self._plain or self

    @property
    def demand(self) -> int:
        return self._judge.demand + (_SEARCHING if self._searches else 0)

    @property
    def control_words(self) -> frozenset[str]:
        return self._texts.control_words

    @property
    def _searches(self) -> bool:
        """Whether anything is searched in the terms to judge a value."""
        return self.sources is not None or self._echoes is not None

    def take(self, value: Any, characters: int | None = None) -> tuple[Any, bool]:
        taken, accepted = Contract.take(self, value, characters)
        return taken, accepted and self._is_true(taken)

    def take_all(
        self, values: list[Any], characters: int | None = None, longest: int = 0
    ) -> list[Any] | None:
        if not self._searches:
            return Contract.take_all(self, values, characters, longest)
        left = self._meter.left if self._meter else 0
        taken = Contract.take_all(self, values, characters, longest)
        if taken is None or all(map(self._is_true, taken)):
            return taken
        if self._meter:  # the caller then takes each alone, and pays for it
            self._meter.left = left
        return None

    def accepts_all(self, values: Iterable[object]) -> bool:
        return all(map(self.accepts, values))

    def issues(self, value: object, characters: int | None = None) -> tuple[Issue, ...]:
        if found := Contract.issues(self, value, characters):
            return found
        return self.ungrounded(self.conform(value))

    def ungrounded(self, value: Any) -> tuple[Issue, ...]:
        try:
            return tuple(islice(self._flaws(value), MAX_ISSUES))
        except TooCostly as error:
            return (Issue(Reason.EFFORT_SPENT, str(error)),)

    def grounding(self, values: Iterable[Any]) -> Grounded | None:
        if self.sources is None:
            return None
        return tuple(
            {pointer(path): self._texts.find(source, text) for path, source, text in self._sourced(value)}
            for value in values
        )

    def _is_true(self, value: Any) -> bool:
        try:
            return next(self._flaws(value), None) is None
        except TooCostly:
            return False

    def _sourced(self, value: Any) -> Iterator[tuple[Path, Source, str]]:
        if self.sources is not None:
            for path, source, text in self.sources.values(value):
                if self._texts.are_known(source):
                    yield path, source, text

    def _flaws(self, value: Any) -> Iterator[Issue]:
        """The issues of a value that meets the schema."""
        if self._is_list:
            for index, item in enumerate(value):
                yield from (replace(issue, path=f"/{index}{issue.path}") for issue in self._flaws_of(item))
        else:
            yield from self._flaws_of(value)

    def _flaws_of(self, value: Any) -> Iterator[Issue]:
        for path, source, text in self._sourced(value):
            if source.policy == "mark":
                continue
            if self._meter:
                self._meter.spend(_SEARCHING * len(text))
            found = self._texts.find(source, text)
            if found is None:
                message = f"{show(text)} is not in the passage"
                advice = _WRITE_NULL if source.may_be_null else _LEAVE_OUT
                yield Issue(Reason.UNGROUNDED, message, pointer(path), source.keyword, advice)
            elif source.policy == "strict" and found.kind.is_weak:
                message = f"{show(text)} is in the passage only in part"
                yield Issue(Reason.UNGROUNDED, message, pointer(path), source.keyword, _NAME_AS_THERE)
        if self._is_echo(value):
            yield Issue(Reason.ECHOED, "this is an example of the question, and not in the passage")

    def _is_echo(self, value: Any) -> bool:
        if self._echoes is None or (self.format == "json" and self.sources is None):
            return False
        if not self._echoes.has(value):
            return False
        free = self._echoes.free(value)
        found = map(self._texts.all.find, free)
        return bool(free) and not any(match and not match.kind.is_weak for match in found)


def _canonical(value: Any) -> str:
    """A text that is the same for values that are equal apart from notation."""
    return unicodedata.normalize("NFC", json.dumps(_plain_numbers(value), sort_keys=True, ensure_ascii=False))


def _plain_numbers(value: Any) -> Any:
    """Replace floats without a fraction by integers."""
    if isinstance(value, dict):
        return {name: _plain_numbers(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain_numbers(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """All objects in a value, itself included."""
    if isinstance(value, dict):
        yield value
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _objects(part)


def _strings(value: Any) -> Iterator[str]:
    open_ = [value]
    while open_:
        part = open_.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, Mapping):
            open_ += part.values()
        elif isinstance(part, list | tuple):
            open_ += part


def _prescribed(schema: JsonSchema | None) -> Iterator[str]:
    if isinstance(schema, dict):
        for _, part in References(schema).subschemas():
            yield from _strings([part.get("const"), part.get("enum")])
