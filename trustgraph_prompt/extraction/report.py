"""The report of a run: what came of it by prompt and document, what is missing and why, and the objects.

It is one HTML file, without a script, which loads nothing from elsewhere.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from markupsafe import Markup

from trustgraph_prompt import __version__, html_pages
from trustgraph_prompt.cost import Price
from trustgraph_prompt.extraction.questions import Job
from trustgraph_prompt.extraction.results import FoundObject, Result
from trustgraph_prompt.extraction.review import Review, is_refused_for_good, review
from trustgraph_prompt.extraction.tally import Counts, counts_of
from trustgraph_prompt.json_text.encoding import encode
from trustgraph_prompt.json_text.pointer import steps
from trustgraph_prompt.replaced_file import replaced
from trustgraph_prompt.terminal import harmless

FILES: Final = Path(__file__).parent / "report_files"

POLICY: Final = "default-src 'none'; base-uri 'none'; form-action 'none'"

MAX_CHARACTERS: Final = 10_000_000
"""Of passages and objects that are shown; with the other limits this bounds the page."""

MAX_REMARKS: Final = 500
"""Of each kind that are shown."""

MAX_PASSAGE, MAX_VALUE = 10_000, 1_000
"""Characters of a passage and of a value that are shown."""

_MARKUP: Final = 300
"""Characters that an object costs beside its text."""


_TOGETHER: Final = {"weak": "doubtful", "ungrounded": "doubtful", "without_use": "nothing"}
"""The part of the report in which a kind of remarks is shown; other kinds have a part of their name."""


class RunRemark(NamedTuple):
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


class RunReport:
    """Collects the results of a run. `limits` has the token limit of an answer, by prompt."""

    def __init__(self, limits: Mapping[str, int | None], price: Price | None = None) -> None:
        self.price = price
        self.total: Counts = Counter()
        self.prompts: dict[str, Counts] = {prompt: Counter() for prompt in limits}
        self.documents: dict[str, DocumentPart] = {}
        self.refused: dict[tuple[str, str], list[RunRemark]] = {}
        self.parts: defaultdict[str, list[RunRemark]] = defaultdict(list)
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
        if job.position not in self._results:
            return {"questions": 1, "not_asked": 1}
        return counts_of(*self.of(job), is_paid=is_paid, price=self.price)

    def _remark(self, job: Job) -> None:
        for kind, why, object, _ in self.of(job)[1].remarks:
            remark = RunRemark(job, why or "the answer says that there are no objects", object)
            if kind == "refused":
                self.refused.setdefault((job.prompt, remark.why), []).append(remark)
            else:
                self.parts[_TOGETHER.get(kind, kind)].append(remark)

    @property
    def helps_to_ask_again(self) -> bool:
        """Whether the same command may answer what has no answer."""
        return bool(self.total["not_asked"]) or not all(
            is_refused_for_good(each.why) for each in self.parts["failed"]
        )

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
            if where and where.term == "text"
            for start, end in where.spans
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


Advice = tuple[str, Sequence[str]]
"""What helps against what went wrong, and the commands to type."""


class ReportedRun(NamedTuple):
    """Of what run the report is: its file of objects, model, prompts with versions, and page of the graph.

    `skipped` tells why which files are no documents.
    """

    objects: Path
    model: str
    versions: Mapping[str, str]
    graph: Path | None
    skipped: Sequence[str]


def write_report(report: RunReport, file: Path, origin: ReportedRun, advice: Sequence[Advice]) -> None:
    """Write the report of counted jobs, which replaces the previous file at the end. Raises `StoreError`."""
    style = html_pages.style(FILES / "page.css")
    shown = report.shown_chunks()
    files = {file for file, _ in shown}
    page = (
        html_pages.environment(FILES, finalize=_visible)
        .get_template("report.html")
        .generate(
            report=report,
            origin=origin,
            advice=advice,
            style=style,
            policy=f"{POLICY}; style-src {html_pages.allowed(style)}",
            version=__version__,
            made=datetime.now(UTC),
            most=MAX_REMARKS,
            shown=shown,
            shown_files=files,
            shown_values=shown_values,
            document_rows=[
                (part.file, "", part.counts, f"d{part.number}" if part.file in files else "")
                for part in islice(report.documents.values(), MAX_REMARKS)
            ],
            chunks=sum(len(part.chunks) for part in report.documents.values()),
            refused=_bounded(report.refused),
            link=lambda path: quote(os.fsencode(os.path.relpath(path, file.parent))),
            passage=lambda remark: remark.job.chunk.text[:MAX_PASSAGE],
        )
    )
    with replaced(file) as part, part.open("w", encoding="utf-8", errors="replace") as out:
        out.writelines(page)


def _bounded(groups: Mapping[Any, Sequence[RunRemark]]) -> list[tuple[Any, int, list[RunRemark]]]:
    """The groups with the most remarks first, with their number and those that are shown."""
    left = MAX_REMARKS
    bounded = []
    for key, remarks in sorted(groups.items(), key=lambda group: -len(group[1])):
        bounded.append((key, len(remarks), list(islice(remarks, left))))
        left -= len(bounded[-1][2])
    return bounded[:MAX_REMARKS]


def _visible(value: Any) -> Any:
    """Escape what would reorder the text of the page, or could not be seen in it."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return harmless(value.replace("\r\n", "\n").replace("\t", "    "))
