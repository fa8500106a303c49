"""Writes the report of a run as one HTML file, without a script, which loads nothing from elsewhere."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from markupsafe import Markup

from trustgraph_prompt import __version__, html_pages
from trustgraph_prompt.extraction.report import MAX_PASSAGE, MAX_REMARKS, RunRemark, RunReport, shown_values
from trustgraph_prompt.replaced_file import replaced
from trustgraph_prompt.terminal import harmless

FILES: Final = Path(__file__).parent / "report_files"

POLICY: Final = "default-src 'none'; base-uri 'none'; form-action 'none'"


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
