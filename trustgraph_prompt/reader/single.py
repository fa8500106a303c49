"""The one value of a json answer: the whole text, else what is fenced, else what stands in prose."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import Issue, Reason
from trustgraph_prompt.reader.decode import MAX_DEPTH, NotJson, decode, refuse
from trustgraph_prompt.reader.outcome import Outcome, Stage
from trustgraph_prompt.reader.scanner import Kind, Piece, Scanner
from trustgraph_prompt.reader.truncation import cut_short

_AROUND = re.compile(r"^[ \t]*(?:`{3,}|~{3,}).*$|</?\w+>", re.MULTILINE)


def read_value(text: str, contract: Contract, finish_reason: str | None) -> Outcome:
    """What `text` says where one value was asked for; `calls` is left to the caller.

    A value that the contract accepts wins over one that it does not, a fenced one over one in prose. Two that
    differ are ambiguous; and where the text ends within a value, that one was meant.
    """
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        try:
            value = decode(text)
        except NotJson:
            pass
        else:
            return _outcome([value], contract, Stage.DIRECT, cut_short(finish_reason))
    scanner = Scanner(arrays=True)
    pieces = _after_drafts([*scanner.feed(text), *scanner.close()])
    truncated = cut_short(
        finish_reason, within_value=scanner.cut or scanner.full, within_fence=scanner.fenced
    )
    if scanner.cut or scanner.full:
        what = "too many values to choose from" if scanner.full else "the answer ends within a value"
        return _failure(contract, Reason.TRUNCATED, what, truncated)
    values, broken = _decoded(pieces)
    if not (values or broken):
        values, broken = _scalar(scanner.between)
    if values:
        alone = len(pieces) == 1 and pieces[0].raw == text.strip()
        fenced, rest = ([value for value, inside in values if inside is place] for place in (True, False))
        best = fenced if any(_fit(value, contract) for value in fenced) else rest or fenced
        if not any(_fit(value, contract) for value in best):
            best = fenced[-1:] or rest[-1:]
        return _outcome(best, contract, Stage.DIRECT if alone else Stage.EXTRACTED, truncated)
    if broken:
        return _failure(contract, Reason.INVALID_JSON, f"no JSON: {broken[-1]}", truncated)
    return _failure(contract, Reason.EXTRACTION_FAILED, "no JSON in the answer", truncated)


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
    """The value that the contract accepts, and whether it had to be unwrapped: the list that is all of it."""
    if contract.accepts(value):
        return value, False
    if contract.many and isinstance(value, dict) and len(value) == 1:
        [wrapped] = value.values()
        if contract.accepts(wrapped):
            return wrapped, True
    return None


def _failure(contract: Contract, reason: Reason, message: str, truncated: bool | None) -> Outcome:
    return Outcome(None, reason, contract, issues=(Issue(reason, message),), truncated=truncated)


def _after_drafts(pieces: list[Piece]) -> list[Piece]:
    drafts = [index for index, piece in enumerate(pieces) if piece.kind is Kind.DRAFT]
    return pieces[drafts[-1] + 1 :] if drafts else pieces


def _decoded(pieces: Iterable[Piece]) -> tuple[list[tuple[Any, bool]], list[str]]:
    """The values with whether they are fenced, and what is wrong with what was meant to be one."""
    values, broken = [], []
    for piece in pieces:
        try:
            value = decode(piece.raw) if piece.kind is Kind.VALUE else refuse(piece.raw)
            values.append((value, piece.fenced))
        except NotJson as error:
            broken.append(str(error))
    return values, broken


def _scalar(between: str) -> tuple[list[tuple[Any, bool]], list[str]]:
    """A string, number or literal that stands alone but for fences and tags."""
    try:
        return [(decode(_AROUND.sub("", between).strip()), False)], []
    except NotJson:
        return [], []
