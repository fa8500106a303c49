"""Reads the one value of a json answer: the whole text, else a fenced block, else a value in the prose."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import Issue, Reason, excerpt
from trustgraph_prompt.json_text import grammar
from trustgraph_prompt.json_text.locate import Span
from trustgraph_prompt.json_text.pointer import pointer
from trustgraph_prompt.outcome import Outcome, Rejected, Repaired, Stage
from trustgraph_prompt.reader.decode import NotJson, decode, is_too_deep, value_of, why_not
from trustgraph_prompt.reader.json_in_strings import ParsedStrings, opened
from trustgraph_prompt.reader.scan_results import Find, MarkKind, Values
from trustgraph_prompt.reader.scanner import Scanner
from trustgraph_prompt.reader.truncation import cut_short

_FENCE = r"(?:(?<!`)`{3,}+|(?<!~)~{3,}+)"
_JSON = r"[ \t]*json[ \t\r]*\n"
_OPENS = re.compile(f"{_FENCE}{_JSON}", re.IGNORECASE)
_CLOSES = re.compile(f"{_FENCE}(?P<opens>{_JSON})?", re.IGNORECASE)


class Block(NamedTuple):
    """What stands between two fences, and where it begins."""

    content: str
    start: int


def json_blocks(text: str, fences: Iterable[Span]) -> list[Block]:
    """The blocks that are closed, among all stretches of text with `fences`, and are no mere words in a line.

    A fence that says `json` closes nothing.
    """
    blocks: list[Block] = []
    begun: int | None = None
    for stretch in fences:
        position = stretch.start
        while fence := (_OPENS if begun is None else _CLOSES).search(text, position, stretch.end):
            position = fence.end()
            if begun is None or fence["opens"]:
                begun = position
            else:
                blocks.append(Block(text[begun : fence.start()], begun))
                begun = None
    return blocks


_AROUND = r"(?:^[ \t]*(?:`{3,}|~{3,}).*$|\n++|[^\S\n]++|</?\w+>)*+"
_STRING = f'"{grammar.CHARACTERS_IN_LINE}'
_BEGUN = r"(?:`{1,2}|~{1,2}|</?\w*+)?"  # a fence or tag under the cut
# What is not this is no JSON for sure.
_MAY_BE_JSON = re.compile(
    rf"{grammar.SPACE}(?:[{{[]|(?:{grammar.STRING}|{grammar.NUMBER}|true|false|null|NaN|-?Infinity){grammar.SPACE}\Z)"
)
_SCALAR = re.compile(rf'{_AROUND}({_STRING}"|[-+.\w]++){_AROUND}{_BEGUN}\Z', re.MULTILINE)
_CUT_STRING = re.compile(rf"{_AROUND}{_STRING}\\?\Z", re.MULTILINE)

_ITEMS = "items"

_VERDICTS = 5  # on fenced values, that one message tells

_WHOLE_FLOAT = re.compile(r"\.0\b|e\+")  # among others

# What may stand behind a value: white space, and a fence that ends or is about to.
_SAYS_NOTHING = " \t\r\n`~"

# Around sound values: a key, or a closing bracket. They are perhaps parts of one that is broken.
_OF_A_VALUE = re.compile(r'"[^"\n]{0,100}"\s*:|\}\s*[\]}]|,\s*\]')


def read_value(text: str, contract: Contract, finish_reason: str | None) -> Outcome:
    """What `text` says where one value was asked for; `calls` is left to the caller.

    A value that the contract accepts wins over one that it does not, a fenced one over one in prose. Two that
    differ are ambiguous; and where the text ends within a value, that one was meant.
    """
    metered = contract.metered()
    outcome = _read(text, metered, finish_reason)
    if spent := metered.spent:
        outcome = replace(outcome, value=None, reason=spent.reason, issues=(spent,), repaired=(), span=None)
    return outcome


def _read(text: str, contract: Contract, finish_reason: str | None) -> Outcome:
    whole = _Candidate.of(text, 0, contract)
    if not whole.is_broken:
        return _judged(text, [whole], contract, Stage.DIRECT, cut_short(finish_reason))
    scanner = Scanner(contract.limits, arrays=True)
    candidates = _candidates([*scanner.feed(text), *scanner.close()], contract.limits.depth)
    outcome = _strictly(text, contract, finish_reason, scanner, candidates)
    sound = outcome.ok and not (
        any(candidate.is_broken for candidate in candidates) or _OF_A_VALUE.search(scanner.between)
    )
    if not contract.repair or sound or scanner.full or scanner.thinks:
        return outcome
    start = candidates[0].start if scanner.ends_draft and candidates else scanner.thought
    return _repaired(text, contract, finish_reason, start, outcome, ends_within_value=scanner.cut)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """What may be the value, or is broken; what says so, and where that begins; whether in a code fence."""

    value: Any
    raw: str
    start: int
    fenced: bool = False

    @classmethod
    def of(cls, text: str, start: int, contract: Contract, *, fenced: bool = False) -> _Candidate:
        """What all of `text` says, which begins at `start` of the answer."""
        value, depth = value_of(text), contract.limits.depth
        if isinstance(value, (dict, list)) and is_too_deep(value, text, depth):
            value = why_not(text, depth)
        return cls(value, text.strip(), start + len(text) - len(text.lstrip()), fenced)

    @property
    def is_broken(self) -> bool:
        return isinstance(self.value, NotJson)

    def behind(self, text: str) -> str:
        return text[self.start + len(self.raw) :]


def _strictly(
    text: str, contract: Contract, finish_reason: str | None, scanner: Scanner, candidates: list[_Candidate]
) -> Outcome:
    """What is said without any repair."""
    if contract.fences == "strict" and (blocks := _json_blocks(text, contract, scanner)):
        return _chosen(text, blocks, contract, truncated=False)
    cut = scanner.cut or _CUT_STRING.match(text, scanner.thought) is not None
    truncated = cut_short(finish_reason, within_value=cut or scanner.full, within_fence=scanner.fenced)
    if scalar := _scalar(text, scanner.thought):
        return _judged(text, [scalar], contract, Stage.EXTRACTED, truncated)
    if cut or scanner.full:
        what = "the answer ends within " + ("thinking" if scanner.thinks else "a value")
        what = "too many values to choose from" if scanner.full else what
        return _failure(contract, Reason.TRUNCATED, what, truncated)
    if contract.fences == "one":
        fenced = [candidate for candidate in candidates if candidate.fenced]
        if len(fenced) > 1 and _differ(fenced, contract, text):
            return _failure(contract, Reason.AMBIGUOUS, _each_said(fenced, contract, text), truncated)
        candidates = fenced[-1:] or candidates
    return _chosen(text, candidates, contract, truncated, first=contract.fences == "strict")


def _differ(candidates: list[_Candidate], contract: Contract, text: str) -> bool:
    """Whether they are not all one value, as the contract takes it."""
    if any(candidate.is_broken for candidate in candidates):
        return True
    fits = [(_fit(one.value, contract, text) or (one.value,))[0] for one in candidates]
    return len({_identity(fit, one.raw) for fit, one in zip(fits, candidates, strict=True)}) > 1


def _each_said(fenced: list[_Candidate], contract: Contract, text: str) -> str:
    """How many fenced values there are, and what is wrong with each."""
    verdicts = [
        f"number {number} {_verdict(candidate, contract, text)}"
        for number, candidate in enumerate(fenced[:_VERDICTS], 1)
    ]
    more = [f"and {len(fenced) - _VERDICTS} more"] if len(fenced) > _VERDICTS else []
    return f"{len(fenced)} values in code fences, expected one: {'; '.join([*verdicts, *more])}"


def _verdict(candidate: _Candidate, contract: Contract, text: str) -> str:
    if candidate.is_broken:
        return f"is no JSON ({candidate.value})"
    if _fit(candidate.value, contract, text):
        return "would do"
    issues = "; ".join(map(str, _issues(candidate.value, contract, text)))
    return f"would not ({excerpt(issues)})"


def _json_blocks(text: str, contract: Contract, scanner: Scanner) -> list[_Candidate]:
    """What the closed blocks of JSON say, each as a whole, but for those in what turned out to be a draft.

    Of those that are no JSON only the last may be of interest: it tells why there is no value.
    """
    begin = 0 if scanner.ends_draft else scanner.thought
    blocks = json_blocks(text, (fence for fence in scanner.fences if fence.start >= begin))
    return [
        _Candidate.of(block.content, block.start, contract, fenced=True)
        for block in blocks
        if _MAY_BE_JSON.match(block.content) or block is blocks[-1]
    ]


def _chosen(
    text: str,
    candidates: list[_Candidate],
    contract: Contract,
    truncated: bool | None,
    *,
    first: bool = False,
) -> Outcome:
    """What the candidates say together, some of which may be broken."""
    values = [candidate for candidate in candidates if not candidate.is_broken]
    if values:
        alone = len(candidates) == 1 and values[0].raw == text.strip()
        stage = Stage.DIRECT if alone else Stage.EXTRACTED
        return _judged(text, values, contract, stage, truncated, first=first)
    if candidates:
        broken = candidates[-1]
        issues = (Issue(Reason.INVALID_JSON, f"no JSON: {broken.value}"),)
        truncated = truncated and not _is_closed(broken.value, broken.behind(text))
        return _refused(broken, issues, contract, truncated)
    return _failure(contract, Reason.EXTRACTION_FAILED, "no JSON in the answer", truncated)


def _repaired(
    text: str,
    contract: Contract,
    finish_reason: str | None,
    start: int,
    strict: Outcome,
    *,
    ends_within_value: bool,
) -> Outcome:
    """What is said once what is broken is mended; `strict` where that says nothing, or is what it says.

    Of the values in a text that ends within one, the last was meant, if there is something of it.
    """
    from trustgraph_prompt.reader.repair.accepted import (
        Repair,  # its grammar takes longer to compile than all others
    )

    by_rank: dict[tuple[bool, Stage], dict[str, tuple[Any, Repaired]]] = {}
    refused: tuple[_Candidate, bool] | None = None
    for meant in Repair(contract).values(text, start, lambda value: _fit(value, contract, text)):
        reading = meant.reading
        if ends_within_value and reading.value:
            by_rank.clear()
        raw = text[meant.start : reading.end]
        if meant.fit is None:
            if reading.edits or reading.cut:
                refused = _Candidate(reading.value, raw, meant.start), reading.cut
            continue
        edits = reading.edits
        if meant.fit.opened is not None:
            edits = tuple(sorted((*edits, *meant.fit.opened.edits(raw, meant.start))))
        stage = Stage.SALVAGED if reading.cut else Stage.REPAIRED if edits else Stage.EXTRACTED
        repaired = Repaired(0, raw, meant.start, edits, stage)
        same_rank = by_rank.setdefault((not meant.fenced, stage), {})
        same_rank[_identity(meant.fit.value, raw)] = meant.fit.value, repaired
    if not by_rank:
        if refused is None or strict.reason is Reason.TRUNCATED:
            return strict
        likeliest, cut = refused
        closed = not cut and _is_closed(likeliest.value, likeliest.behind(text))
        truncated = cut or (strict.truncated and not closed)
        outcome = _refused(likeliest, contract.issues(likeliest.value), contract, truncated)
        return replace(outcome, reason=Reason.REPAIR_FAILED)
    best = min(by_rank)
    if len(by_rank[best]) > 1:
        return _ambiguous(len(by_rank[best]), contract, strict.truncated)
    [(value, repaired)] = by_rank[best].values()
    stage, span = repaired.stage, (repaired.start, repaired.start + len(repaired.raw))
    if stage is Stage.EXTRACTED:
        return (
            strict
            if strict.ok
            else Outcome(value, Reason.SUCCESS, contract, stage, truncated=strict.truncated, span=span)
        )
    closed = stage is Stage.REPAIRED and _is_closed(value, text[span[1] :])
    truncated = cut_short(finish_reason, within_value=stage is Stage.SALVAGED) and not closed
    return Outcome(
        value, Reason.SUCCESS, contract, stage, truncated=truncated, repaired=(repaired,), span=span
    )


def _judged(
    text: str,
    candidates: list[_Candidate],
    contract: Contract,
    stage: Stage,
    truncated: bool | None,
    *,
    first: bool = False,
) -> Outcome:
    """The one value among the candidates that the contract accepts, or why there is none.

    Of several it is the `first` that holds anything (of an empty one prose may merely speak), or none.
    """
    fitting = [(one, fit) for one in candidates if (fit := _fit(one.value, contract, text))]
    fitting = [(one, fit) for one, fit in fitting if fit.opened is None] or fitting
    if not fitting:
        meant = next((one for one in reversed(candidates) if one.fenced), candidates[-1])
        truncated = truncated and not _is_closed(meant.value, meant.behind(text))
        return _refused(meant, _issues(meant.value, contract, text), contract, truncated, stage)
    best = [(one, fit) for one, fit in fitting if one.fenced] or fitting
    if first:
        best = [next((one for one in best if one[1].value not in ([], {})), best[0])]
    different = {_identity(fit.value, one.raw) for one, fit in best} if len(best) > 1 else best
    if len(different) > 1:
        return _ambiguous(len(different), contract, truncated)
    last, fit = best[-1]
    truncated = truncated and not _is_closed(last.value, last.behind(text))
    stage = max(stage, Stage.EXTRACTED) if fit.unwrapped else stage
    span = last.start, last.start + len(last.raw)
    repaired: tuple[Repaired, ...] = ()
    if fit.opened is not None:
        stage = Stage.REPAIRED
        repaired = (Repaired(0, last.raw, last.start, fit.opened.edits(last.raw, last.start), stage),)
    return Outcome(
        fit.value, Reason.SUCCESS, contract, stage, truncated=truncated, span=span, repaired=repaired
    )


def _is_closed(value: Any, behind: str) -> bool:
    """Whether the one value that was asked for has visibly ended, so that no cut of the text is one of it.

    Of a number under a cut there may be more to come. So there may behind prose: another value that is meant.
    """
    return isinstance(value, (dict, list, str, NotJson)) and not behind.strip(_SAYS_NOTHING)


def _issues(value: Any, contract: Contract, text: str) -> tuple[Issue, ...]:
    """What is wrong with a value: with its elements where it is wrapped around a list of them."""
    if found := opened(value, text, contract):
        value = found.value
    name = _wraps(value, contract)
    if name is None or not isinstance(value[name], list):
        return contract.issues(value)
    issues = contract.issues(value[name])
    return tuple(replace(issue, path=pointer([name]) + issue.path) for issue in issues)


class _Fit(NamedTuple):
    """A value as the contract takes it; whether it had to be unwrapped, and what its strings said."""

    value: Any
    unwrapped: bool
    opened: ParsedStrings | None = None


def _fit(value: Any, contract: Contract, text: str) -> _Fit | None:
    """What the contract accepts of a value that `text` says, or holds."""
    if fit := _fit_as_it_is(value, contract):
        return fit
    found = opened(value, text, contract)
    name = None if found is not None else _wraps(value, contract)
    if name is not None and (found := opened(value[name], text, contract)):
        paths = (pointer([name]) + path for path in found.paths)
        found = ParsedStrings({name: found.value}, tuple(paths))
    if found is not None and (fit := _fit_as_it_is(found.value, contract)):
        return fit._replace(opened=found)
    return None


def _fit_as_it_is(value: Any, contract: Contract) -> _Fit | None:
    taken, accepted = contract.take(value)
    if accepted:
        return _Fit(taken, False)
    if (name := _wraps(value, contract)) is not None:
        taken, accepted = contract.take(value[name])
        if accepted:
            return _Fit(taken, True)
    return None


def _wraps(value: Any, contract: Contract) -> str | None:
    """The key under which an object holds the list that was asked for.

    It is all of the object; `items` where fences are strict, or where other keys are ignored.
    """
    if not contract.many or not isinstance(value, dict):
        return None
    if _ITEMS in value and (len(value) == 1 or contract.extra == "ignore"):
        return _ITEMS
    return next(iter(value)) if len(value) == 1 and contract.fences != "strict" else None


def _identity(value: Any, raw: str) -> str:
    """The same for values that are the same, as 1 and 1.0 are; for those that no encoder reaches into, their
    texts."""
    try:
        text = json.dumps(value, sort_keys=True)
        return json.dumps(json.loads(text, parse_float=_number)) if _WHOLE_FLOAT.search(text) else text
    except RecursionError:
        return raw


def _number(digits: str) -> float:
    number = float(digits)
    return int(number) if number.is_integer() else number


def _refused(
    candidate: _Candidate,
    issues: tuple[Issue, ...],
    contract: Contract,
    truncated: bool | None,
    stage: Stage = Stage.DIRECT,
) -> Outcome:
    rejected = Rejected(0, candidate.raw, issues, candidate.start)
    return Outcome(
        None, issues[0].reason, contract, stage, rejected=(rejected,), issues=issues, truncated=truncated
    )


def _ambiguous(count: int, contract: Contract, truncated: bool | None) -> Outcome:
    return _failure(contract, Reason.AMBIGUOUS, f"{count} different values would do", truncated)


def _failure(contract: Contract, reason: Reason, message: str, truncated: bool | None) -> Outcome:
    return Outcome(None, reason, contract, issues=(Issue(reason, message),), truncated=truncated)


def _candidates(finds: list[Find], depth: int) -> list[_Candidate]:
    """What was found, but for what was thought."""
    kept: list[_Candidate] = []
    aside = 0
    for find in finds:
        if isinstance(find, Values):
            kept += [
                _Candidate(value, raw, start, find.fenced)
                for value, raw, start in zip(find.values, find.raws, find.starts, strict=True)
            ]
            continue
        match find.kind:
            case MarkKind.DRAFT:
                kept, aside = [], 0
            case MarkKind.ASIDE:
                aside = len(kept)
            case MarkKind.ASIDE_ENDS:
                del kept[aside:]
            case _:
                value = find.value or why_not(find.raw, depth)
                kept.append(_Candidate(value, find.raw, find.start, find.fenced))
    return kept


def _scalar(text: str, start: int) -> _Candidate | None:
    """The string, number or literal that stands alone in `text`, but for fences and tags.

    Thinking ends at `start`, if its end is no part of the string.
    """
    match = _SCALAR.match(text)
    if match is None or match.end(1) < start:
        match = _SCALAR.match(text, start)
    try:
        return _Candidate(decode(match[1]), match[1], match.start(1)) if match else None
    except NotJson:
        return None
