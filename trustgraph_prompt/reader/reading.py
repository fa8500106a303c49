"""Reads answers, whole or as they come."""

from __future__ import annotations

from typing import Any

import orjson

from trustgraph_prompt.contract import Contract, Format
from trustgraph_prompt.errors import Issue, Reason
from trustgraph_prompt.reader.outcome import CallReport, Outcome, Rejected


def read(text: str, contract: Contract | Format, *, finish_reason: str | None = None) -> Outcome:
    """What `text` says, by `contract`."""
    reader = StreamReader(contract)
    reader.feed(text)
    return reader.close(finish_reason)


class StreamReader:
    """Reads an answer as it comes."""

    def __init__(self, contract: Contract | Format) -> None:
        self.contract = (
            contract if isinstance(contract, Contract) else Contract.from_schema(None, format=contract)
        )
        self._text = ""
        self._line = ""
        self._objects: list[object] = []
        self._rejected: list[Rejected] = []

    def feed(self, chunk: str) -> list[object]:
        """The objects that this chunk completed."""
        self._text += chunk
        if self.contract.format != "jsonl":
            return []
        *lines, self._line = (self._line + chunk).split("\n")
        return self._lines(lines)

    def close(self, finish_reason: str | None = None) -> Outcome:
        """What the whole answer says."""
        calls = (CallReport("first", self._text, finish_reason),)
        truncated = True if finish_reason == "length" else False if finish_reason == "stop" else None
        value: Any = self._text
        if self.contract.format == "text":
            return Outcome(value, Reason.SUCCESS, self.contract, truncated=truncated, calls=calls)
        if not self._text.strip():
            empty: Any = [] if self.contract.format == "jsonl" else None
            return Outcome(empty, Reason.EMPTY, self.contract, truncated=truncated, calls=calls)
        if self.contract.format == "json":
            try:
                value = orjson.loads(self._text)
            except ValueError:
                return Outcome(
                    None,
                    Reason.INVALID_JSON,
                    self.contract,
                    issues=(Issue(Reason.INVALID_JSON, "no JSON"),),
                    calls=calls,
                )
            issues = self.contract.issues(value)
            reason = issues[0].reason if issues else Reason.SUCCESS
            return Outcome(
                None if issues else value,
                reason,
                self.contract,
                issues=issues,
                truncated=truncated,
                calls=calls,
            )
        self._lines([self._line])
        reason = Reason.SUCCESS if self._objects else Reason.EXTRACTION_FAILED
        if not self._objects and self._rejected:
            reason = self._rejected[0].issues[0].reason
        return Outcome(
            self._objects,
            reason,
            self.contract,
            rejected=tuple(self._rejected),
            truncated=truncated,
            calls=calls,
        )

    def _lines(self, lines: list[str]) -> list[object]:
        found: list[object] = []
        for line in lines:
            if not line.lstrip().startswith("{"):
                continue
            index = len(self._objects) + len(self._rejected)
            try:
                value = orjson.loads(line)
                issues = self.contract.issues(value)
            except ValueError:
                issues = (Issue(Reason.INVALID_JSON, "no JSON"),)
            if issues:
                self._rejected.append(Rejected(index, line, issues))
            else:
                self._objects.append(value)
                found.append(value)
        return found
