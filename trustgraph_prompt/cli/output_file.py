"""The output file of an extraction, which replaces the previous one when the run ends."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Final

from trustgraph_prompt.documents import Document
from trustgraph_prompt.errors import ConfigError, TrustgraphPromptError
from trustgraph_prompt.extraction.object_tables import table_writer
from trustgraph_prompt.extraction.run_record import RunRecord, sha256_of
from trustgraph_prompt.replaced_file import replaced

SQLITE: Final = b"SQLite format 3\0"
"""The first bytes of the state of a run."""

_NOT_TO_STANDARD_OUTPUT: Final = "objects go to a file, not to standard output"


class OutputFile:
    """The file of objects, with `.state` for the answers and `.part` for the objects of this run.

    The folder `.texts` keeps the texts of documents, by hash, where these are not the files themselves.
    A file whose name is that of a table (`.csv`, `.parquet`) is made of the lines in the part.

    The constructor raises `ConfigError` if the run would overwrite a file that no run has written.
    """

    def __init__(self, out: Path, documents: Sequence[Path], *, bare: bool = False) -> None:
        self.out = out
        if not out.name:
            raise self._refusal("is a folder; give the name of a file in it")
        self._write_table = table_writer(out, bare=bare)
        self.state = out.with_name(f"{out.name}.state")
        self._target = Path(os.path.realpath(out))  # writing replaces the target of a link, not the link
        self.texts = out.with_name(f"{out.name}.texts")
        self._part = self._target.with_name(f"{self._target.name}.part")
        self._file: IO[bytes] | None = None
        try:
            self._check(documents)
            self.record = RunRecord(self.state, "extract", "--output")
            self.check_replaceable()
        except OSError as error:
            raise self._refusal(f"cannot be written: {error.strerror}") from error

    def write(self, lines: Iterable[bytes]) -> None:
        """Append lines to the part. Raises `TrustgraphPromptError`."""
        try:
            if self._file is None:
                self._file = self._part.open("wb")
            self._file.writelines(lines)
            self._file.flush()
        except OSError as error:
            raise TrustgraphPromptError(f"{self._part}: cannot be written: {error.strerror}") from error

    def keep_text(self, document: Document) -> None:
        """Keep the text that positions refer to, unless it is the file. Raises `TrustgraphPromptError`."""
        kept = self.texts / f"{document.sha256}.txt"
        try:
            if kept.exists() or sha256_of(Path(document.file)) == document.sha256:
                return
            self.texts.mkdir(exist_ok=True)
            with replaced(kept) as part:
                part.write_bytes(document.text.encode(errors="replace"))
        except OSError as error:
            raise TrustgraphPromptError(f"{kept}: cannot be written: {error.strerror}") from error

    def replace(self) -> None:
        """Replace the file by the part. Raises `TrustgraphPromptError`."""
        self.write(())
        assert self._file is not None
        self._file.close()
        try:
            if self._write_table is not None:
                with replaced(self._target) as table:
                    self._write_table(self._part, table)
                self._part.unlink()
            else:
                self._part.replace(self._target)
        except OSError as error:
            raise TrustgraphPromptError(f"{self.out}: cannot be written: {error.strerror}") from error

    def check_replaceable(self) -> None:
        """Raise `ConfigError` if the file holds what no run has written: an edit, or something else."""
        if not self.out.exists() or not self.out.stat().st_size:
            return
        if not self.state.exists():
            raise self._refusal(
                f"exists, and was not written by `extract` (there is no {self.state.name}); "
                "move it away, or choose another --output"
            )
        if not self.record.may_replace(self.out):
            raise self._refusal(
                "is not as `extract` wrote it, and would be replaced; "
                "move it away to keep it, then run the same command again: no answer is paid twice"
            )

    def discard(self) -> None:
        """Delete the part and keep the previous file."""
        if self._file is not None:
            self._file.close()
            self._part.unlink(missing_ok=True)

    def _check(self, documents: Sequence[Path]) -> None:
        if str(self.out) == "-":
            raise self._refusal(_NOT_TO_STANDARD_OUTPUT)
        for file in (self._target, self.state, self._part):
            if any(file.exists() and document.exists() and file.samefile(document) for document in documents):
                raise self._refusal(f"writing to it would overwrite the document {file}")
        if self.out.exists() and not self.out.is_file():
            raise self._refusal("is not a regular file")
        if self._is_standard_output():
            raise self._refusal(_NOT_TO_STANDARD_OUTPUT)
        if self.state.exists() and not _may_be_state(self.state):
            raise ConfigError(
                "is not the state of an earlier `extract`; choose another --output", where=str(self.state)
            )
        if self._part.exists() and not self.state.exists():
            raise self._refusal(f"would overwrite {self._part}, which no run has written; move it away")
        self._target.parent.mkdir(parents=True, exist_ok=True)
        for folder in (self._target.parent, self.state.parent):
            if not os.access(folder, os.W_OK):
                raise self._refusal(f"cannot be written: the folder {folder} is not writable")

    def _is_standard_output(self) -> bool:
        """Whether standard output goes to this file, as with `/dev/stdout` and `> FILE`."""
        try:
            return os.path.samestat(self.out.stat(), os.fstat(1))
        except OSError:  # there is no such file, or no standard output
            return False

    def _refusal(self, message: str) -> ConfigError:
        return ConfigError(message, where=f"--output {self.out}")


def _may_be_state(file: Path) -> bool:
    if not file.is_file():
        return False
    with file.open("rb") as content:
        return content.read(len(SQLITE)) in (b"", SQLITE)
