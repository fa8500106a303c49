"""Shows progress on standard error: live on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from trustgraph_prompt.cli import output

if TYPE_CHECKING:
    from rich.console import RenderableType

SECONDS_BETWEEN_LINES = 2.0

MOST_SECONDS_BETWEEN_LINES = 60.0
"""The pause grows towards it, so that the log of a long run stays short."""


def reading(files: Sequence[Path]) -> Iterator[Path]:
    """Yield the files, and name one every few seconds."""
    last = time.monotonic()
    for number, file in enumerate(files, 1):
        if time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            output.note(f"reading {file}, {number:,} of {output.counted(len(files), 'file')}")
        yield file


class Summary(Protocol):
    """Counts what is done of all that is asked."""

    @property
    def total(self) -> int: ...
    @property
    def done(self) -> int: ...
    @property
    def failed_in_a_row(self) -> int: ...
    def begin(self) -> str:
        """Say what is asked, in one line."""
        ...

    def line(self) -> str:
        """Describe the progress in one line."""
        ...


@contextmanager
def shown(summary: Summary) -> Iterator[Callable[[], None]]:
    """Show the progress during the block, which calls the function that it gets after each result."""
    with (_live if sys.stderr.isatty() else _lines)(summary) as update:
        yield update


@contextmanager
def _live(summary: Summary) -> Iterator[Callable[[], None]]:
    from rich.console import Console
    from rich.live import Live

    with Live(get_renderable=lambda: _drawn(summary), console=Console(stderr=True), transient=True):
        yield lambda: None  # it is drawn several times a second anyway


def _drawn(summary: Summary) -> RenderableType:
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    rows = Table.grid()
    rows.add_row(ProgressBar(total=summary.total, completed=summary.done, width=60))
    rows.add_row(Text(summary.line()))
    return rows


@contextmanager
def _lines(summary: Summary) -> Iterator[Callable[[], None]]:
    output.note(summary.begin())
    last, pause = time.monotonic(), SECONDS_BETWEEN_LINES

    def update() -> None:
        nonlocal last, pause
        if time.monotonic() - last >= pause:
            last, pause = time.monotonic(), min(pause * 1.5, MOST_SECONDS_BETWEEN_LINES)
            output.note(summary.line())

    try:
        yield update
    finally:
        output.note(summary.line())
