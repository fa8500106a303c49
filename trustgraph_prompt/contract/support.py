"""Checks what an object says: its value must not only repeat another key, and have a word of its quote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from trustgraph_prompt.contract.explain import show
from trustgraph_prompt.contract.limits import StepMeter
from trustgraph_prompt.contract.roles import Role
from trustgraph_prompt.errors import Issue, Reason
from trustgraph_prompt.grounding import Passage
from trustgraph_prompt.grounding.sentences import Span
from trustgraph_prompt.grounding.support import only_repeats, shares_no_word, stands_near
from trustgraph_prompt.grounding.words import words
from trustgraph_prompt.json_text.pointer import pointer

_COMPARING: Final = 300  # steps for each character of a statement
_READING: Final = 20_000  # steps for the sentences of a quote

_WRITE_IT_ONCE: Final = "; write the relation without it, or leave the object out"
_SAY_MORE: Final = "; write what the passage says of it, or leave the object out"
_OF_ANOTHER: Final = "; write what the passage says that it has to do with, or leave the object out"
_WITH_ITS_WORDS: Final = "; say it with the words of the quote, or leave the object out"

Quote = tuple[Passage, Sequence[Span]]
"""The text that a quote was copied from, and where it stands there."""


def support_flaws(
    value: Any, roles: Sequence[Role], quotes: Sequence[Quote], meter: StepMeter | None
) -> Iterator[Issue]:
    """The issues of an object by its roles; without `quotes` only of what it repeats. Raises `TooCostly`."""
    for role in roles if isinstance(value, dict) else ():
        said = _text(value, role.value)
        if not said or not role.applies(value):
            continue
        key = role.subject if role.predicate is None else role.predicate
        known, place = _text(value, key), pointer((role.value,))
        if meter:
            meter.spend(_COMPARING * (len(said) + len(known)) + _READING * len(quotes))
        subject = _text(value, role.subject)
        if role.predicate is not None and words(said).folded == words(subject).folded:
            message = f"{show(said)} is said of itself"
            yield Issue(Reason.REPETITIVE, message, place, advice=_OF_ANOTHER)
        elif known and only_repeats(said, known):
            message = f"{show(said)} only repeats what `{key}` says"
            advice = _SAY_MORE if role.predicate is None else _WRITE_IT_ONCE
            yield Issue(Reason.REPETITIVE, message, place, advice=advice)
        elif quotes and not any(_supports(quote, role, value) for quote in quotes):
            message = f"{show(said)} has no word in common with its quote"
            yield Issue(Reason.UNSUPPORTED, message, place, advice=_WITH_ITS_WORDS)


def _supports(quote: Quote, role: Role, value: Mapping[str, Any]) -> bool:
    """Whether a quote may say it. The subject is not asked: a pronoun may stand for it."""
    passage, spans = quote
    said, relation = _text(value, role.value), _text(value, role.predicate)
    if not relation:
        return not shares_no_word(passage, spans, said, but_of=_text(value, role.subject))
    return not shares_no_word(passage, spans, f"{relation} {said}") or stands_near(passage, spans, said)


def _text(value: Mapping[str, Any], key: str | None) -> str:
    found = None if key is None else value.get(key)
    return str(found) if isinstance(found, str | int | float) and not isinstance(found, bool) else ""
