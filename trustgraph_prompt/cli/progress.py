"""Shows progress on standard error: a bar on a terminal, else a line every few seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trustgraph_prompt.cli import output

if TYPE_CHECKING:
    from trustgraph_prompt.cli.extract_summary import ExtractSummary

SECONDS_BETWEEN_LINES = 2.0


@contextmanager
def shown(summary: ExtractSummary) -> Iterator[Callable[[], None]]:
    """Show the progress during the block, which calls the function that it gets after each result."""
    with (_bar if sys.stderr.isatty() else _lines)(summary) as update:
        yield update


@contextmanager
def _bar(summary: ExtractSummary) -> Iterator[Callable[[], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = BarColumn(bar_width=30), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(summary.line(), total=len(summary.jobs))
        yield lambda: progress.update(task, completed=summary.done, description=summary.line())


@contextmanager
def _lines(summary: ExtractSummary) -> Iterator[Callable[[], None]]:
    chunks, questions = output.counted(summary.chunks, "chunk"), output.counted(len(summary.jobs), "question")
    output.note(f"asking about {chunks}, {questions} in all")
    last = time.monotonic()

    def update() -> None:
        nonlocal last
        if time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            output.note(summary.line())

    try:
        yield update
    finally:
        output.note(summary.line())
