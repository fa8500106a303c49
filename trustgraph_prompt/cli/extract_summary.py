"""Counts the results of an extraction, and summarises them for people and for programs."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from trustgraph_prompt.cli.output import counted, duration
from trustgraph_prompt.extraction.review import review

if TYPE_CHECKING:
    from trustgraph_prompt.extraction.questions import Job
    from trustgraph_prompt.extraction.results import Result
    from trustgraph_prompt.llm.spending import SpendingLimit

MAX_EXAMPLES = 10
"""How many lines a section of the summary has; `--json` lists everything."""

ENOUGH_TO_TELL = 5
"""After so many answers the rest is estimated by them."""

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
    """Counts results as they arrive. Tokens and money are those of this run.

    `max_tokens` is the limit of an answer by prompt. `barren` are answers that say there are no objects,
    `unusable` those without an object that do not say so. Of the `looked_up` values that were accepted,
    `ungrounded` are not in the text, and `weak` only in part. `skipped` has the reason for each skipped file.
    """

    jobs: Sequence[Job]
    max_tokens: Mapping[str, int | None] = field(default_factory=dict)
    skipped: Sequence[str] = ()
    spending: SpendingLimit | None = None
    started: float = field(default_factory=time.monotonic)
    objects: Counter[str] = field(default_factory=Counter)
    refused: list[JobRemark] = field(default_factory=list)
    refused_count: int = 0
    looked_up: int = 0
    not_looked_up: Counter[str] = field(default_factory=Counter)
    ungrounded: list[JobRemark] = field(default_factory=list)
    weak: list[JobRemark] = field(default_factory=list)
    completed: list[JobRemark] = field(default_factory=list)
    truncated: list[JobRemark] = field(default_factory=list)
    lacked_room: bool = False
    barren: list[JobRemark] = field(default_factory=list)
    unusable: list[JobRemark] = field(default_factory=list)
    failed: list[JobRemark] = field(default_factory=list)
    earlier: int = 0
    earlier_objects: int = 0
    done: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    def __post_init__(self) -> None:
        self._jobs_of_chunk = Counter((job.document.file, job.chunk.number) for job in self.jobs)
        self.chunks = len(self._jobs_of_chunk)
        self.objects.update(dict.fromkeys((job.prompt for job in self.jobs), 0))
        self._paid: set[str] = set()

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
    def rest(self) -> str:
        """What is left, at the pace and price of the questions so far; empty if that is not known."""
        asked = self.done - self.earlier
        if not self.open or asked < ENOUGH_TO_TELL:
            return ""
        share = self.open / asked
        money = f" and {self.spending.spent * share:,.4f}" if self.spending else ""
        return f"about {duration(self.seconds * share)}{money} to go"

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
        self.earlier_objects += len(result.objects) if result.earlier else 0
        chunk = job.document.file, job.chunk.number
        if result.failure is None:
            self._jobs_of_chunk[chunk] -= 1
            if not self._jobs_of_chunk[chunk]:
                del self._jobs_of_chunk[chunk]
        found = review(result, self.max_tokens.get(job.prompt))
        self.refused_count += found.refused_count
        self.lacked_room |= found.lacked_room
        for kind, why, _, number in found.remarks:
            place = f"{job.place}, object {number}" if number else job.place
            getattr(self, kind).append(JobRemark(job.position, place, why))
        for each in result.objects:
            self.looked_up += len(each.groundings)
            self.not_looked_up[job.prompt] += each.grounding is None
        if answer is not None and not result.earlier and job.id not in self._paid:
            self._paid.add(job.id)
            self.tokens_in += answer.usage.get("prompt_tokens") or 0
            self.tokens_out += answer.usage.get("completion_tokens") or 0

    @property
    def total(self) -> int:
        """All jobs."""
        return len(self.jobs)

    def begin(self) -> str:
        """Say what is asked, in one line."""
        return f"asking about {counted(self.chunks, 'chunk')}, {counted(self.total, 'question')} in all"

    def line(self) -> str:
        """Describe the progress in one line."""
        objects = self.objects.total()
        rate = (objects - self.earlier_objects) / max(self.seconds, 0.001)
        parts = [
            f"{self.answered:,}/{counted(self.total, 'answer')}",
            f"{self.chunks_done:,}/{counted(self.chunks, 'chunk')}",
            counted(objects, "object"),
            counted(self.tokens, "token"),
            f"{rate:,.1f} objects/s",
        ]
        if self.refused_count:
            parts.append(f"{self.refused_count:,} refused")
        if self.unusable:
            parts.append(f"{counted(len(self.unusable), 'answer')} without use")
        if self.failed:
            parts.append(f"{len(self.failed):,} failed")
        if self.spending:
            parts.append(f"{_paid(self.spending)} paid")
        return ", ".join(parts)

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
            "looked_up": self.looked_up,
            "not_looked_up": dict(+self.not_looked_up),
            "ungrounded": _told(self.ungrounded),
            "weak": _told(self.weak),
            "cut": {"completed": _told(self.completed), "truncated": _told(self.truncated)},
            "without_objects": _told(self.barren),
            "without_use": _told(self.unusable),
            "skipped": list(self.skipped),
            "failures": _told(self.failed),
            "tokens": {"in": self.tokens_in, "out": self.tokens_out},
            "seconds": round(self.seconds, 3),
            "money": self.spending and _money(self.spending),
        }

    def text(self) -> str:
        """Return the summary for people: remarks with the same cause share a line."""
        files = len({job.document.file for job in self.jobs})
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
        lines += _section("ungrounded", len(self.ungrounded), "value", _told(self.ungrounded))
        weak = f"weak matches, of {counted(self.looked_up, 'value')} looked up in the text"
        lines += _section(weak, len(self.weak), "value", _told(self.weak))
        lines += (
            f"not looked up in the text: {counted(count, 'object')} of {prompt}, whose schema marks no key"
            for prompt, count in self.not_looked_up.items()
            if count
        )
        lines += _section("truncated, then completed", len(self.completed), "answer", _told(self.completed))
        lines += _section("truncated", len(self.truncated), "answer", _grouped(self.truncated))
        lines += _section("without any object", len(self.barren), "answer", _told(self.barren))
        lines += _section("without use", len(self.unusable), "answer", _grouped(self.unusable))
        lines += _section("failed", len(self.failed), "question", _grouped(self.failed))
        if self.open:
            chunks = counted(self.chunks - self.chunks_done, "chunk")
            lines.append(f"not asked: {counted(self.open, 'question')}; {chunks} not answered whole")
        if self.spending:
            lines.append(f"paid in this run: {_paid(self.spending)}")
        return "\n".join(lines)


def _money(spending: SpendingLimit) -> dict[str, object]:
    limit = None if spending.limit == inf else spending.limit
    return {"paid": round(spending.spent, 6), "limit": limit, "limit_reached": spending.reached}


def _paid(spending: SpendingLimit) -> str:
    limit = "" if spending.limit == inf else f" of {spending.limit:g} (--max-cost)"
    return f"{spending.spent:,.4f}{limit}"


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
