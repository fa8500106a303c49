"""Counts the results of an extraction, and summarises them for people and for programs."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from trustgraph_prompt.cli import failure_advice
from trustgraph_prompt.cli.output import counted, without_advice
from trustgraph_prompt.errors import Reason

if TYPE_CHECKING:
    from trustgraph_prompt.extraction.results import Job, Result

MAX_EXAMPLES = 10
"""How many lines a section of the summary has; `--json` lists everything."""

_NUMBER = re.compile(r"\d+")


class JobRemark(NamedTuple):
    """A remark about one job; remarks sort in the order of the jobs."""

    position: int
    place: str
    text: str = ""

    def __str__(self) -> str:
        return f"{self.place}: {self.text}" if self.text else self.place


@dataclass
class ExtractSummary:
    """Counts results as they arrive. Tokens are those of this run.

    `max_tokens` is the limit of an answer by prompt. `barren` are answers that say there are no objects,
    `unusable` those without an object that do not say so. `skipped` has the reason for each skipped file.
    """

    jobs: Sequence[Job]
    max_tokens: Mapping[str, int | None] = field(default_factory=dict)
    skipped: Sequence[str] = ()
    started: float = field(default_factory=time.monotonic)
    objects: Counter[str] = field(default_factory=Counter)
    refused: list[JobRemark] = field(default_factory=list)
    refused_count: int = 0
    completed: list[JobRemark] = field(default_factory=list)
    truncated: list[JobRemark] = field(default_factory=list)
    barren: list[JobRemark] = field(default_factory=list)
    unusable: list[JobRemark] = field(default_factory=list)
    failed: list[JobRemark] = field(default_factory=list)
    failed_in_a_row: int = 0
    earlier: int = 0
    done: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    def __post_init__(self) -> None:
        self._jobs_of_chunk = Counter((job.file, job.chunk) for job in self.jobs)
        self.chunks = len(self._jobs_of_chunk)
        self.objects.update(dict.fromkeys((job.prompt for job in self.jobs), 0))
        self._paid: set[str] = set()
        self._lacked_room = False

    @property
    def chunks_done(self) -> int:
        """Chunks that every prompt has an answer for."""
        return self.chunks - len(self._jobs_of_chunk)

    @property
    def answered(self) -> int:
        """Jobs with an answer; a failure is not one."""
        return self.done - len(self.failed)

    @property
    def open(self) -> int:
        """Jobs without a result."""
        return len(self.jobs) - self.done

    @property
    def came_to_nothing(self) -> bool:
        """Whether there are no objects, and answers were truncated or without use."""
        return bool(self.truncated or self.unusable) and not self.objects.total()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    @property
    def tokens(self) -> int:
        """Tokens of this run, in prompts and answers."""
        return self.tokens_in + self.tokens_out

    def add(self, result: Result) -> None:
        """Count a result."""
        job, answer = result.job, result.answer
        self.done += 1
        self.earlier += result.earlier
        self.objects[job.prompt] += len(result.objects)
        place = f"{job.file} chunk {job.chunk}, {job.prompt}"
        if result.failure is None:
            self.failed_in_a_row = 0
            self._jobs_of_chunk[job.file, job.chunk] -= 1
            if not self._jobs_of_chunk[job.file, job.chunk]:
                del self._jobs_of_chunk[job.file, job.chunk]
        else:
            self.failed_in_a_row += 1
            self.failed.append(JobRemark(job.position, place, result.failure))
        if answer is None:
            return
        # The issues of a rejected json value are also those of the answer; it is no rejected object.
        if not any(rejected["issues"][0] in answer.issues for rejected in answer.rejected):
            self.refused_count += answer.rejected_count
            self.refused += (
                JobRemark(job.position, f"{place}, object {rejected['index'] + 1}", _why(rejected))
                for rejected in answer.rejected
            )
        if not result.objects and result.failure is None:
            unusable = answer.reason != Reason.SUCCESS
            (self.unusable if unusable else self.barren).append(
                JobRemark(job.position, place, without_advice(answer.why))
            )
        if answer.truncated:
            issues = answer.issues if answer.reason == Reason.SUCCESS else ()
            why, lacked_room = failure_advice.truncation(
                issues, answer.calls, self.max_tokens.get(job.prompt)
            )
            self.truncated.append(JobRemark(job.position, place, why))
            self._lacked_room |= lacked_room
        elif any(call["why"] == "continue" for call in answer.calls):
            self.completed.append(JobRemark(job.position, place))
        if not result.earlier and job.id not in self._paid:
            self._paid.add(job.id)
            self.tokens_in += answer.usage.get("prompt_tokens") or 0
            self.tokens_out += answer.usage.get("completion_tokens") or 0

    def line(self) -> str:
        """Describe the progress in one line."""
        objects = self.objects.total()
        rate = objects / max(self.seconds, 0.001)
        unusable = f", {counted(len(self.unusable), 'answer')} without use" if self.unusable else ""
        return (
            f"{self.answered:,}/{counted(len(self.jobs), 'answer')}, "
            f"{self.chunks_done:,}/{counted(self.chunks, 'chunk')}, "
            f"{counted(objects, 'object')}, {counted(self.tokens, 'token')}, {rate:,.1f} objects/s{unusable}"
        )

    def as_json(self) -> dict[str, Any]:
        """Return the summary for programs."""
        return {
            "objects": dict(self.objects),
            "chunks": self.chunks,
            "answers": self.answered,
            "open": self.open,
            "from_earlier_runs": self.earlier,
            "refused": self.refused_count,
            "refusals": _told(self.refused),
            "cut": {"completed": _told(self.completed), "truncated": _told(self.truncated)},
            "without_objects": _told(self.barren),
            "without_use": _told(self.unusable),
            "skipped": list(self.skipped),
            "failures": _told(self.failed),
            "tokens": {"in": self.tokens_in, "out": self.tokens_out},
            "seconds": round(self.seconds, 3),
        }

    def settings_to_change(self) -> list[str]:
        """Name the settings without which the failed calls would fail again."""
        named = (failure_advice.failed_call(remark.text) for remark in sorted(self.failed))
        return list(dict.fromkeys(filter(None, named)))

    def text(self) -> str:
        """Return the summary for people: remarks with the same cause share a line."""
        files = len({job.file for job in self.jobs})
        lines = [
            f"{counted(self.objects.total(), 'object')} from {counted(self.chunks, 'chunk')} of "
            f"{counted(files, 'file')} in {self.seconds:.1f} s, {counted(self.tokens, 'token')} "
            f"({self.tokens_in:,} in, {self.tokens_out:,} out)"
        ]
        lines += (f"  {prompt:<28} {count:>6,}" for prompt, count in self.objects.items())
        if self.earlier:
            lines.append(f"{counted(self.earlier, 'answer')} kept from earlier runs, not paid again")
        lines += _section("skipped", len(self.skipped), "file", self.skipped)
        lines += _section("refused", self.refused_count, "object", _grouped(self.refused))
        lines += _section("truncated, then completed", len(self.completed), "answer", _told(self.completed))
        lines += _section("truncated", len(self.truncated), "answer", _grouped(self.truncated))
        if self._lacked_room:
            lines.append(f"  {failure_advice.LONGER_ANSWERS} smaller chunks (--chunk-size)")
        lines += _section("without any object", len(self.barren), "answer", _told(self.barren))
        lines += _section("without use", len(self.unusable), "answer", _grouped(self.unusable))
        lines += _section("failed", len(self.failed), "question", _grouped(self.failed))
        if self.open:
            chunks = counted(self.chunks - self.chunks_done, "chunk")
            lines.append(f"not asked: {counted(self.open, 'question')}; {chunks} not answered whole")
        return "\n".join(lines)


def _why(rejected: Mapping[str, Any]) -> str:
    issues = (
        f"{issue['path']}: {issue['message']}" if issue["path"] else issue["message"]
        for issue in rejected["issues"]
    )
    return without_advice("; ".join(issues))


def _told(remarks: Iterable[JobRemark]) -> list[str]:
    return [str(remark) for remark in sorted(remarks)]


def _grouped(remarks: Iterable[JobRemark]) -> list[str]:
    """One line per cause, the most frequent first. Causes that differ only in numbers count as the same."""
    groups: dict[str, list[JobRemark]] = {}
    for remark in sorted(remarks):
        groups.setdefault(_NUMBER.sub("#", remark.text), []).append(remark)
    return [
        str(first) if not others else f"{len(others) + 1:,} × {first.text} (first: {first.place})"
        for first, *others in sorted(groups.values(), key=len, reverse=True)
    ]


def _section(title: str, count: int, noun: str, remarks: Sequence[str]) -> list[str]:
    """A title with the first remarks below it; no lines if there is nothing to report."""
    if not count:
        return []
    shown = [f"  {remark}" for remark in remarks[:MAX_EXAMPLES]]
    more = len(remarks) - len(shown)
    return [f"{title}: {counted(count, noun)}", *shown, *([f"  and {more:,} more"] if more else [])]
