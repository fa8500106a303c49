"""The questions that gold files ask, and whether a prompt can give what the files expect."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final

from trustgraph_prompt import wire
from trustgraph_prompt.config_files import MAX_ERRORS
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.contract.object_keys import ObjectKind, kinds_of
from trustgraph_prompt.errors import ConfigError, Issue, Reason, raise_first, suggestion
from trustgraph_prompt.json_text.pointer import pointer
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.prompts.gold_file import GoldText, texts_for
from trustgraph_prompt.prompts.match_clause import MatchClause

FEWEST: Final = 6
"""Texts below which no difference is called real: all of fewer change in the same direction by chance more
often than one time in twenty."""

_NEVER_ACCEPTED: Final = frozenset(
    {
        *(Reason.SCHEMA_EXTRA_FIELD, Reason.SCHEMA_TYPE_ERROR, Reason.SCHEMA_VALUE_ERROR),
        *(Reason.UNGROUNDED, Reason.UNSUPPORTED, Reason.REPETITIVE, Reason.UNSUPPORTED_VERSION),
    }
)
"""What rules out that an object ever comes. One that lacks keys may be complete enough to be matched."""


@dataclass(frozen=True, slots=True)
class GoldQuestion:
    """One prompt to ask about one gold text."""

    position: int
    id: str
    prompt: str
    text: GoldText = field(repr=False)

    @property
    def terms(self) -> Mapping[str, object]:
        """The terms of the text."""
        return self.text.terms

    @property
    def place(self) -> str:
        """File, line and prompt."""
        return f"{self.text.where}, {self.prompt}"


def questions(
    prompts: Sequence[PromptDefinition],
    texts: Sequence[GoldText],
    *,
    model: str,
    terms: Mapping[str, object],
    ontology: str | None = None,
) -> list[GoldQuestion]:
    """Return a question for each prompt and each text that is for it.

    An id covers the prompt's version, the model, the terms and the fingerprint of an ontology, so that an
    answer is kept for as long as none of them changes. Of a pool, only the texts count that are shown. What
    should come is not part of it.
    """
    within = [{"ontology": ontology}] if ontology else []
    found: list[GoldQuestion] = []
    for prompt in prompts:
        for text in texts_for(prompt, texts):
            given = {**terms, **text.terms}
            decides = (prompt.id, prompt.identity(prompt.chooser.nearest(given)), model, given, *within)
            # As in `extraction.questions`, which imports all that reads documents: `check` needs none of it.
            id = hashlib.sha256(wire.canonical(decides)).hexdigest()[:32]
            found.append(GoldQuestion(len(found), id, prompt.id, text))
    return found


def check_for(prompt: PromptDefinition, texts: Sequence[GoldText], given: Mapping[str, object]) -> None:
    """Raise `ConfigError` if some texts cannot be asked about, or expect objects that can never come.

    `given` are terms that every question gets.
    """
    errors = (error for text in texts for error in _problems(prompt, text, given))
    raise_first(islice(errors, MAX_ERRORS))


def terms_in_no_text(prompt: PromptDefinition, texts: Sequence[GoldText]) -> list[str]:
    """The terms that a prompt needs and that no text has: perhaps `eval` is given them."""
    return _missing(prompt, {name for text in texts for name in text.terms})


def _missing(prompt: PromptDefinition, terms: Iterable[str]) -> list[str]:
    return prompt.missing(terms) if prompt.template.dialect == "jinja" else []


def remarks(prompt: PromptDefinition, texts: Sequence[GoldText]) -> list[str]:
    """What limits the scores of a prompt on texts: a person should know before these are paid for."""
    clause, kinds = prompt.match, list(kinds_of(prompt.contract))
    found = []
    if clause.is_default:
        found.append(f"{prompt.id} has no `match`, so {_compared_by_default(clause, kinds)}")
    objects = [(text.where, each) for text in texts for each in text.objects if isinstance(each, dict)]
    for key in clause.keys:
        if lacking := [where for where, each in objects if _lacks(each, key, clause, kinds)]:
            found.append(
                f"`{key}` is compared, but {len(lacking):,} of {len(objects):,} objects lack it (the first "
                f"in {lacking[0]}): an object that comes with `{key}` matches none of these"
            )
    found += (
        f"{place}: {what}: the schema of {prompt.id} does not declare it, so it is never asked for"
        for what, place in _undeclared(prompt.contract, texts).items()
    )
    if len(texts) < FEWEST:
        found.append(
            f"{prompt.id} has fewer than {FEWEST} texts ({len(texts)}): no difference between two versions "
            "can be told from noise"
        )
    return found


def _undeclared(contract: Contract, texts: Sequence[GoldText]) -> dict[str, str]:
    """What keys are not declared by a schema that accepts others, and where the first of each is."""
    first: dict[str, str] = {}
    if contract.versions is None:
        declared = Contract.from_schema(contract.schema, format="json", extra="forbid")
        for text in texts:
            for index, value in enumerate(text.objects):
                for issue in declared.issues(value):
                    if issue.reason is Reason.SCHEMA_EXTRA_FIELD:
                        place = f"{text.where} {pointer(('objects', str(index)))}{issue.path}"
                        first.setdefault(issue.message, place)
    return first


def _compared_by_default(clause: MatchClause, kinds: Sequence[ObjectKind]) -> str:
    if not clause.keys:
        return "whole objects are compared"
    others = sorted({key for kind in kinds for key in kind.properties} - clause.keys.keys())
    but = f"; not compared: {_quoted(others)}" if others else ""
    return f"its required strings are compared: {_quoted(clause.keys)}{but}"


def _quoted(keys: Iterable[str]) -> str:
    return ", ".join(f"`{key}`" for key in keys)


def _lacks(value: Mapping[str, Any], key: str, clause: MatchClause, kinds: Sequence[ObjectKind]) -> bool:
    """Whether an object has no such key, though all kinds of object that it can be may have it."""
    possible = (kind for kind in kinds if kind.required & clause.keys.keys() <= value.keys())
    return key not in value and all(key in kind.properties for kind in possible)


def _problems(prompt: PromptDefinition, text: GoldText, given: Mapping[str, object]) -> Iterator[ConfigError]:
    terms = {**prompt.terms, **given, **text.terms}
    if missing := _missing(prompt, terms):
        yield ConfigError(
            f"{prompt.id} needs the term {missing[0]}",
            where=text.where,
            path="/terms",
            found=", ".join(text.terms) or "no terms",
            expected=f"`{missing[0]}` too",
        )
        return
    contract = prompt.contract.with_terms(terms)
    for index, value in enumerate(text.objects):
        at = pointer(("objects", str(index)))
        if isinstance(value, dict) and (lacking := sorted(prompt.match.required - value.keys())):
            yield ConfigError(
                f"the key `{lacking[0]}` is missing, by which {prompt.id} matches objects"
                f"{suggestion(lacking[0], value)}",
                where=text.where,
                path=at,
                found=", ".join(value) or "no keys",
                expected=f"`{lacking[0]}` too",
            )
            continue
        for issue in _issues(contract, value):
            if issue.reason in _NEVER_ACCEPTED:
                yield ConfigError(
                    f"{prompt.id} can never give this object: {issue.message}",
                    where=text.where,
                    path=at + issue.path,
                    found=value,
                    expected="an object that its schema accepts",
                )


def _issues(contract: Contract, value: Any) -> Iterator[Issue]:
    """What is wrong with an object of an answer.

    Where it only lacks keys, it may be matched all the same: then what it has must stand in the text.
    """
    is_list = contract.many and contract.format == "json"  # the contract is about the whole list
    whole = [value] if is_list else value
    issues = contract.issues(whole)
    if {issue.reason for issue in issues} == {Reason.SCHEMA_MISSING_FIELD}:
        issues = contract.ungrounded(whole)
    for issue in issues:
        yield replace(issue, path=issue.path.removeprefix("/0")) if is_list else issue
