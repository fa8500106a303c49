"""Counts the results of an extraction, and summarises them for people and for programs."""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from trustgraph_prompt.cli.output import counted, duration
from trustgraph_prompt.extraction.review import review
from trustgraph_prompt.extraction.tally import Counts, counts_of

if TYPE_CHECKING:
    from trustgraph_prompt.extraction.questions import Job
    from trustgraph_prompt.extraction.results import Result
    from trustgraph_prompt.llm.spending import SpendingLimit

MAX_EXAMPLES = 10
"""How many lines a section of the summary has; `--json` lists everything."""

ENOUGH_TO_TELL = 5
"""After so many answers the rest is estimated by them."""

_NUMBER = re.compile(r"\d+")

_KINDS: Mapping[str, tuple[str, str, bool]] = {
    "refused": ("refused", "object", True),
    "ungrounded": ("ungrounded", "value", False),
    "weak": ("weak matches, of {} looked up in the text", "value", False),
    "completed": ("truncated, then completed", "answer", False),
    "truncated": ("truncated", "answer", True),
    "nothing": ("without any object", "answer", False),
    "without_use": ("without use", "answer", True),
    "failed": ("failed", "question", True),
}
"""The sections of the summary: title, noun, and whether remarks with the same cause share a line."""


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

    `max_tokens` is the limit of an answer by prompt. `skipped` has the reason for each skipped file.
    `remarks` are by their kind, as in `Review`; `not_looked_up` are objects by prompt.
    """

    jobs: Sequence[Job]
    max_tokens: Mapping[str, int | None] = field(default_factory=dict)
    skipped: Sequence[str] = ()
    spending: SpendingLimit | None = None
    started: float = field(default_factory=time.monotonic)
    counts: Counts = field(default_factory=Counter)
    objects: Counter[str] = field(default_factory=Counter)
    not_looked_up: Counter[str] = field(default_factory=Counter)
    remarks: defaultdict[str, list[JobRemark]] = field(default_factory=lambda: defaultdict(list))
    lacked_room: bool = False

    def __post_init__(self) -> None:
        self._jobs_of_chunk = Counter((job.document.file, job.chunk.number) for job in self.jobs)
        self.chunks = len(self._jobs_of_chunk)
        self.objects.update(dict.fromkeys((job.prompt for job in self.jobs), 0))
        self._paid: set[str] = set()

    @property
    def done(self) -> int:
        """Jobs with a result; a failure is one, too."""
        return self.counts["questions"]

    @property
    def chunks_done(self) -> int:
        """Chunks that every prompt has an answer for."""
        return self.chunks - len(self._jobs_of_chunk)

    @property
    def answered(self) -> int:
        """Jobs with an answer; a failure is not one."""
        return self.counts["answers"]

    @property
    def open(self) -> int:
        """Jobs without a result."""
        return len(self.jobs) - self.done

    @property
    def rest(self) -> str:
        """What is left, at the pace and price of the questions so far; empty if that is not known."""
        asked = self.done - self.counts["earlier"]
        if not self.open or asked < ENOUGH_TO_TELL:
            return ""
        share = self.open / asked
        money = f" and {self.spending.spent * share:,.4f}" if self.spending else ""
        return f"about {duration(self.seconds * share)}{money} to go"

    @property
    def came_to_nothing(self) -> bool:
        """Whether there are no objects, and answers were truncated or without use."""
        return bool(self.remarks["truncated"] or self.remarks["without_use"]) and not self.counts["objects"]

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    @property
    def tokens(self) -> int:
        """Tokens of this run, in prompts and answers."""
        return self.counts["tokens_in"] + self.counts["tokens_out"]

    def add(self, result: Result) -> None:
        """Count a result. Equal questions of several chunks are asked, and paid, once."""
        job, found = result.job, review(result, self.max_tokens.get(result.job.prompt))
        is_paid = result.answer is not None and not result.earlier and job.id not in self._paid
        if is_paid:
            self._paid.add(job.id)
        counts = counts_of(result, found, is_paid=is_paid)
        self.counts.update(counts)
        self.objects[job.prompt] += len(result.objects)
        if result.objects:  # prompts are listed in the order in which their first objects came
            self.not_looked_up[job.prompt] += int(counts["not_looked_up"])
        if result.earlier:
            self.counts.update(earlier=1, earlier_objects=len(result.objects))
        chunk = job.document.file, job.chunk.number
        if result.failure is None:
            self._jobs_of_chunk[chunk] -= 1
            if not self._jobs_of_chunk[chunk]:
                del self._jobs_of_chunk[chunk]
        self.lacked_room |= found.lacked_room
        for kind, why, _, number in found.remarks:
            place = f"{job.place}, object {number}" if number else job.place
            self.remarks[kind].append(JobRemark(job.position, place, why))

    @property
    def total(self) -> int:
        """All jobs."""
        return len(self.jobs)

    def begin(self) -> str:
        """Say what is asked, in one line."""
        return f"asking about {counted(self.chunks, 'chunk')}, {counted(self.total, 'question')} in all"

    def line(self) -> str:
        """Describe the progress in one line."""
        objects, refused = self.counts["objects"], self.counts["refused"]
        rate = (objects - self.counts["earlier_objects"]) / max(self.seconds, 0.001)
        parts = [
            f"{self.answered:,}/{counted(self.total, 'answer')}",
            f"{self.chunks_done:,}/{counted(self.chunks, 'chunk')}",
            counted(objects, "object"),
            counted(self.tokens, "token"),
            f"{rate:,.1f} objects/s",
        ]
        if refused:
            parts.append(f"{refused:,} refused")
        if unusable := self.remarks["without_use"]:
            parts.append(f"{counted(len(unusable), 'answer')} without use")
        if failed := self.remarks["failed"]:
            parts.append(f"{len(failed):,} failed")
        if self.spending:
            parts.append(f"{_paid(self.spending)} paid")
        return ", ".join(parts)

    def as_json(self) -> dict[str, Any]:
        """Return the summary for programs."""
        counts, said = self.counts, {kind: self._said(kind) for kind in _KINDS}
        return {
            "objects": dict(self.objects),
            "chunks": self.chunks,
            "answers": self.answered,
            "open": self.open,
            "from_earlier_runs": counts["earlier"],
            "refused": counts["refused"],
            "refusals": said["refused"],
            "looked_up": counts["looked_up"],
            "not_looked_up": dict(+self.not_looked_up),
            "ungrounded": said["ungrounded"],
            "weak": said["weak"],
            "cut": {"completed": said["completed"], "truncated": said["truncated"]},
            "without_objects": said["nothing"],
            "without_use": said["without_use"],
            "skipped": list(self.skipped),
            "failures": said["failed"],
            "tokens": {"in": counts["tokens_in"], "out": counts["tokens_out"]},
            "seconds": round(self.seconds, 3),
            "money": self.spending and _money(self.spending),
        }

    def text(self) -> str:
        """Return the summary for people: remarks with the same cause share a line."""
        files, counts = len({job.document.file for job in self.jobs}), self.counts
        lines = [
            f"{counted(counts['objects'], 'object')} from {counted(self.chunks, 'chunk')} of "
            f"{counted(files, 'file')} in {self.seconds:.1f} s, {counted(self.tokens, 'token')} "
            f"({counts['tokens_in']:,} in, {counts['tokens_out']:,} out)"
        ]
        lines += (f"  {prompt:<28} {count:>6,}" for prompt, count in self.objects.items())
        if counts["earlier"]:
            lines.append(f"{counted(counts['earlier'], 'answer')} kept from earlier runs, not paid again")
        lines += _section("skipped", len(self.skipped), "file", self.skipped)
        for kind, (title, noun, is_grouped) in _KINDS.items():
            said = _grouped(self.remarks[kind]) if is_grouped else self._said(kind)
            title = title.format(counted(counts["looked_up"], "value"))
            lines += _section(title, counts[kind], noun, said)
            if kind == "weak":
                lines += (
                    f"not looked up in the text: {counted(count, 'object')} of {prompt}, "
                    "whose schema marks no key"
                    for prompt, count in self.not_looked_up.items()
                    if count
                )
        if self.open:
            chunks = counted(self.chunks - self.chunks_done, "chunk")
            lines.append(f"not asked: {counted(self.open, 'question')}; {chunks} not answered whole")
        if self.spending:
            lines.append(f"paid in this run: {_paid(self.spending)}")
        return "\n".join(lines)

    def _said(self, kind: str) -> list[str]:
        return [str(remark) for remark in sorted(self.remarks[kind])]


def _money(spending: SpendingLimit) -> dict[str, object]:
    limit = None if spending.limit == inf else spending.limit
    return {"paid": round(spending.spent, 6), "limit": limit, "limit_reached": spending.reached}


def _paid(spending: SpendingLimit) -> str:
    limit = "" if spending.limit == inf else f" of {spending.limit:g} (--max-cost)"
    return f"{spending.spent:,.4f}{limit}"


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
