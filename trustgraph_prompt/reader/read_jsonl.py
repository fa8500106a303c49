"""Reads the objects of a jsonl answer, wherever they are in its text."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import Issue, Reason
from trustgraph_prompt.json_text.latex import has_hint, may_be_eaten
from trustgraph_prompt.outcome import CallReport, Edit, Outcome, Rejected, Repaired, Stage
from trustgraph_prompt.reader.changed_strings import LatexCommands, parse_strings
from trustgraph_prompt.reader.decode import decode, decode_error
from trustgraph_prompt.reader.markers import Markers
from trustgraph_prompt.reader.other_shapes import OtherShapes, as_object
from trustgraph_prompt.reader.plain_jsonl import PlainJsonl
from trustgraph_prompt.reader.scan_results import MAX_REFUSED, Mark, MarkKind, ScanResult, Values
from trustgraph_prompt.reader.scanner import Scanner
from trustgraph_prompt.reader.truncation import is_truncated

if TYPE_CHECKING:
    from trustgraph_prompt.reader.repair import RepairedValue

# Keys in which models wrap lists of objects; one that the schema declares is not a wrapper.
_WRAPPERS = {"answer", "data", "entries", "items", "list", "objects", "output", "records", "response"} | {
    "result",
    "results",
    "values",
}

_TOGETHER = 100  # objects that are validated in one call, and again one by one where one is refused

# The text around values if each is on a line of its own.
_LINES = re.compile(r"\s*+(?:\{\}[ \t\r]*+(?:\n\s*+|\Z))*+\Z")
# An array without objects, which does not count, or brackets of arrays that may have some.
_ARRAYS = re.compile(r"\[\s*+(?![{\[]|\Z)[^][{}]*+\]?+|((?:\[(?=\[))++|\[|\]++)")
_EMPTY_ARRAY = re.compile(r"(?:\A|\n)[ \t]*\[\s*\][ \t\r]*(?:\n|\Z)")


class JsonlReader:
    """Collects what a scanner finds: the objects that the contract accepts, and those that are rejected.

    It goes on after the clean `lines` of the `text` that an answer begins with, if these were read already.
    Repair has a meter of its own, since it runs while text is scanned, a chunk ahead of all other validation.
    """

    def __init__(
        self,
        contract: Contract,
        markers: Markers,
        commands: LatexCommands,
        lines: PlainJsonl | None = None,
        text: str = "",
    ) -> None:
        self.accepted: list[Any] = [] if lines is None else lines.objects
        self.rejected: list[Rejected] = []
        self.retracted: list[Any] = []
        self.repaired: list[Repaired] = []
        self._unmetered = contract
        self._contract = contract.metered() if lines is None else lines.metered
        self._limits = contract.limits
        self._commands = commands
        self._scanner = Scanner(
            contract.limits,
            names_wrapper=partial(_names_wrapper, contract),
            repair=_repair(contract, commands) if contract.repair else None,
            markers=markers,
        )
        if lines is not None:
            self._scanner.pass_lines(text, len(lines.objects))
        self._shapes = OtherShapes(self._contract)
        self._held: list[Values] = []  # found in other shapes; to be taken when the answer ends
        self._wrapper = (0, 0, 0)
        self._aside = (0, 0, 0)
        self._is_empty = False  # whether a wrapper without elements was found
        self._may_be_eaten = False  # whether strings may have lost the beginnings of commands
        self._refused = 0
        self._has_enough = False  # nothing more is validated
        self._given: int | None = None  # how many objects `feed` returned; None until the answer ends

    def feed(self, text: str) -> list[Any]:
        """Read `text`, and return the objects that it completes and the contract accepts."""
        self._may_be_eaten = self._may_be_eaten or has_hint(text)
        return self._collect(self._scanner.feed(text))

    @property
    def open(self) -> int:
        """How many characters were read of an object that has not ended."""
        return self._scanner.open

    @property
    def _is_full(self) -> bool:
        """Whether the rest of the text is left unread."""
        return self._scanner.full or self._has_enough

    def close(self, rest: str, call: CallReport) -> Outcome:
        """The outcome of the whole text, that of the `call`, which ends with `rest`."""
        self._given = len(self.accepted)
        self.feed(rest)
        self._collect(self._scanner.close())
        self._take_held()
        scanner, between, full = self._scanner, self._scanner.between, self._is_full
        truncated = is_truncated(
            call.finish_reason,
            within_value=scanner.truncated or full or _array_is_open(between),
            within_fence=scanner.fenced,
        )
        if scanner.ends_draft and not full and _has_empty_array(scanner.after_thinking):
            self._retract(0, 0, 0)
        reason = self._reason(truncated)
        return Outcome(
            value=self.accepted,
            reason=reason,
            contract=self._unmetered,
            stage=self._stage(between),
            rejected=tuple(self.rejected),
            issues=self._issues(reason),
            truncated=truncated,
            retracted=tuple(self.retracted),
            repaired=tuple(self.repaired),
            calls=(call,),
        )

    def _stage(self, between: str) -> Stage:
        if self.repaired:
            return Stage.REPAIRED
        is_direct = not (self._held or self._is_full) and _LINES.match(between)
        return Stage.DIRECT if is_direct else Stage.EXTRACTED

    def _reason(self, truncated: bool | None) -> Reason:
        if self.accepted:
            return Reason.SUCCESS
        if self._contract.spent:
            return Reason.EFFORT_SPENT
        if self.rejected:
            return self.rejected[0].issues[0].reason
        around = self._scanner.between, self._scanner.after_thinking
        if self._is_empty or any(map(_has_empty_array, around)):
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

    def _collect(self, results: list[ScanResult]) -> list[Any]:
        fresh: list[Any] = []
        for result in results:
            if self._has_enough:
                break
            if isinstance(result, Values):
                fresh += self._take_run(result)
                continue
            match result.kind:
                case MarkKind.WRAPPER:
                    self._wrapper = self._found
                case MarkKind.WRAPPER_OR_OBJECT if whole := as_object(self._contract, result.value):
                    self._retract(*self._wrapper)
                    self.accepted.append(whole)
                    fresh.append(whole)
                case MarkKind.WRAPPER_OR_OBJECT if self._shapes.is_nothing(result.value):
                    self._is_empty = True
                case MarkKind.BROKEN:
                    self._hold(self._shapes.wrapped(result.raw, result.start))
                    error = result.value or decode_error(result.raw, self._limits.depth)
                    self._reject(result.raw, result.start, Issue(Reason.INVALID_JSON, f"no JSON: {error}"))
                case MarkKind.REPAIRED:
                    self.repaired.append(_repaired(self._count, result))
                    self.accepted.append(result.value.value)
                    fresh.append(result.value.value)
                case MarkKind.DRAFT:
                    self._retract(0, 0, 0)
                    self._aside = (0, 0, 0)
                case MarkKind.ASIDE:
                    self._aside = self._found
                case MarkKind.ASIDE_ENDS:
                    self._retract(*self._aside)
                case MarkKind.CUT:
                    self._hold(self._shapes.wrapped(result.raw, result.start))
                case MarkKind.NOTHING:
                    self._is_empty = True
        return fresh

    def _take_run(self, run: Values) -> list[Any]:
        """The accepted values of a run, as the contract converted them."""
        if len(run.values) > _TOGETHER:
            return [value for part in run.parts(_TOGETHER) for value in self._take_part(part)]
        return self._take_part(run)

    def _take_part(self, run: Values) -> list[Any]:
        if self._has_enough:
            return []
        is_eaten = self._may_be_eaten and any(map(may_be_eaten, run.raws))
        if len(run.values) > 1 and not is_eaten:
            sizes = list(map(len, run.raws))
            together = self._contract.take_all(run.values, sum(sizes), max(sizes))
            if together is not None:
                self.accepted += together
                return together
        fresh: list[Any] = []
        for value, raw, start in zip(run.values, run.raws, run.starts, strict=True):
            edits: tuple[Edit, ...] = ()
            if is_eaten and (restored := self._commands.restored(value, raw, start)):
                value, edits = restored
            taken, accepted = self._contract.take(value, len(raw))
            if not accepted and (found := parse_strings(value, raw, self._contract)):
                value, edits = found.value, (*edits, *found.edits(raw, start))
                taken, accepted = self._contract.take(value)
            if accepted:
                if edits:
                    self.repaired.append(
                        Repaired(self._count, raw, start, tuple(sorted(edits)), Stage.REPAIRED)
                    )
                self.accepted.append(taken)
                fresh.append(taken)
            elif self._shapes.is_nothing(value):
                self._is_empty = True
            elif not self._hold(self._shapes.objects(raw, start)):
                issues = self._contract.issues(value, len(raw))
                if self._contract.spent or not self._reject(raw, start, *issues):
                    self._has_enough = True
                    break
        return fresh

    def _hold(self, run: Values | None) -> bool:
        """Hold back what was found in another shape; False if nothing was, or too much before it."""
        if run is None or len(self._held) >= MAX_REFUSED:
            return False
        self._held.append(run)
        return True

    def _take_held(self) -> None:
        was_enough, self._has_enough = self._has_enough, False
        for run in self._held:
            room = max(self._limits.objects - len(self.accepted), 0)
            if not self._has_enough:
                self._take_run(run.part(0, room))
            self._has_enough = self._has_enough or len(run.values) > room
        self._has_enough = self._has_enough or was_enough

    def _reject(self, raw: str, start: int, *issues: Issue) -> bool:
        """Add a rejected value; False if there were too many."""
        self._refused += 1
        if self._refused > MAX_REFUSED:
            self._has_enough = True
            return False
        self.rejected.append(Rejected(self._count, raw, issues, start))
        return True

    @property
    def _count(self) -> int:
        """How many objects the answer has so far."""
        return len(self.accepted) + len(self.rejected)

    @property
    def _found(self) -> tuple[int, int, int]:
        """How many objects were accepted and rejected so far, and how many runs are held back."""
        return len(self.accepted), len(self.rejected), len(self._held)

    def _retract(self, accepted: int, rejected: int, held: int) -> None:
        self.retracted += self.accepted[accepted : self._given]
        self._given = None if self._given is None else min(self._given, accepted)
        del self.accepted[accepted:], self.rejected[rejected:], self._held[held:]
        self.repaired = [repaired for repaired in self.repaired if repaired.index < accepted + rejected]


def _names_wrapper(contract: Contract, keys: tuple[str, ...]) -> bool:
    names = [decode(key) for key in keys]
    if any(map(contract.declares, names)):
        return False
    if len(names) == 1 and names[0].lower() in _WRAPPERS:
        return True
    wrapper: Any = []
    for name in reversed(names):
        wrapper = {name: wrapper}
    return as_object(contract, wrapper) is None


def _repair(contract: Contract, commands: LatexCommands) -> Callable[[str, bool], RepairedValue | None]:
    # Imported late: its patterns take longer to compile than all others.
    from trustgraph_prompt.reader.repair.best_reading import Repair

    return Repair(contract.metered(), commands).object


def _repaired(index: int, mark: Mark) -> Repaired:
    reading: RepairedValue = mark.value
    edits = tuple(edit._replace(offset=mark.start + edit.offset) for edit in reading.edits)
    return Repaired(index, mark.raw, mark.start, edits, Stage.REPAIRED)


def _has_empty_array(between: str) -> bool:
    """Whether there is an empty array on lines of its own."""
    return "[" in between and _EMPTY_ARRAY.search(between) is not None


def _array_is_open(between: str) -> bool:
    """Whether an array of objects was opened that no later bracket closes."""
    if "[" not in between:
        return False
    brackets: list[str] = _ARRAYS.findall(between)
    levels = {run: run.count("[") - run.count("]") for run in set(brackets)}
    depths = list(accumulate(map(levels.__getitem__, brackets), initial=0))
    return depths[-1] > min(depths)
