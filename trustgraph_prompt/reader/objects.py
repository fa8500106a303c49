"""The objects of a jsonl answer, wherever they are in its text."""

from __future__ import annotations

import re
from typing import Any

import orjson

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import Issue, Reason
from trustgraph_prompt.reader.decode import MAX_DEPTH, NotJson, decode, has_long_number, why_not
from trustgraph_prompt.reader.outcome import Outcome, Rejected, Stage
from trustgraph_prompt.reader.scanner import MAX_OBJECTS, Find, Kind, Scanner, Values
from trustgraph_prompt.reader.truncation import cut_short

# Single keys that models wrap lists of objects in; a schema that declares one of them takes it back.
_WRAPPERS = {"answer", "data", "entries", "items", "list", "objects", "output", "records", "response"} | {
    "result",
    "results",
    "values",
}

_NEWLINE = "\n"  # the only character that ends a line
_COMMA_BETWEEN = re.compile(r"\}[ \t\r]*+,")  # perhaps between two objects

# What surrounds values where each stands on a line of its own.
_LINES = re.compile(r"\s*+(?:\{\}[ \t\r]*+(?:\n\s*+|\Z))*+\Z")
_ARRAYS = re.compile(r"\[[^][{}]*+\]|(\[)(?=\s*+(?:[\[{]|\Z))|(\])")  # 1 opens one of objects, 2 may close it
_EMPTY_ARRAY = re.compile(r"(?:\A|\n)[ \t]*\[\s*\][ \t\r]*(?:\n|\Z)")


class Objects:
    """Collects what a scanner finds: the objects that meet the contract, and what was refused."""

    def __init__(self, contract: Contract) -> None:
        self.accepted: list[Any] = []
        self.rejected: list[Rejected] = []
        self.retracted: list[Any] = []
        self._contract = contract
        self._scanner = Scanner(names_wrapper=self._names_wrapper)
        self._wrapper = (0, 0)
        self._aside = (0, 0)
        self._says_nothing = False

    def feed(self, text: str) -> list[Any]:
        """The objects that `text` completes and the contract accepts."""
        return self._collect(self._scanner.feed(text))

    def close(self, finish_reason: str | None) -> Outcome:
        """What all of the text says; `calls` is left to the caller."""
        self._collect(self._scanner.close())
        scanner, between = self._scanner, self._scanner.between
        truncated = cut_short(
            finish_reason,
            within_value=scanner.cut or scanner.full or _array_is_open(between),
            within_fence=scanner.fenced,
        )
        if scanner.ends_draft and _EMPTY_ARRAY.search(scanner.behind):
            self._retract(0, 0)
        nothing = self._says_nothing or _EMPTY_ARRAY.search(between) is not None
        reason = self._reason(truncated, nothing)
        return Outcome(
            value=self.accepted,
            reason=reason,
            contract=self._contract,
            stage=Stage.DIRECT if _LINES.match(between) else Stage.EXTRACTED,
            rejected=tuple(self.rejected),
            issues=self._issues(reason),
            truncated=truncated,
            retracted=tuple(self.retracted),
        )

    def _reason(self, truncated: bool | None, says_nothing: bool) -> Reason:
        if self.accepted:
            return Reason.SUCCESS
        if self.rejected:
            return self.rejected[0].issues[0].reason
        if says_nothing:
            return Reason.SUCCESS
        return Reason.TRUNCATED if truncated else Reason.EXTRACTION_FAILED

    def _issues(self, reason: Reason) -> tuple[Issue, ...]:
        if self._scanner.full:
            return (Issue(Reason.TRUNCATED, f"more than {MAX_OBJECTS} objects: the rest was not read"),)
        if reason is Reason.TRUNCATED:
            return (Issue(reason, "the answer ends before an object is complete"),)
        if reason is Reason.EXTRACTION_FAILED:
            return (Issue(reason, "no object in the answer"),)
        return ()

    def _collect(self, finds: list[Find]) -> list[Any]:
        fresh: list[Any] = []
        for find in finds:
            if isinstance(find, Values):
                fresh += self._judge_all(find)
                continue
            match find.kind:
                case Kind.BROKEN:
                    self._reject(find.raw, find.start, _no_json(find.value or why_not(find.raw)))
                case Kind.DRAFT:
                    self._retract(0, 0)
                    self._aside = (0, 0)
                case Kind.ASIDE:
                    self._aside = len(self.accepted), len(self.rejected)
                case Kind.ASIDE_ENDS:
                    self._retract(*self._aside)
                case Kind.WRAPPER:
                    self._wrapper = len(self.accepted), len(self.rejected)
                case Kind.WRAPPER_OR_OBJECT if self._contract.accepts(find.value):
                    self._retract(*self._wrapper)
                    self.accepted.append(find.value)
                    fresh.append(find.value)
                case Kind.NOTHING:
                    self._says_nothing = True
        return fresh

    def _judge_all(self, run: Values) -> list[Any]:
        """The accepted ones among the values of a run."""
        if self._contract.accepts_all(run.values):
            self.accepted += run.values
            return run.values
        return [
            value
            for value, raw, start in zip(run.values, run.raws, run.starts, strict=True)
            if self._judge(value, raw, start)
        ]

    def _judge(self, value: Any, raw: str, start: int) -> bool:
        if self._contract.accepts(value):
            self.accepted.append(value)
            return True
        self._reject(raw, start, *self._contract.issues(value))
        return False

    def _reject(self, raw: str, start: int, *issues: Issue) -> None:
        self.rejected.append(Rejected(len(self.accepted) + len(self.rejected), raw, issues))

    def _retract(self, accepted: int, rejected: int) -> None:
        self.retracted += self.accepted[accepted:]
        del self.accepted[accepted:], self.rejected[rejected:]

    def _names_wrapper(self, key: str) -> bool:
        name = decode(key)
        if self._contract.declares(name):
            return False
        return name.lower() in _WRAPPERS or not self._contract.accepts({name: []})


def _no_json(error: NotJson) -> Issue:
    return Issue(Reason.INVALID_JSON, f"no JSON: {error}")


def clean_lines(text: str, contract: Contract) -> list[Any] | None:
    """The objects of a text that is one object a line and nothing else, each as asked for; else None.

    The way nearly every answer goes, at the speed of the decoder.
    """
    content = text.strip(" \t\r\n")
    if not (content.startswith("{") and content.endswith("}")) or has_long_number(content):
        return None
    try:
        values = _decode_lines(content)
    except orjson.JSONDecodeError:
        return None
    if set(map(type, values)) != {dict} or len(values) > MAX_OBJECTS or _may_be_deep(content, len(values)):
        return None
    if "[" in content and any(isinstance(next(iter(value.values()), None), list) for value in values):
        return None  # perhaps a wrapper
    return values if contract.accepts_all(values) else None


def _decode_lines(content: str) -> list[Any]:
    """The value of each line; in one call where no newline can be in a value, for want of other commas."""
    if not _COMMA_BETWEEN.search(content):
        values: list[Any] = orjson.loads(f"[{content.replace(_NEWLINE, ',')}]")
        if len(values) == content.count(_NEWLINE) + 1:
            return values
    return [orjson.loads(line) for line in content.split(_NEWLINE) if line and not line.isspace()]


def _may_be_deep(content: str, values: int) -> bool:
    if content.count("{") + content.count("[") < MAX_DEPTH + values:
        return False  # each value has a bracket of its own
    return any(line.count("{") + line.count("[") > MAX_DEPTH for line in content.split(_NEWLINE))


def _array_is_open(between: str) -> bool:
    depth = 0
    for opens, closes in _ARRAYS.findall(between):
        depth = depth + 1 if opens else max(depth - bool(closes), 0)
    return depth > 0
