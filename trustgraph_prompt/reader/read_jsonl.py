"""The objects of a jsonl answer, wherever they are in its text."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import accumulate, repeat
from typing import TYPE_CHECKING, Any

import orjson

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import Issue, Reason
from trustgraph_prompt.outcome import Outcome, Rejected, Repaired, Stage
from trustgraph_prompt.reader.decode import decode, decode_lines, has_long_number, is_too_deep, why_not
from trustgraph_prompt.reader.json_in_strings import opened
from trustgraph_prompt.reader.scan_results import MAX_REFUSED, Find, Mark, MarkKind, Values
from trustgraph_prompt.reader.scanner import Scanner
from trustgraph_prompt.reader.truncation import cut_short

if TYPE_CHECKING:
    from trustgraph_prompt.reader.repair.accepted import Reading

# Single keys that models wrap lists of objects in; a schema that declares one of them takes it back.
_WRAPPERS = {"answer", "data", "entries", "items", "list", "objects", "output", "records", "response"} | {
    "result",
    "results",
    "values",
}

# What surrounds values where each stands on a line of its own.
_LINES = re.compile(r"\s*+(?:\{\}[ \t\r]*+(?:\n\s*+|\Z))*+\Z")
# An array that holds no objects, which counts for nothing, or brackets of those that may.
_ARRAYS = re.compile(r"\[\s*+(?![{\[]|\Z)[^][{}]*+\]?+|((?:\[(?=\[))++|\[|\]++)")
_EMPTY_ARRAY = re.compile(r"(?:\A|\n)[ \t]*\[\s*\][ \t\r]*(?:\n|\Z)")


class JsonlReader:
    """Collects what a scanner finds: the objects that meet the contract, and what was refused.

    Repair counts its steps by itself: it is done while text is scanned, a chunk ahead of all other judging.
    """

    def __init__(self, contract: Contract) -> None:
        self.accepted: list[Any] = []
        self.rejected: list[Rejected] = []
        self.retracted: list[Any] = []
        self.repaired: list[Repaired] = []
        self._contract = contract.metered()
        self._limits = contract.limits
        self._scanner = Scanner(
            contract.limits,
            names_wrapper=partial(_names_wrapper, contract),
            repair=_repair(contract) if contract.repair else None,
        )
        self._wrapper = (0, 0)
        self._aside = (0, 0)
        self._says_nothing = False
        self._refused = 0
        self._has_enough = False  # and nothing more is judged
        self._given: int | None = None  # how many objects were given before the end; None is all

    def feed(self, text: str) -> list[Any]:
        """The objects that `text` completes and the contract accepts."""
        return self._collect(self._scanner.feed(text))

    @property
    def open(self) -> int:
        """How many characters have come of an object whose end has not."""
        return self._scanner.open

    @property
    def _is_full(self) -> bool:
        """Whether the rest of the text is left unread."""
        return self._scanner.full or self._has_enough

    def close(self, rest: str, finish_reason: str | None) -> Outcome:
        """What all of the text says, of which `rest` is the end; `calls` is left to the caller."""
        self._given = len(self.accepted)
        self._collect(self._scanner.feed(rest))
        self._collect(self._scanner.close())
        scanner, between, full = self._scanner, self._scanner.between, self._is_full
        truncated = cut_short(
            finish_reason,
            within_value=scanner.cut or full or _array_is_open(between),
            within_fence=scanner.fenced,
        )
        at_last_nothing = _has_empty_array(scanner.behind)
        if scanner.ends_draft and not full and at_last_nothing:
            self._retract(0, 0)
        nothing = self._says_nothing or at_last_nothing or _has_empty_array(between)
        reason = self._reason(truncated, nothing)
        return Outcome(
            value=self.accepted,
            reason=reason,
            contract=self._contract,
            stage=self._stage(between),
            rejected=tuple(self.rejected),
            issues=self._issues(reason),
            truncated=truncated,
            retracted=tuple(self.retracted),
            repaired=tuple(self.repaired),
        )

    def _stage(self, between: str) -> Stage:
        if self.repaired:
            return Stage.REPAIRED
        return Stage.DIRECT if _LINES.match(between) and not self._is_full else Stage.EXTRACTED

    def _reason(self, truncated: bool | None, says_nothing: bool) -> Reason:
        if self.accepted:
            return Reason.SUCCESS
        if self._contract.spent:
            return Reason.EFFORT_SPENT
        if self.rejected:
            return self.rejected[0].issues[0].reason
        if says_nothing:
            return Reason.SUCCESS
        return Reason.TRUNCATED if truncated else Reason.EXTRACTION_FAILED

    def _issues(self, reason: Reason) -> tuple[Issue, ...]:
        if spent := self._contract.spent:
            return (replace(spent, message=f"{spent.message}: the rest was not read"),)
        if self._is_full:
            most = f"{self._limits.objects:,} objects, or {MAX_REFUSED:,} of them refused"
            return (Issue(Reason.TRUNCATED, f"more than {most}: the rest was not read"),)
        if reason is Reason.TRUNCATED:
            where = "within thinking" if self._scanner.thinks else "before an object is complete"
            return (Issue(reason, f"the answer ends {where}"),)
        if reason is Reason.EXTRACTION_FAILED:
            return (Issue(reason, "no object in the answer"),)
        return ()

    def _collect(self, finds: list[Find]) -> list[Any]:
        fresh: list[Any] = []
        for find in finds:
            if self._has_enough:
                break
            if isinstance(find, Values):
                fresh += self._judge_all(find)
                continue
            match find.kind:
                case MarkKind.BROKEN:
                    error = find.value or why_not(find.raw, self._limits.depth)
                    self._reject(find.raw, find.start, Issue(Reason.INVALID_JSON, f"no JSON: {error}"))
                case MarkKind.MENDED:
                    self.repaired.append(_repaired(self._count, find))
                    self.accepted.append(find.value.value)
                    fresh.append(find.value.value)
                case MarkKind.DRAFT:
                    self._retract(0, 0)
                    self._aside = (0, 0)
                case MarkKind.ASIDE:
                    self._aside = len(self.accepted), len(self.rejected)
                case MarkKind.ASIDE_ENDS:
                    self._retract(*self._aside)
                case MarkKind.WRAPPER:
                    self._wrapper = len(self.accepted), len(self.rejected)
                case MarkKind.WRAPPER_OR_OBJECT if whole := _as_object(self._contract, find.value):
                    self._retract(*self._wrapper)
                    self.accepted.append(whole)
                    fresh.append(whole)
                case MarkKind.NOTHING:
                    self._says_nothing = True
        return fresh

    def _judge_all(self, run: Values) -> list[Any]:
        """The accepted ones among the values of a run, as the contract takes them."""
        if len(run.values) > 1:
            sizes = list(map(len, run.raws))
            together = self._contract.take_all(run.values, sum(sizes), max(sizes))
            if together is not None:
                self.accepted += together
                return together
        fresh: list[Any] = []
        for value, raw, start in zip(run.values, run.raws, run.starts, strict=True):
            taken, accepted = self._contract.take(value, len(raw))
            if not accepted and (found := opened(value, raw, self._contract)):
                value = found.value
                taken, accepted = self._contract.take(value)
                if accepted:
                    edits = found.edits(raw, start)
                    self.repaired.append(Repaired(self._count, raw, start, edits, Stage.REPAIRED))
            if accepted:
                self.accepted.append(taken)
                fresh.append(taken)
            else:
                issues = self._contract.issues(value, len(raw))
                if self._contract.spent or not self._reject(raw, start, *issues):
                    self._has_enough = True
                    break
        return fresh

    def _reject(self, raw: str, start: int, *issues: Issue) -> bool:
        """Whether there is room for one more that is refused."""
        self._refused += 1
        if self._refused > MAX_REFUSED:
            self._has_enough = True
            return False
        self.rejected.append(Rejected(self._count, raw, issues, start))
        return True

    @property
    def _count(self) -> int:
        """How many objects of the answer there were."""
        return len(self.accepted) + len(self.rejected)

    def _retract(self, accepted: int, rejected: int) -> None:
        self.retracted += self.accepted[accepted : self._given]
        self._given = None if self._given is None else min(self._given, accepted)
        del self.accepted[accepted:], self.rejected[rejected:]
        self.repaired = [repaired for repaired in self.repaired if repaired.index < accepted + rejected]


def _names_wrapper(contract: Contract, key: str) -> bool:
    name = decode(key)
    if contract.declares(name):
        return False
    return name.lower() in _WRAPPERS or _as_object(contract, {name: []}) is None


def _as_object(contract: Contract, wrapper: dict[str, Any]) -> dict[str, Any] | None:
    """What begins like a wrapper as the object that the contract takes it for, and leaves whole."""
    taken, accepted = contract.take(wrapper)
    return taken if accepted and next(iter(wrapper)) in taken else None


def _repair(contract: Contract) -> Callable[[str, bool], Reading | None]:
    from trustgraph_prompt.reader.repair.accepted import (
        Repair,  # its grammar takes longer to compile than all others
    )

    return Repair(contract.metered()).object


def _repaired(index: int, find: Mark) -> Repaired:
    reading: Reading = find.value
    edits = tuple(edit._replace(offset=find.start + edit.offset) for edit in reading.edits)
    return Repaired(index, find.raw, find.start, edits, Stage.REPAIRED)


def clean_lines(text: str, contract: Contract) -> list[Any] | None:
    """The objects of a text that is one object a line and nothing else, each as asked for; else None.

    The way nearly every answer goes, at the speed of the decoder.
    """
    content = text.strip(" \t\r\n")
    if not (content.startswith("{") and content.endswith("}")) or has_long_number(content):
        return None
    lines = content.split("\n")  # the only character that ends a line
    if len(lines) > contract.limits.objects:
        return None
    try:
        values = decode_lines(content, lines)
    except orjson.JSONDecodeError:
        return None
    if set(map(type, values)) != {dict}:
        return None
    if "[" in content and any(isinstance(next(iter(value.values()), None), list) for value in values):
        return None  # perhaps a wrapper
    depth, longest = contract.limits.depth, max(map(len, lines))
    if longest > depth and any(map(is_too_deep, values, filter(str.strip, lines), repeat(depth))):
        return None
    return contract.take_all(values, len(content), longest)


def _has_empty_array(between: str) -> bool:
    """Whether an array without elements stands on lines of its own."""
    return "[" in between and _EMPTY_ARRAY.search(between) is not None


def _array_is_open(between: str) -> bool:
    """Whether an array of objects was opened that none of the closing brackets behind it closes."""
    if "[" not in between:
        return False
    brackets: list[str] = _ARRAYS.findall(between)
    levels = {run: run.count("[") - run.count("]") for run in set(brackets)}
    depths = list(accumulate(map(levels.__getitem__, brackets), initial=0))
    return depths[-1] > min(depths)
