"""Where an extraction writes: a file of objects that takes the place of the last one when the run is over."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Final

from trustgraph_prompt.errors import ConfigError, TrustgraphPromptError

SQLITE: Final = b"SQLite format 3\0"
"""How a file begins that can be the state of a run."""


class OutputFile:
    """The file of objects and what stands beside it: `.state` knows what was answered, `.part` grows.

    The constructor raises `ConfigError` where a run would overwrite what no run has written.
    """

    def __init__(self, out: Path, documents: Sequence[Path]) -> None:
        self.out = out
        self.state = out.with_name(f"{out.name}.state")
        self._target = Path(os.path.realpath(out))  # a link stays one
        self._part = self._target.with_name(f"{self._target.name}.part")
        self._file: IO[bytes] | None = None
        try:
            self._check(documents)
        except OSError as error:
            raise self._refusal(f"cannot be written: {error.strerror}") from error

    def write(self, lines: Iterable[bytes]) -> None:
        """Add lines to the part. Raises `TrustgraphPromptError` where it cannot be written."""
        try:
            if self._file is None:
                self._file = self._part.open("wb")
            self._file.writelines(lines)
            self._file.flush()
        except OSError as error:
            raise TrustgraphPromptError(f"{self._part}: cannot be written: {error.strerror}") from error

    def replace(self) -> None:
        """Put what was written in the place of what was there. Raises `TrustgraphPromptError`."""
        self.write(())
        assert self._file is not None
        self._file.close()
        try:
            self._part.replace(self._target)
        except OSError as error:
            raise TrustgraphPromptError(f"{self.out}: cannot be written: {error.strerror}") from error

    def discard(self) -> None:
        """Leave what was there as it is."""
        if self._file is not None:
            self._file.close()
            self._part.unlink(missing_ok=True)

    def _check(self, documents: Sequence[Path]) -> None:
        if str(self.out) == "-":
            raise self._refusal("objects go to a file, not to standard output")
        for file in (self._target, self.state, self._part):
            if any(file.exists() and document.exists() and file.samefile(document) for document in documents):
                raise self._refusal(f"writing to it would overwrite the document {file}")
        if self.out.exists() and not self.out.is_file():
            raise self._refusal("is no regular file")
        if self.state.exists() and not _may_be_a_state(self.state):
            raise ConfigError("is no state of an extract; choose another output", where=str(self.state))
        if self.out.exists() and self.out.stat().st_size and not self.state.exists():
            raise self._refusal(
                f"is there already, and not by extract ({self.state.name} is not beside it); "
                "delete it, or choose another output"
            )
        self._target.parent.mkdir(parents=True, exist_ok=True)
        for place in (self._target.parent, self.state.parent):
            if not os.access(place, os.W_OK):
                raise self._refusal(f"cannot be written: the folder {place} may not be written to")

    def _refusal(self, message: str) -> ConfigError:
        return ConfigError(message, where=f"--output {self.out}")


def _may_be_a_state(file: Path) -> bool:
    if not file.is_file():
        return False
    with file.open("rb") as content:
        return content.read(len(SQLITE)) in (b"", SQLITE)
