"""What there is to say about an answer that was read: for people, with carets under places; for programs."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import orjson

from trustgraph_prompt.cli import output
from trustgraph_prompt.cli.caret import underlined, visible
from trustgraph_prompt.errors import Issue, Reason, excerpt
from trustgraph_prompt.reader import Outcome, Rejected, Stage, place

IN_SHORT = 10
AT_LENGTH = 50
"""How many remarks are told to people; programs get all."""

CANDIDATES = 20
"""How many values of a text are tried to find the one that was refused."""

_STAGES = {
    Stage.NATIVE: "read as it is",
    Stage.DIRECT: "read as it is",
    Stage.EXTRACTED: "extracted from other text or another layout",
    Stage.REPAIRED: "repaired, since the JSON itself was broken",
    Stage.SALVAGED: "salvaged: a cut value was closed up",
}
_NO_JSON = (Reason.INVALID_JSON, Reason.EXTRACTION_FAILED)
_BRACKET = re.compile(r"[{\[]")
_PLACE_IN_RAW = re.compile(r"(?: starting)? at line \d+ column \d+\Z")  # ours are in the file


class Remark(NamedTuple):
    """Something to say about a stretch of the answer, or about all of it."""

    what: str
    why: str
    span: place.Span | None = None
    colour: str = "red"
    begins: int | None = None  # where what it is about begins, if that is far before


class Report:
    """About the answer in the file `name`: what came of it, what was refused and where, where it was cut."""

    def __init__(self, name: str, outcome: Outcome) -> None:
        self._name = name
        self._outcome = outcome
        self._text = outcome.calls[-1].text
        self._lines = place.Lines(self._text)
        self._is_text = outcome.contract.format == "text"
        self._cut = _cut(self._text) if outcome.truncated and not self._is_text else None
        self._duplicates = [] if self._is_text else list(place.duplicates(self._text))

    def lines(self, *, at_length: bool) -> Iterator[str]:
        """For people: the verdict, then a line for each remark; at length, with the place it is about."""
        outcome = self._outcome
        yield f"{output.paint(self._name, 'green' if outcome.ok else 'red')}: {self._verdict()}"
        most = AT_LENGTH if at_length else IN_SHORT
        remarks = self._remarks()
        for remark in islice(remarks, most):
            text = f"{output.paint(remark.what, remark.colour)}: {visible(excerpt(remark.why, 300))}"
            if remark.span is None:
                yield f"{self._name}: {text}"
                continue
            line, column = self._lines.at(remark.span.start)
            yield f"{self._name}:{line}:{column}: {text}"
            if at_length:
                yield from self._place(remark)
        if more := sum(1 for _ in remarks):
            yield f"and {more:,} more; --json has all"

    def _place(self, remark: Remark) -> Iterator[str]:
        assert remark.span is not None
        line = self._lines.at(remark.span.start).line
        if remark.begins is not None and (first := self._lines.at(remark.begins).line) < line:
            yield f"{first:>5} | {underlined(self._text, remark.begins, remark.begins)[0]}"
            if first + 1 < line:
                yield "    … |"
        shown, mark = underlined(self._text, *remark.span)
        yield f"{line:>5} | {shown}"
        yield f"      | {output.paint(mark, remark.colour)}"

    def as_json(self) -> dict[str, Any]:
        """For programs: the outcome by the names of its fields, with places.

        `line` and `column` count from 1, `start` is a number of characters from 0. `cut` is where a cut
        answer ends: in the value that begins at `begins`, and `path` leads there.
        """
        cut = self._cut
        return output.outcome_as_json(self._outcome) | {
            "file": self._name,
            "format": self._outcome.contract.format,
            "issues": [self._issue(issue, span) for issue, span in self._whole()],
            "rejected": [
                {
                    "index": rejected.index,
                    **self._at(rejected.start),
                    "raw": rejected.raw,
                    "issues": [self._issue(issue, self._span(rejected, issue)) for issue in rejected.issues],
                }
                for rejected in self._rejected()
            ],
            "cut": cut and {**self._at(cut.end), "path": cut.path, "begins": self._at(cut.start)},
            "duplicates": [{"key": twice.key, **self._at(twice.start)} for twice in self._duplicates],
        }

    def _verdict(self) -> str:
        outcome = self._outcome
        if not outcome.ok:
            said = [f"nothing to use: {outcome.reason.value}"]
        elif self._is_text:
            said = [output.counted(len(outcome.value), "character")]
        else:
            noun = "object" if outcome.contract.format == "jsonl" else "value"
            said = [f"{output.counted(len(outcome.objects), noun)}, {_STAGES[outcome.stage]}"]
        said += [f"{len(outcome.rejected):,} refused"] if outcome.rejected else []
        said += ["cut off"] if outcome.truncated and outcome.reason is not Reason.TRUNCATED else []
        said += [f"{len(outcome.retracted):,} taken back"] if outcome.retracted else []
        return "; ".join(said)

    def _remarks(self) -> Iterator[Remark]:
        for rejected in self._rejected():
            for issue in rejected.issues:
                what = f"refused object {rejected.index + 1}"
                yield Remark(what, _message(issue), self._span(rejected, issue))
        for issue, span in self._whole():
            if issue.reason is not Reason.TRUNCATED or self._cut is None:
                yield Remark(issue.reason.value, _message(issue), span)
        if self._outcome.reason is Reason.AMBIGUOUS:
            for value in _whole_values(self._text):
                yield Remark("perhaps", "this value is meant", place.Span(value.start, value.end), "yellow")
        for twice in self._duplicates:
            span = place.Span(twice.start, twice.start + len(twice.key) + 2)
            yield Remark(
                "duplicate key", f'"{twice.key}" is there twice, the last one counts', span, "yellow"
            )
        if cut := self._cut:
            line, column = self._lines.at(cut.start)
            where = f"the value that begins in line {line} column {column}"
            where += f", at {cut.path}" if cut.path else ""
            span = place.Span(cut.end, cut.end)
            yield Remark("cut off", f"the text ends in {where}", span, "yellow", begins=cut.start)
        elif self._outcome.truncated and not self._says(Reason.TRUNCATED):
            yield Remark("cut off", "the text ends before the model had finished", colour="yellow")
        for value in self._outcome.retracted:
            yield Remark("taken back", output.json_text(value), colour="yellow")

    def _says(self, reason: Reason) -> bool:
        return any(issue.reason is reason for issue in self._outcome.issues)

    def _rejected(self) -> Iterator[Rejected]:
        after = 0
        for rejected in self._outcome.rejected:
            start = rejected.start if rejected.start >= 0 else self._text.find(rejected.raw, after)
            after = start + len(rejected.raw)
            yield replace(rejected, start=start)

    def _whole(self) -> Iterator[tuple[Issue, place.Span | None]]:
        """The issues of the answer as a whole, and their places where one can be told."""
        judged = self._judged()
        for issue in self._outcome.issues:
            yield issue, None if judged is None else self._span(judged, issue)

    def _judged(self) -> Rejected | None:
        """The one value that was refused where one was asked for, if it can be told from the others."""
        outcome, text = self._outcome, self._text
        if outcome.reason in _NO_JSON:
            broken = [value.start for value in place.values(text) if value.state is place.State.BROKEN]
            bracket = _BRACKET.search(text)
            start = broken[-1] if broken else bracket.start() if bracket else len(text) - len(text.lstrip())
            return Rejected(0, text[start:], outcome.issues, start)
        candidates = [(value.start, value.end) for value in _whole_values(text)[-CANDIDATES:]]
        content = text.strip()
        for start, end in [*reversed(candidates), (text.find(content), text.find(content) + len(content))]:
            raw = text[start:end]
            if _is_refused_for(outcome, raw):
                return Rejected(0, raw, outcome.issues, start)
        return None

    def _span(self, rejected: Rejected, issue: Issue) -> place.Span:
        raw, start = rejected.raw, rejected.start
        if issue.reason in _NO_JSON:
            breaks = place.breaks(raw, self._outcome.contract.limits.depth)
            span = place.Span(breaks or 0, (breaks or 0) + 1)
        else:
            span = place.member(raw, issue.path)
        return place.Span(start + span.start, start + span.end)

    def _issue(self, issue: Issue, span: place.Span | None) -> dict[str, Any]:
        at = dict.fromkeys(("start", "line", "column")) if span is None else self._at(span.start)
        return output.issue_as_json(issue) | at

    def _at(self, start: int) -> dict[str, int]:
        line, column = self._lines.at(start)
        return {"start": start, "line": line, "column": column}


def _message(issue: Issue) -> str:
    return _PLACE_IN_RAW.sub("", str(issue))


def _is_refused_for(outcome: Outcome, raw: str) -> bool:
    try:
        return outcome.contract.issues(orjson.loads(raw)) == outcome.issues != ()
    except orjson.JSONDecodeError:
        return False


def _whole_values(text: str) -> list[place.Value]:
    return [value for value in place.values(text) if value.state is place.State.WHOLE]


def _cut(text: str) -> place.Value | None:
    """The value that a text ends in, None where it ends in none."""
    last = deque(place.values(text), maxlen=1)
    if not last or last[0].state is not place.State.CUT:
        return None
    return last[0]._replace(end=max(last[0].start + 1, len(text.rstrip())))
