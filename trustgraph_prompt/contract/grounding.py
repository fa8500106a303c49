"""Looks values up in the terms of the question: they must occur there, and must not echo examples."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, Final, NamedTuple

from trustgraph_prompt.contract.canonical_schema import JsonSchema
from trustgraph_prompt.contract.explain import show
from trustgraph_prompt.contract.grounded_keys import Source, Sources
from trustgraph_prompt.contract.limits import StepMeter
from trustgraph_prompt.contract.references import Path, References
from trustgraph_prompt.contract.roles import Role
from trustgraph_prompt.contract.support import support_flaws
from trustgraph_prompt.errors import Issue, Reason
from trustgraph_prompt.grounding import RANK, MatchKind, Passage, as_written, find_quote, is_too_long
from trustgraph_prompt.grounding.quotes import MOST_IN_ALL
from trustgraph_prompt.json_text.pointer import pointer
from trustgraph_prompt.json_text.values import levels, strings

_MOST_KEPT: Final = 10_000  # values whose grounding is cached
_SHORTEST: Final = 3  # characters of a string that can identify an echo
SEARCHING: Final = 300
"""Steps to search for each character of a value."""

_LEAVE_OUT: Final = "; leave the object out"
_WRITE_NULL: Final = "; write null here if the passage does not say it"
_NAME_AS_THERE: Final = "; name it as the passage does"
_COPY: Final = "; copy the words of the passage that say it, two sentences at most"


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

    Examples that are `nearest` to the passage share names with it: an object that repeats one must have all
    of its free strings from there. The labels of an ontology are not free.
    """

    def __init__(
        self,
        examples: Iterable[Any],
        schema: JsonSchema | None,
        conform: Callable[[Any], Any],
        *,
        nearest: bool = False,
        is_label: Callable[[str], bool] = lambda string: False,
    ) -> None:
        parts = chain.from_iterable(map(levels, examples))
        objects = [part for level in parts for part in level if isinstance(part, dict)]
        self._objects = frozenset(map(_canonical, (*objects, *map(conform, objects))))
        self._schema = schema
        self._nearest = nearest
        self._is_label = is_label

    def __len__(self) -> int:
        return len(self._objects)

    def has(self, value: Any, text: Callable[[], Passage]) -> bool:
        """Whether a value repeats an example, and no string in it, or not each, occurs in the text."""
        if not isinstance(value, dict) or _canonical(value) not in self._objects:
            return False
        free = [string for string in strings(value) if string.strip() and not self._is_prescribed(string)]
        if not self._nearest:  # short ones may be in the text by chance
            free = [string for string in free if len(string) >= _SHORTEST] or free
        found = (match and not match.kind.is_weak for match in map(text().find, free))
        return bool(free) and not (all(found) if self._nearest else any(found))

    def _is_prescribed(self, string: str) -> bool:
        return string in self._prescribed or self._is_label(string)

    @cached_property
    def _prescribed(self) -> frozenset[str]:
        return frozenset(_prescribed(self._schema))


class NearestEchoes(NamedTuple):
    """The examples that were chosen for the passage of a question, which stands in a term."""

    echoes: Echoes
    term: str


Grounded = tuple[Mapping[str, Grounding | None], ...]
"""For each object, the grounding of its values by JSON Pointer into the object; None for values that occur
in no term and were accepted."""


class Terms:
    """The terms of one question, in which the answer's values are searched; those that are texts are indexed.

    `given` are the terms, `sources` the keys whose values must occur there, `echoes` and `nearest` the
    examples that an answer must not repeat, the latter unless the term with the passage has them, `roles` the
    keys that make a statement. `searches` says whether a value is searched at all.
    """

    def __init__(
        self,
        terms: Mapping[str, object],
        sources: Sources | None,
        echoes: Echoes | None,
        nearest: NearestEchoes | None = None,
        roles: Sequence[Role] = (),
    ) -> None:
        self.given = terms
        self.searches = any((sources is not None, echoes is not None, nearest is not None, roles))
        self._roles = roles
        self._sources = sources
        self._echoes = echoes
        self._nearest = nearest
        self._known: dict[tuple[bool, tuple[str, ...], str], Grounding | None] = {}
        texts = {} if sources is None else terms
        self._passages = {name: Passage(text) for name, text in texts.items() if isinstance(text, str)}

    def grounding(self, values: Iterable[Any]) -> Grounded | None:
        """Where the values of these objects occur; None without sources."""
        if self._sources is None:
            return None
        return tuple(
            {pointer(path): self._find(source, text) for path, source, text in self._sourced(value)}
            for value in values
        )

    def quoted(self, value: Any, meter: StepMeter | None) -> Any:
        """The value with its quotes in the words of the text; one that is not there stays as it is.

        The same value if there is nothing to change. Raises `TooCostly`.
        """
        made = value
        for (key,), source, quote in self._quotes_of(value):
            if meter:
                meter.spend(SEARCHING * min(len(quote), MOST_IN_ALL))
            found = self._find(source, quote)
            written = quote if found is None else as_written(self._passages[found.term], found.spans)
            if written != quote:
                made = {**made, key: written}
        return made

    def passages_of(self, value: Any) -> Iterator[tuple[Passage, Sequence[tuple[int, int]]]]:
        """The text that each quote of an object was copied from, with the spans of its stretches in order."""
        for _, source, quote in self._quotes_of(value):
            if (found := self._find(source, quote)) is not None:
                yield self._passages[found.term], found.spans

    def _quotes_of(self, value: Any) -> Iterator[tuple[Path, Source, str]]:
        """The quotes of an object that have a text here."""
        return self._here(() if self._sources is None else self._sources.quotes_of(value))

    def flaws(self, value: Any, meter: StepMeter | None, *, each: bool = False) -> Iterator[Issue]:
        """The issues of a value that meets the schema, or of `each` element of it. Raises `TooCostly`."""
        if each:
            for index, item in enumerate(value):
                for issue in self.flaws(item, meter):
                    yield replace(issue, path=f"/{index}{issue.path}")
            return
        for path, source, text in self._sourced(value):
            if source.policy == "mark":
                continue
            if meter and source.policy != "quote":  # which `quoted` has searched
                meter.spend(SEARCHING * len(text))
            found = self._find(source, text)
            if found is None and source.policy == "quote":
                wrong = self._quote_fault(source, text)
                yield Issue(Reason.UNGROUNDED, wrong, pointer(path), source.keyword, _COPY)
            elif found is None:
                message = f"{show(text)} is not in the passage"
                advice = _WRITE_NULL if source.may_be_null else _LEAVE_OUT
                yield Issue(Reason.UNGROUNDED, message, pointer(path), source.keyword, advice)
            elif source.policy == "strict" and found.kind.is_weak:
                message = f"{show(text)} is in the passage only in part"
                yield Issue(Reason.UNGROUNDED, message, pointer(path), source.keyword, _NAME_AS_THERE)
        if self._roles:
            yield from support_flaws(value, self._roles, list(self.passages_of(value)), meter)
        said = value if self._sources is None else self._sources.without_quotes(value)
        if self._echoes is not None and self._echoes.has(said, lambda: self._all):
            yield Issue(Reason.ECHOED, "this is an example of the question, and not in the passage")
        elif self._nearest is not None and self._nearest.echoes.has(said, lambda: self._passage):
            message = "this is an example that was shown, and not all of it is in the passage"
            yield Issue(Reason.ECHOED, message)

    @cached_property
    def _passage(self) -> Passage:
        """The terms from which values come, or without sources the one with the passage."""
        names = self._sources.terms if self._sources else (self._nearest.term,) if self._nearest else ()
        texts = (self.given.get(name) for name in sorted(names))
        return Passage("\n".join(text for text in texts if isinstance(text, str)))

    @cached_property
    def _all(self) -> Passage:
        """All strings in all terms."""
        return Passage("\n".join(strings(self.given)))

    def _sourced(self, value: Any) -> Iterator[tuple[Path, Source, str]]:
        """The values with a source of which at least one term is a text here."""
        return self._here(() if self._sources is None else self._sources.values(value))

    def _here(self, values: Iterable[tuple[Path, Source, str]]) -> Iterator[tuple[Path, Source, str]]:
        return (each for each in values if not self._passages.keys().isdisjoint(each[1].terms))

    def _quote_fault(self, source: Source, quote: str) -> str:
        """What is wrong with a quote that was not found."""
        passages = (self._passages[term] for term in source.terms if term in self._passages)
        if any(is_too_long(passage, quote) for passage in passages):
            return f"the quote has {len(quote):,} characters, more than two sentences"
        return f"{show(quote)} is not in the passage word for word"

    def _find(self, source: Source, value: str) -> Grounding | None:
        """The best match of a value in the terms of its source."""
        is_quote = source.policy == "quote"
        if (key := (is_quote, source.terms, value)) in self._known:
            return self._known[key]
        matches = [
            Grounding(term, match.kind, match.score, match.spans)
            for term in source.terms
            if (passage := self._passages.get(term))
            and (match := find_quote(passage, value) if is_quote else passage.find(value))
        ]
        best = min(matches, key=lambda each: (RANK[each.kind], -each.score), default=None)
        if len(self._known) < _MOST_KEPT:
            self._known[key] = best
        return best


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


def _prescribed(schema: JsonSchema | None) -> Iterator[str]:
    if isinstance(schema, dict):
        for _, part in References(schema).subschemas():
            yield from strings([part.get("const"), part.get("enum")])
