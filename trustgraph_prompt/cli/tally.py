"""What an extraction adds up to."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trustgraph_prompt.worker.gather import Job, Result

MAX_EXAMPLES = 10
"""How many refusals, cuts and failures are told one by one; all are counted."""


@dataclass
class Tally:
    """Counts the results of some jobs as they come in. Tokens are those that this run paid for."""

    jobs: Sequence[Job]
    started: float = field(default_factory=time.monotonic)
    objects: Counter[str] = field(default_factory=Counter)
    refused: list[str] = field(default_factory=list)
    refused_count: int = 0
    completed: list[str] = field(default_factory=list)
    truncated: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    earlier: int = 0
    done: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    def __post_init__(self) -> None:
        self._jobs_of_chunk = Counter((job.file, job.chunk) for job in self.jobs)
        self.chunks = len(self._jobs_of_chunk)
        self.objects.update(dict.fromkeys((job.prompt for job in self.jobs), 0))
        self._paid: set[str] = set()

    @property
    def chunks_done(self) -> int:
        """Chunks about which every prompt was asked."""
        return self.chunks - len(self._jobs_of_chunk)

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
        self._jobs_of_chunk -= Counter([(job.file, job.chunk)])
        place = f"{job.file} chunk {job.chunk}, {job.prompt}"
        if result.failure is not None:
            self.failures.append(f"{place}: {result.failure}")
        if answer is None:
            return
        self.refused_count += answer.rejected_count
        self.refused += (f"{place}, object {r['index']}: {_why(r)}" for r in answer.rejected)
        if answer.truncated:
            self.truncated.append(place)
        elif any(call["why"] == "continue" for call in answer.calls):
            self.completed.append(place)
        if not result.earlier and job.id not in self._paid:
            self._paid.add(job.id)
            self.tokens_in += answer.usage.get("prompt_tokens") or 0
            self.tokens_out += answer.usage.get("completion_tokens") or 0

    def line(self) -> str:
        """How far it is, in one line."""
        return (
            f"{self.done:,}/{len(self.jobs):,} answers, {self.chunks_done:,}/{self.chunks:,} chunks, "
            f"{self.objects.total():,} objects, {self.tokens:,} tokens, "
            f"{self.objects.total() / max(self.seconds, 0.001):,.1f} objects/s"
        )

    def as_json(self) -> dict[str, Any]:
        """The whole of it, for programs."""
        return {
            "objects": dict(self.objects),
            "chunks": self.chunks,
            "answers": self.done,
            "open": len(self.jobs) - self.done,
            "from_earlier_runs": self.earlier,
            "refused": self.refused_count,
            "refusals": self.refused,
            "cut": {"completed": self.completed, "truncated": self.truncated},
            "failures": self.failures,
            "tokens": {"in": self.tokens_in, "out": self.tokens_out},
            "seconds": round(self.seconds, 3),
        }

    def summary(self) -> str:
        """The whole of it, for people."""
        files = len({job.file for job in self.jobs})
        lines = [
            f"{_number(self.objects.total(), 'object')} from {_number(self.chunks, 'chunk')} of "
            f"{_number(files, 'file')} in {self.seconds:.1f} s, {self.tokens:,} tokens "
            f"({self.tokens_in:,} in, {self.tokens_out:,} out)"
        ]
        lines += (f"  {prompt:<28} {count:>6,}" for prompt, count in self.objects.items())
        if self.earlier:
            lines.append(f"{_number(self.earlier, 'answer')} kept from earlier runs, not paid again")
        if self.refused_count:
            lines.append(
                f"refused: {_number(self.refused_count, 'object')} that broke the rules of their prompt"
            )
            lines += _examples(self.refused, self.refused_count)
        if self.completed:
            lines.append(
                f"cut off and completed by asking for the rest: {_number(len(self.completed), 'answer')}"
            )
            lines += _examples(self.completed)
        if self.truncated:
            lines.append(f"cut off for good, complete objects kept: {_number(len(self.truncated), 'answer')}")
            lines += _examples(self.truncated)
        if self.failures:
            lines.append(f"failed: {_number(len(self.failures), 'answer')}")
            lines += _examples(self.failures)
        return "\n".join(lines)


def _why(rejected: Any) -> str:
    return "; ".join(
        f"{issue['path']}: {issue['message']}" if issue["path"] else issue["message"]
        for issue in rejected["issues"]
    )


def _examples(examples: Sequence[str], count: int | None = None) -> list[str]:
    shown = [f"  {example}" for example in examples[:MAX_EXAMPLES]]
    more = (count or len(examples)) - len(shown)
    return shown + [f"  and {more:,} more"] * (more > 0)


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
