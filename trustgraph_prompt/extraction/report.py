"""What a report says of a run: counts by prompt and document, what is missing and why, and the objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from trustgraph_prompt.cost import Price, Usage
from trustgraph_prompt.extraction.results import FoundObject, Job, Result
from trustgraph_prompt.extraction.review import Review, is_refused_for_good, review
from trustgraph_prompt.json_text.encoding import encode
from trustgraph_prompt.json_text.pointer import steps

MAX_CHARACTERS: Final = 10_000_000
"""Of passages and objects that are shown; with the other limits this bounds the page."""

MAX_REMARKS: Final = 500
"""Of each kind that are shown."""

MAX_PASSAGE, MAX_VALUE = 10_000, 1_000
"""Characters of a passage and of a value that are shown."""

_MARKUP: Final = 300
"""Characters that an object costs beside its text."""


Counts = Counter[str]
"""What some questions came to, by the names that the report has for it, with tokens and money."""


class Remark(NamedTuple):
    """What is missing: where, why, and the text it comes from. `object` is the text of a refused object."""

    job: Job
    why: str
    object: str | None = None


@dataclass(slots=True)
class DocumentPart:
    """A document, its counts, and its jobs by chunk."""

    number: int
    file: str
    counts: Counts = field(default_factory=Counter)
    chunks: dict[int, list[Job]] = field(default_factory=dict)


class Report:
    """Collects the results of a run. `limits` has the token limit of an answer, by prompt."""

    def __init__(self, limits: Mapping[str, int | None], price: Price | None = None) -> None:
        self.price = price
        self.total: Counts = Counter()
        self.prompts: dict[str, Counts] = {prompt: Counter() for prompt in limits}
        self.documents: dict[str, DocumentPart] = {}
        self.refused: dict[tuple[str, str], list[Remark]] = {}
        self.doubtful: list[Remark] = []
        self.truncated: list[Remark] = []
        self.nothing: list[Remark] = []
        self.failed: list[Remark] = []
        self._limits = limits
        self._results: dict[int, tuple[Result, Review]] = {}

    def add(self, result: Result) -> None:
        """Take a result; a later one of the same job replaces it."""
        self._results[result.job.position] = result, review(result, self._limits.get(result.job.prompt))

    def count(self, jobs: Sequence[Job]) -> None:
        """Count what came of these jobs. Equal questions of several chunks are asked, and paid, once."""
        paid: set[str] = set()
        for job in jobs:
            counts = self._counts(job, is_paid=job.id not in paid)
            paid.add(job.id)
            part = self.documents.setdefault(
                job.document.file, DocumentPart(len(self.documents) + 1, job.document.file)
            )
            part.chunks.setdefault(job.chunk.number, []).append(job)
            for sums in (self.total, self.prompts[job.prompt], part.counts):
                sums.update(counts)
            self._remark(job)

    def _counts(self, job: Job, *, is_paid: bool) -> dict[str, float]:
        """The counts of one question. Tokens are those that the server reported."""
        if job.position not in self._results:
            return {"questions": 1, "not_asked": 1}
        result, found = self.of(job)
        usage = Usage(**result.answer.usage) if is_paid and result.answer else Usage()
        are_weak = [doubt.is_weak for each in result.objects for doubt in each.doubts]
        return {
            "questions": 1,
            "answers": int(result.failure is None),
            "objects": len(result.objects),
            "refused": found.refused_count,
            "looked_up": sum(len(each.groundings) for each in result.objects),
            "not_looked_up": sum(each.grounding is None for each in result.objects),
            "weak": are_weak.count(True),
            "ungrounded": are_weak.count(False),
            "completed": int(found.completed),
            "truncated": int(found.truncation is not None),
            "nothing": int(found.is_barren),
            "without_use": int(found.without_use is not None),
            "failed": int(result.failure is not None),
            "tokens_in": usage.prompt_tokens or 0,
            "tokens_out": usage.completion_tokens or 0,
            "money": self.price.of(usage) if self.price else 0.0,
        }

    def _remark(self, job: Job) -> None:
        result, found = self.of(job)
        for each in found.refused:
            self.refused.setdefault((job.prompt, each.reason), []).append(Remark(job, each.reason, each.text))
        for accepted in result.objects:
            self.doubtful += (Remark(job, str(doubt), accepted.text.decode()) for doubt in accepted.doubts)
        if found.truncation is not None:
            self.truncated.append(Remark(job, found.truncation.why))
        if found.is_barren:
            self.nothing.append(Remark(job, "the answer says that there are no objects"))
        if found.without_use is not None:
            self.nothing.append(Remark(job, found.without_use))
        if result.failure is not None:
            self.failed.append(Remark(job, result.failure))

    @property
    def helps_to_ask_again(self) -> bool:
        """Whether the same command may answer what has no answer."""
        return bool(self.total["not_asked"]) or not all(is_refused_for_good(each.why) for each in self.failed)

    def shown_chunks(self) -> set[tuple[str, int]]:
        """The chunks that are shown with their objects, by file and number: the first that fit."""
        shown: set[tuple[str, int]] = set()
        left = MAX_CHARACTERS
        for part in self.documents.values():
            for number, jobs in part.chunks.items():
                found = [each for job in jobs for each in self.of(job)[0].objects]
                left -= min(len(jobs[0].chunk.text), MAX_PASSAGE) + _MARKUP
                left -= sum(len(each.text) + _MARKUP for each in found)
                if left < 0:
                    return shown
                shown.add((part.file, number))
        return shown

    def of(self, job: Job) -> tuple[Result, Review]:
        """The result of a job with its review; empty ones if it has none."""
        return self._results.get(job.position) or (Result(job), Review())

    def passage(self, jobs: Sequence[Job]) -> list[tuple[str, bool]]:
        """The text of a chunk in pieces, with whether a value of an object stands there."""
        groundings = [found.groundings for job in jobs for found in self.of(job)[0].objects]
        spans = sorted(
            (start, end)
            for grounding in groundings
            for where in grounding.values()
            if where and where["term"] == "text"
            for start, end in where["spans"]
        )
        return list(_pieces(jobs[0].chunk.text[:MAX_PASSAGE], spans))


def shown_values(found: FoundObject) -> list[tuple[str, str, str]]:
    """The values of an object by key, with what is in doubt: of several doubts, the greatest."""
    value = found.value
    values = value if isinstance(value, dict) else {"": value}
    doubts = sorted(found.doubts, key=lambda doubt: doubt.is_weak, reverse=True)
    remarks = {steps(doubt.path)[0] if values is value else "": doubt.where for doubt in doubts}
    return [(key, _as_text(each)[:MAX_VALUE], remarks.get(key, "")) for key, each in values.items()]


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else encode(value).decode()


def _pieces(text: str, spans: Sequence[tuple[int, int]]) -> Iterator[tuple[str, bool]]:
    """Split a text at spans, which may overlap, in the order of their starts."""
    done = 0
    for start, end in spans:
        start = max(start, done)
        if end > start:
            yield text[done:start], False
            yield text[start:end], True
            done = end
    yield text[done:], False
