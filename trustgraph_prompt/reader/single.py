"""The one value of a json answer: the whole text, else what is fenced, else what stands in prose."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import Issue, Reason
from trustgraph_prompt.reader.decode import NotJson, decode, is_too_deep, why_not
from trustgraph_prompt.reader.outcome import Outcome, Repaired, Stage
from trustgraph_prompt.reader.repair import repair_values
from trustgraph_prompt.reader.scanner import Find, Kind, Scanner, Values
from trustgraph_prompt.reader.truncation import cut_short

BOM = "\ufeff"  # some files begin with it

_AROUND = rf"(?:\s|^{BOM}?[ \t]*(?:`{{3,}}|~{{3,}}).*$|</?\w+>|\A{BOM})*+"
_STRING = r'"(?:[^"\\\n]|\\.)*+'
_BEGUN = r"(?:`{1,2}|~{1,2}|</?\w*+)?"  # a fence or tag under the cut
_SCALAR = re.compile(rf'{_AROUND}({_STRING}"|[-+.\w]++){_AROUND}{_BEGUN}\Z', re.MULTILINE)
_CUT_STRING = re.compile(rf"{_AROUND}{_STRING}\\?\Z", re.MULTILINE)


def read_value(text: str, contract: Contract, finish_reason: str | None) -> Outcome:
    """What `text` says where one value was asked for; `calls` is left to the caller.

    A value that the contract accepts wins over one that it does not, a fenced one over one in prose. Two that
    differ are ambiguous; and where the text ends within a value, that one was meant.
    """
    try:
        value = decode(text.removeprefix(BOM))
    except NotJson:
        pass
    else:
        if not isinstance(value, (dict, list)) or not is_too_deep(value, text, contract.limits.depth):
            return _outcome([value], contract, Stage.DIRECT, cut_short(finish_reason))
    scanner = Scanner(contract.limits, arrays=True)
    candidates = _candidates([*scanner.feed(text), *scanner.close()], contract.limits.depth)
    outcome = _strictly(text, contract, finish_reason, scanner, candidates)
    sound = outcome.ok and not any(isinstance(candidate.value, NotJson) for candidate in candidates)
    if not contract.repair or sound or scanner.full:
        return outcome
    return _repaired(text, contract, finish_reason, scanner.thought, outcome)


def _strictly(
    text: str, contract: Contract, finish_reason: str | None, scanner: Scanner, candidates: list[_Candidate]
) -> Outcome:
    """What is said without any repair."""
    cut = scanner.cut or _CUT_STRING.match(text, scanner.thought) is not None
    truncated = cut_short(finish_reason, within_value=cut or scanner.full, within_fence=scanner.fenced)
    if scalar := _scalar(text, scanner.thought):
        return _outcome(scalar, contract, Stage.EXTRACTED, truncated)
    if cut or scanner.full:
        what = "too many values to choose from" if scanner.full else "the answer ends within a value"
        return _failure(contract, Reason.TRUNCATED, what, truncated)
    values = [candidate for candidate in candidates if not isinstance(candidate.value, NotJson)]
    if values:
        alone = len(candidates) == 1 and values[0].raw == text.strip()
        fenced, rest = ([c.value for c in values if c.fenced is place] for place in (True, False))
        best = fenced if any(_fit(value, contract) for value in fenced) else rest or fenced
        if not any(_fit(value, contract) for value in best):
            best = fenced[-1:] or rest[-1:]
        return _outcome(best, contract, Stage.DIRECT if alone else Stage.EXTRACTED, truncated)
    if candidates:
        message = f"no JSON: {candidates[-1].value}"
        return _failure(contract, Reason.INVALID_JSON, message, truncated)
    return _failure(contract, Reason.EXTRACTION_FAILED, "no JSON in the answer", truncated)


def _repaired(
    text: str, contract: Contract, finish_reason: str | None, start: int, strict: Outcome
) -> Outcome:
    """What is said once what is broken is mended; `strict` where that says nothing, or is what it says."""
    by_stage: dict[Stage, dict[str, tuple[Any, Repaired]]] = {}
    refused: tuple[Any, ...] = ()
    for root, readings in repair_values(text, start, contract):
        fitting = ((reading, fit) for reading in readings if (fit := _fit(reading.value, contract)))
        reading, fit = next(fitting, (readings[0], None))
        if fit is None:
            refused = (reading.value,)
            continue
        stage = Stage.SALVAGED if reading.cut else Stage.REPAIRED if reading.edits else Stage.EXTRACTED
        repaired = Repaired(0, text[root : reading.end], root, reading.edits, stage)
        by_stage.setdefault(stage, {})[json.dumps(fit[0], sort_keys=True)] = fit[0], repaired
    if not by_stage:
        issues = contract.issues(refused[0]) if refused else strict.issues
        return replace(strict, issues=issues, reason=Reason.REPAIR_FAILED) if refused else strict
    stage = min(by_stage)
    if len(by_stage[stage]) > 1:
        message = f"{len(by_stage[stage])} different values would do"
        return _failure(contract, Reason.AMBIGUOUS, message, strict.truncated)
    [(value, repaired)] = by_stage[stage].values()
    if stage is Stage.EXTRACTED:
        return (
            strict
            if strict.ok
            else Outcome(value, Reason.SUCCESS, contract, stage, truncated=strict.truncated)
        )
    truncated = cut_short(finish_reason, within_value=stage is Stage.SALVAGED)
    return Outcome(value, Reason.SUCCESS, contract, stage, truncated=truncated, repaired=(repaired,))


def _outcome(values: list[Any], contract: Contract, stage: Stage, truncated: bool | None) -> Outcome:
    fitting = {json.dumps(fit[0], sort_keys=True): fit for value in values if (fit := _fit(value, contract))}
    if not fitting:
        issues = contract.issues(values[-1])
        return Outcome(None, issues[0].reason, contract, stage, issues=issues, truncated=truncated)
    if len(fitting) > 1:
        message = f"{len(fitting)} different values would do"
        return _failure(contract, Reason.AMBIGUOUS, message, truncated)
    [(value, unwrapped)] = fitting.values()
    stage = max(stage, Stage.EXTRACTED) if unwrapped else stage
    return Outcome(value, Reason.SUCCESS, contract, stage, truncated=truncated)


def _fit(value: Any, contract: Contract) -> tuple[Any, bool] | None:
    """The value that the contract accepts, as it takes it, and whether it had to be unwrapped.

    Unwrapped is the list that is all of an object where a list was asked for.
    """
    if contract.accepts(value):
        return contract.conform(value), False
    if contract.many and isinstance(value, dict) and len(value) == 1:
        [wrapped] = value.values()
        if contract.accepts(wrapped):
            return contract.conform(wrapped), True
    return None


def _failure(contract: Contract, reason: Reason, message: str, truncated: bool | None) -> Outcome:
    return Outcome(None, reason, contract, issues=(Issue(reason, message),), truncated=truncated)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """What may be the value, or is broken; and whether it stands in a code fence."""

    value: Any
    raw: str
    fenced: bool


def _candidates(finds: list[Find], depth: int) -> list[_Candidate]:
    """What was found, but for what was thought."""
    kept: list[_Candidate] = []
    aside = 0
    for find in finds:
        if isinstance(find, Values):
            kept += [
                _Candidate(value, raw, find.fenced) for value, raw in zip(find.values, find.raws, strict=True)
            ]
            continue
        match find.kind:
            case Kind.DRAFT:
                kept, aside = [], 0
            case Kind.ASIDE:
                aside = len(kept)
            case Kind.ASIDE_ENDS:
                del kept[aside:]
            case _:
                kept.append(_Candidate(find.value or why_not(find.raw, depth), find.raw, fenced=False))
    return kept


def _scalar(text: str, start: int) -> list[Any]:
    """The string, number or literal that stands alone in `text`, but for fences and tags.

    Thinking ends at `start`, if its end is no part of the string.
    """
    match = _SCALAR.match(text)
    if match is None or match.end(1) < start:
        match = _SCALAR.match(text, start)
    try:
        return [decode(match[1])] if match else []
    except NotJson:
        return []
