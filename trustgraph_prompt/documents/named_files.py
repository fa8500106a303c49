"""Finds the files that a person names, and reads them."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import takewhile
from pathlib import Path
from typing import Final, NamedTuple

from trustgraph_prompt.documents.document import MAX_BYTES
from trustgraph_prompt.documents.formats import SUFFIXES
from trustgraph_prompt.errors import ConfigError

STANDARD_INPUT: Final = Path("-")

_WRITTEN_TOGETHER: Final = (
    {"CURRENT", "LOCK"},  # a graph store
    {"nodes.csv", "relationships.csv"},  # for Neo4j
)
_TEXTS: Final = (".jsonl.texts", ".csv.texts", ".parquet.texts")  # of documents, beside the objects of a run
_SIGNS: Final = "*?["  # of a pattern
_OUTSIDE: Final = "outside of the folder (links)"
_GENERATOR: Final = b'<meta name="generator" content="trustgraph-prompt'


class Listing(NamedTuple):
    """The files to read, each once, and notes about what was skipped."""

    files: list[Path]
    notes: list[str]


def listed(names: Sequence[str]) -> Listing:
    """Return the files that names stand for: files, folders with all below them, patterns, `-`.

    A pattern may have `*`, `?`, `[…]` and `**`. In a folder, hidden files, unknown formats, and
    links that lead out of it are skipped; a pattern follows no links out of the folder that it begins with.
    Raises `ConfigError` for a name that matches nothing.
    """
    once: dict[str, Path] = {}
    notes: list[str] = []
    for name in names:
        files = [
            file
            for path in _matches(name, notes)
            for file in (_in_folder(path, notes) if path.is_dir() else (path,))
        ]
        if not files:
            error = ConfigError("holds no document of a format that is read", where=name)
            for note in notes:
                error.add_note(note)
            raise error
        for file in files:
            once.setdefault("-" if file == STANDARD_INPUT else os.path.realpath(file), file)
    return Listing(list(once.values()), notes)


def content(file: Path) -> bytes:
    """Return the content of a file, or of standard input for `-`. Raises `ConfigError`."""
    where = str(file)
    try:
        if file == STANDARD_INPUT:
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            if file.exists() and not file.is_file():
                raise ConfigError("is a folder" if file.is_dir() else "is not a regular file", where=where)
            with file.open("rb") as stream:
                data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=where) from error
    if len(data) > MAX_BYTES:
        raise ConfigError(f"is larger than {MAX_BYTES // 1024 // 1024} MiB; split it", where=where)
    return data


def _matches(name: str, notes: list[str]) -> Iterable[Path]:
    """The files and folders of a name or a pattern, sorted; a note counts the links that lead out."""
    path = Path(name)
    if path == STANDARD_INPUT or (name and os.path.lexists(path)):
        return (path,)
    if not any(sign in name for sign in _SIGNS):
        raise ConfigError("does not exist", where=name)
    try:
        pattern = str(path.relative_to(path.anchor))
        found = sorted(
            each
            for each in Path(path.anchor).glob(pattern)
            if not any(_is_hidden(part) for part in each.parts if part not in path.parts)
        )
    except (ValueError, NotImplementedError, OSError) as error:
        raise ConfigError(f"is not a pattern: {error}", where=name) from error
    if not found:
        raise ConfigError("matches no file", where=name)
    folder = Path(*takewhile(lambda part: not any(sign in part for sign in _SIGNS), path.parts))
    inside = [each for each in found if not _leads_out(each, folder)]
    if len(inside) < len(found):
        notes.append(f"{name}: skipped {len(found) - len(inside):,} {_OUTSIDE}")
    return inside


def is_page_of_ours(file: Path) -> bool:
    """Whether a file is a page that this program wrote."""
    if not file.is_file():  # opening a named pipe would wait for somebody to write into it
        return False
    try:
        with file.open("rb") as stream:
            return _GENERATOR in stream.read(4_096)
    except OSError:
        return False  # the error of reading it says more


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "~$"))  # Word keeps `~$report.docx` while a report is open


def _leads_out(path: Path, folder: Path) -> bool:
    """Whether a path below the folder leads to what is not in it, by links."""
    return not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _in_folder(folder: Path, notes: list[str]) -> Iterator[Path]:
    """The documents below a folder, sorted; a note counts what was skipped."""
    skipped: Counter[str] = Counter()
    for parent, folders, names in os.walk(folder, onerror=lambda error: notes.append(f"skipped: {error}")):
        if parent.endswith(_TEXTS) or any(files <= {*names} for files in _WRITTEN_TOGETHER):
            folders.clear()
            skipped["written by this program"] += len(names)
            continue
        skipped["hidden"] += sum(map(_is_hidden, folders))
        folders[:] = sorted(name for name in folders if not _is_hidden(name))
        skipped[_OUTSIDE] += sum(_leads_out(Path(parent, name), folder) for name in folders)
        there = frozenset(names)
        for name in sorted(names):
            file = Path(parent, name)
            if why := _why_skipped(file, folder, there):
                skipped[why] += 1
            else:
                yield file
    if +skipped:
        counts = ", ".join(f"{count:,} {kind}" for kind, count in skipped.most_common(10) if count)
        notes.append(f"{folder}: skipped {counts}")


def _why_skipped(file: Path, folder: Path, beside: Set[str]) -> str | None:
    """What a file below a folder is that is not read, beside others of these names; None if it is read."""
    suffix = file.suffix.lower()
    if _is_hidden(file.name):
        return "hidden"
    if suffix not in SUFFIXES:
        return suffix or "without extension"
    if _leads_out(file, folder):
        return _OUTSIDE
    is_table_of_ours = suffix == ".csv" and f"{file.name}.state" in beside
    if is_table_of_ours or (suffix in (".html", ".htm") and is_page_of_ours(file)):
        return "written by this program"
    return None
