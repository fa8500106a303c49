"""Shows progress on standard error: a bar on a terminal, else a line every few seconds."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from trustgraph_prompt.cli import output

if TYPE_CHECKING:
    from trustgraph_prompt.cli.extract_summary import ExtractSummary

SECONDS_BETWEEN_LINES = 2.0


class Progress:
    """Shows the progress of a summary during a `with` block."""

    def __init__(self, tally: ExtractSummary) -> None:
        self._tally = tally
        self._display = _Bar(tally) if sys.stderr.isatty() else _Lines(tally)

    def __enter__(self) -> Self:
        self._display.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._display.stop()

    def update(self) -> None:
        """Show the new state."""
        self._display.update()


class _Bar:
    def __init__(self, tally: ExtractSummary) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        self._tally = tally
        self._progress = RichProgress(
            BarColumn(bar_width=30),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._progress.add_task("", total=len(tally.jobs))

    def start(self) -> None:
        self._progress.start()
        self.update()

    def update(self) -> None:
        self._progress.update(self._task, completed=self._tally.done, description=self._tally.line())

    def stop(self) -> None:
        self._progress.stop()


class _Lines:
    def __init__(self, tally: ExtractSummary) -> None:
        self._tally = tally
        self._last = time.monotonic()

    def start(self) -> None:
        chunks = output.counted(self._tally.chunks, "chunk")
        output.note(f"asking about {chunks}, {output.counted(len(self._tally.jobs), 'question')} in all")

    def update(self) -> None:
        if time.monotonic() - self._last >= SECONDS_BETWEEN_LINES:
            self._last = time.monotonic()
            output.note(self._tally.line())

    def stop(self) -> None:
        output.note(self._tally.line())
