"""What an extraction adds up to."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from trustgraph_prompt.cli import truncation_advice
from trustgraph_prompt.cli.output import counted
from trustgraph_prompt.errors import Reason

if TYPE_CHECKING:
    from trustgraph_prompt.extraction.results import Job, Result

MAX_EXAMPLES = 10
"""How many refusals, cuts and failures are told one by one; all are counted."""


class JobRemark(NamedTuple):
    """Something to say about one job; remarks sort in the order of the jobs."""

    position: int
    place: str
    text: str = ""

    def __str__(self) -> str:
        return f"{self.place}: {self.text}" if self.text else self.place


@dataclass
class ExtractSummary:
    """Counts the results of some jobs as they come in. Tokens are those that this run paid for.

    `max_tokens` is how long each prompt lets an answer be. `barren` are answers that say that there is no
    object, `unusable` those that have none and do not say so, each with its reason. `skipped` says of each
    file of no use why it is none.
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
        """Chunks about which every prompt was answered."""
        return self.chunks - len(self._jobs_of_chunk)

    @property
    def answered(self) -> int:
        """Jobs that have an answer; a failure is none."""
        return self.done - len(self.failed)

    @property
    def open(self) -> int:
        """Jobs that have no result yet."""
        return len(self.jobs) - self.done

    @property
    def came_to_nothing(self) -> bool:
        """Whether answers were cut or without use, and there is not one object."""
        return bool(self.truncated or self.unusable) and not self.objects.total()

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self.started

    @property
    def tokens(self) -> int:
        """Paid for in this run, questions and answers."""
        return self.tokens_in + self.tokens_out

    def add(self, result: Result) -> None:
        """One more result."""
        job, answer = result.job, result.answer
        self.done += 1
        self.earlier += result.earlier
        self.objects[job.prompt] += len(result.objects)
        place = f"{job.file} chunk {job.chunk}, {job.prompt}"
        if result.failure is None:
            self.failed_in_a_row = 0
            self._one_less_for((job.file, job.chunk))
        else:
            self.failed_in_a_row += 1
            self.failed.append(JobRemark(job.position, place, result.failure))
        if answer is None:
            return
        if not any(rejected["issues"][0] in answer.issues for rejected in answer.rejected):  # one value
            self.refused_count += answer.rejected_count
            self.refused += (
                JobRemark(job.position, f"{place}, object {rejected['index'] + 1}", _why(rejected))
                for rejected in answer.rejected
            )
        if not result.objects and result.failure is None:
            unusable = answer.reason != Reason.SUCCESS
            (self.unusable if unusable else self.barren).append(JobRemark(job.position, place, answer.why))
        if answer.truncated:
            issues = answer.issues if answer.reason == Reason.SUCCESS else ()
            why, lacked_room = truncation_advice.explain(
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
        """How far it is, in one line."""
        objects = self.objects.total()
        rate = objects / max(self.seconds, 0.001)
        unusable = f", {counted(len(self.unusable), 'answer')} without use" if self.unusable else ""
        return (
            f"{self.answered:,}/{counted(len(self.jobs), 'answer')}, "
            f"{self.chunks_done:,}/{counted(self.chunks, 'chunk')}, "
            f"{counted(objects, 'object')}, {counted(self.tokens, 'token')}, {rate:,.1f} objects/s{unusable}"
        )

    def as_json(self) -> dict[str, Any]:
        """The whole of it, for programs."""
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

    def summary(self) -> str:
        """The whole of it, for people."""
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
        lines += _section("refused", self.refused_count, "object", _told(self.refused))
        lines += _section("cut off, then completed", len(self.completed), "answer", _told(self.completed))
        lines += _section("cut off for good", len(self.truncated), "answer", _told(self.truncated))
        if self._lacked_room:
            lines.append(f"  {truncation_advice.MORE_ROOM} smaller chunks (--chunk-size)")
        lines += _section("without any object", len(self.barren), "answer", _told(self.barren))
        lines += _section("without use", len(self.unusable), "answer", _told(self.unusable))
        reasons = Counter(remark.text for remark in self.failed).most_common()
        failures = [f"{count:,} × {reason}" for reason, count in reasons]
        lines += _section("failed", len(self.failed), "question", failures)
        if self.open:
            chunks = counted(self.chunks - self.chunks_done, "chunk")
            lines.append(f"not asked: {counted(self.open, 'question')}; {chunks} not answered whole")
        return "\n".join(lines)

    def _one_less_for(self, chunk: tuple[str, int]) -> None:
        self._jobs_of_chunk[chunk] -= 1
        if not self._jobs_of_chunk[chunk]:
            del self._jobs_of_chunk[chunk]


def _why(rejected: Mapping[str, Any]) -> str:
    return "; ".join(
        f"{issue['path']}: {issue['message']}" if issue["path"] else issue["message"]
        for issue in rejected["issues"]
    )


def _told(remarks: Iterable[JobRemark]) -> list[str]:
    return [str(remark) for remark in sorted(remarks)]


def _section(title: str, count: int, noun: str, examples: Sequence[str]) -> list[str]:
    """Lines under a title; none where there is nothing to tell."""
    if not count:
        return []
    shown = [f"  {example}" for example in examples[:MAX_EXAMPLES]]
    more = len(examples) - len(shown)
    return [f"{title}: {counted(count, noun)}", *shown, *([f"  and {more:,} more"] if more else [])]
