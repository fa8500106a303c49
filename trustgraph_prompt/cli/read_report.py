"""Reports what was read from an answer: for people, with carets under positions, and for programs."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from trustgraph_prompt.cli import output
from trustgraph_prompt.cli.source_excerpt import issue_span, rule_lines, underlined, visible
from trustgraph_prompt.contract.rule_in_source import RuleSource, broken_rule
from trustgraph_prompt.errors import Issue, Reason, excerpt
from trustgraph_prompt.json_text import positions
from trustgraph_prompt.reader import Outcome, Rejected, Repaired, Stage

IN_SHORT = 10
AT_LENGTH = 50
"""How many remarks people get, without and with `--explain`; programs get all."""

_STAGES = {
    Stage.NATIVE: "read as it is",
    Stage.DIRECT: "read as it is",
    Stage.EXTRACTED: "extracted from other text or another layout",
    Stage.REPAIRED: "repaired, since the JSON itself was broken",
    Stage.SALVAGED: "salvaged: closed where the text ends",
}
_BRACKET = re.compile(r"[{\[]")


class AnswerRemark(NamedTuple):
    """A remark about a part of the answer, or about all of it."""

    what: str
    why: str
    span: positions.Span | None = None
    colour: str = "red"
    begins: int | None = None  # of the value that the span is the end of
    keyword: str = ""  # as in `Issue`


class AnswerReport:
    """What was read from the answer in the file `name`, what was rejected, and where it is truncated."""

    def __init__(self, name: str, outcome: Outcome, schema: RuleSource | None = None) -> None:
        self._name = name
        self._schema = schema
        self._outcome = outcome
        self._text = outcome.calls[-1].text
        self._lines = positions.Lines(self._text)
        self._is_text = outcome.contract.format == "text"
        self._has_objects = outcome.contract.format == "jsonl"
        self._truncated = self._truncated_value() if outcome.truncated and not self._is_text else None
        self._duplicates = [] if self._is_text else list(positions.duplicates(self._text))

    def lines(self, *, at_length: bool) -> Iterator[str]:
        """Report for people: a verdict and a line for each remark, `at_length` with its line of the text."""
        outcome = self._outcome
        yield f"{output.paint(self._name, 'green' if outcome.ok else 'red')}: {self._verdict()}"
        most = AT_LENGTH if at_length else IN_SHORT
        remarks = self._remarks(at_length)
        for remark in islice(remarks, most):
            text = f"{output.paint(remark.what, remark.colour)}: {visible(excerpt(remark.why, 300))}"
            if remark.span is None:
                yield f"{self._name}: {text}"
                continue
            line, column = self._lines.at(remark.span.start)
            yield f"{self._name}:{line}:{column}: {text}"
            if at_length:
                yield from self._excerpt(remark)
        if more := sum(1 for _ in remarks):
            yield f"and {more:,} more; --json has all"

    def _excerpt(self, remark: AnswerRemark) -> Iterator[str]:
        assert remark.span is not None
        line = self._lines.at(remark.span.start).line
        if remark.begins is not None and (first := self._lines.at(remark.begins).line) < line:
            yield f"{first:>5} | {underlined(self._text, remark.begins, remark.begins)[0]}"
            if first + 1 < line:
                yield "    … |"
        shown, mark = underlined(self._text, *remark.span)
        yield f"{line:>5} | {shown}"
        yield f"      | {output.paint(mark, remark.colour)}"
        if rule := broken_rule(remark.keyword, self._outcome.contract, self._schema):
            yield from rule_lines(rule, " " * 6, remark.colour)

    def as_json(self) -> dict[str, Any]:
        """Report for programs: the fields of the outcome, with positions.

        `line` and `column` count from 1, `start` counts characters from 0. `cut` is where a truncated answer
        ends: `path` is a JSON Pointer to there from the value that begins at `begins`.
        """
        cut = self._truncated
        return output.outcome_as_json(self._outcome, self._position, self._issue) | {
            "file": self._name,
            "format": self._outcome.contract.format,
            "cut": cut and {**self._position(cut.end), "path": cut.path, "begins": self._position(cut.start)},
            "duplicates": [{"key": twice.key, **self._position(twice.start)} for twice in self._duplicates],
        }

    def _verdict(self) -> str:
        outcome = self._outcome
        if not outcome.ok:
            parts = [f"nothing to use: {outcome.reason.value}"]
        elif self._is_text:
            parts = [output.counted(len(outcome.value), "character")]
        elif outcome.value == [] and not outcome.rejected and outcome.truncated is not True:
            parts = ["an empty list"]
        else:
            noun = "object" if self._has_objects else "value"
            parts = [f"{output.counted(len(outcome.objects), noun)}, {self._stage()}"]
        parts += [f"{len(outcome.rejected):,} refused"] if self._has_objects and outcome.rejected else []
        parts += ["truncated"] if outcome.truncated and outcome.reason is not Reason.TRUNCATED else []
        parts += [f"{len(outcome.retracted):,} taken back"] if outcome.retracted else []
        return "; ".join(parts)

    def _stage(self) -> str:
        if self._has_objects and self._outcome.repaired:
            count = len(self._outcome.repaired)
            return "repaired" if count == len(self._outcome.objects) else f"{count:,} of them repaired"
        return _STAGES[self._outcome.stage]

    def _remarks(self, at_length: bool) -> Iterator[AnswerRemark]:
        for rejected, issue in self._outcome.errors():
            if issue.reason is Reason.TRUNCATED and self._truncated is not None:
                continue  # reported below, with its position
            what = issue.reason.value
            if self._has_objects and rejected is not None:
                what = f"refused object {rejected.index + 1}"
            yield AnswerRemark(what, str(issue), self._span(rejected, issue), keyword=issue.keyword)
        if self._outcome.reason is Reason.AMBIGUOUS:
            for value in positions.values(self._text):
                if value.state is positions.State.WHOLE:
                    span = positions.Span(value.start, value.end)
                    yield AnswerRemark("perhaps", "this value is meant", span, "yellow")
        for repaired in self._outcome.repaired:
            yield from self._edits(repaired, at_length)
        for twice in self._duplicates:
            span = positions.Span(twice.start, twice.start + len(twice.key) + 2)
            yield AnswerRemark(
                "duplicate key", f'"{twice.key}" is there twice, the last one counts', span, "yellow"
            )
        if cut := self._truncated:
            line, column = self._lines.at(cut.start)
            where = f"the value that begins at line {line}, column {column}"
            where += f", at {cut.path}" if cut.path else ""
            span = positions.Span(cut.end, cut.end)
            yield AnswerRemark("truncated", f"the text ends inside {where}", span, "yellow", begins=cut.start)
        elif self._outcome.truncated and not any(
            issue.reason is Reason.TRUNCATED for issue in self._outcome.issues
        ):
            yield AnswerRemark("truncated", "the text ends before the model had finished", colour="yellow")
        for value in self._outcome.retracted:
            yield AnswerRemark("taken back", output.json_text(value), colour="yellow")

    def _edits(self, repaired: Repaired, at_length: bool) -> Iterator[AnswerRemark]:
        """Report the repairs of an object: `at_length` each at its position, else all at the first."""
        if not repaired.edits:
            return
        what = f"repaired object {repaired.index + 1}" if self._has_objects else "repaired"
        edits = repaired.edits
        remarks = [(edit.what, edit.offset) for edit in edits]
        if not at_length:
            counts = Counter(edit.what for edit in edits)
            kinds = (name if count == 1 else f"{name} ({count:,} times)" for name, count in counts.items())
            remarks = [("; ".join(kinds), edits[0].offset)]
        for why, offset in remarks:
            yield AnswerRemark(what, why, positions.Span(offset, offset + 1), "yellow")

    def _span(self, rejected: Rejected | None, issue: Issue) -> positions.Span | None:
        """Where the answer is wrong, if that is known."""
        depth = self._outcome.contract.limits.depth
        if issue.reason is Reason.EXTRACTION_FAILED:
            bracket = _BRACKET.search(self._text)
            start = bracket.start() if bracket else len(self._text) - len(self._text.lstrip())
            at = positions.breaks(self._text[start:], depth) or 0
            span = positions.Span(at, at + 1)
        elif rejected is None:
            return None
        else:
            start, span = rejected.start, issue_span(rejected, issue, depth)
        return positions.Span(start + span.start, start + span.end)

    def _truncated_value(self) -> positions.Value | None:
        """The value that the text ends inside, if any."""
        end = len(self._text.rstrip())
        for repaired in self._outcome.repaired:
            if repaired.stage is Stage.SALVAGED and repaired.edits:  # the scanner stops at the break
                return positions.Value(repaired.start, end, positions.State.CUT, "")
        last = deque(positions.values(self._text), maxlen=1)
        if not last or last[0].state is not positions.State.CUT:
            return None
        return last[0]._replace(end=max(last[0].start + 1, end))

    def _issue(self, rejected: Rejected | None, issue: Issue) -> dict[str, Any]:
        span = self._span(rejected, issue)
        at = dict.fromkeys(("start", "line", "column")) if span is None else self._position(span.start)
        return output.issue_as_json(issue) | at

    def _position(self, start: int) -> dict[str, int]:
        line, column = self._lines.at(start)
        return {"start": start, "line": line, "column": column}
