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

    from trustgraph_prompt.llm.calls_in_progress import CallsInProgress

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
    def rest(self) -> str:
        """What is left, as far as that is known."""
        ...

    def begin(self) -> str:
        """Say what is asked, in one line."""
        ...

    def line(self) -> str:
        """Describe in one line what is done."""
        ...


class RunProgress:
    """The progress of a run. Once it `is_ending`, nothing is said of what is left: that is not asked."""

    def __init__(self, summary: Summary, calls: CallsInProgress) -> None:
        self.is_ending = False
        self._summary = summary
        self._calls = calls

    @contextmanager
    def shown(self) -> Iterator[Callable[[], None]]:
        """Show it during the block, which calls the function that it gets after each result and second."""
        with (self._live if sys.stderr.isatty() else self._lines)() as update:
            yield update

    @property
    def calls(self) -> str:
        """The calls in progress, for how long, and how much they have brought; empty without any."""
        if not (seconds := self._calls.seconds):
            return ""
        how_long = output.duration(seconds[0])
        longest = f"the longest for {how_long}" if len(seconds) > 1 else f"for {how_long}"
        return (
            f"{output.counted(len(seconds), 'call')} in progress ({longest}, {self._calls.tokens:,} tokens)"
        )

    @property
    def line(self) -> str:
        """Describe it in one line."""
        rest = "" if self.is_ending else self._summary.rest
        return "; ".join(filter(None, (self._summary.line(), self.calls, rest)))

    @contextmanager
    def _live(self) -> Iterator[Callable[[], None]]:
        from rich.console import Console
        from rich.live import Live

        with Live(get_renderable=self._drawn, console=Console(stderr=True), transient=True):
            yield lambda: None  # it is drawn several times a second anyway

    def _drawn(self) -> RenderableType:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        rows = Table.grid()
        rows.add_row(ProgressBar(total=self._summary.total, completed=self._summary.done, width=60))
        rows.add_row(Text(self.line))
        return rows

    @contextmanager
    def _lines(self) -> Iterator[Callable[[], None]]:
        output.note(self._summary.begin())
        last, pause = time.monotonic(), SECONDS_BETWEEN_LINES

        def update() -> None:
            nonlocal last, pause
            if time.monotonic() - last >= pause:
                last, pause = time.monotonic(), min(pause * 1.5, MOST_SECONDS_BETWEEN_LINES)
                output.note(self.line)

        try:
            yield update
        finally:
            output.note(self.line)
