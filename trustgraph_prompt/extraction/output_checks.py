"""Checks before a run that its files can be written, and overwrite nothing of somebody else."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from trustgraph_prompt.errors import ConfigError

MayReplace = Callable[[Path], bool]
"""Whether a file that exists is as an earlier run wrote it."""


def check_file(option: str, path: Path, used: Iterable[Path], may_replace: MayReplace) -> None:
    """Check that a file can be written, and that nothing which no run wrote is replaced.

    `used` are other files of the run. Raises `ConfigError`.
    """
    if os.path.realpath(path) in {os.path.realpath(file) for file in used}:
        raise _refused(option, path, "is another file of this run; choose another name")
    if path.is_dir() or not _is_writable(path.parent):
        raise _refused(option, path, "cannot be written; give a file in a writable folder")
    if path.exists() and not may_replace(path):
        raise _refused(
            option,
            path,
            "exists, and no run with this --output wrote it as it is; move it away, or choose another name",
        )


def check_page(option: str, path: Path, used: Iterable[Path], may_replace: MayReplace) -> None:
    """Check a file as `check_file` does, and that its name is one of HTML."""
    if path.suffix not in (".html", ".htm"):
        raise _refused(option, path, "a page is HTML; end its name in .html")
    check_file(option, path, used, may_replace)


def check_folder(
    option: str, folder: Path, names: Iterable[str], used: Iterable[Path], may_replace: MayReplace
) -> None:
    """Check that files of these names can be written into a folder, which need not exist.

    Raises `ConfigError`.
    """
    there = next(each for each in (folder, *folder.parents) if each.exists())
    if not _is_writable(there):
        raise _refused(option, folder, "cannot be written; give a writable folder")
    if folder.exists():
        for name in names:
            check_file(option, folder / name, used, may_replace)


def _is_writable(folder: Path) -> bool:
    return folder.is_dir() and os.access(folder, os.W_OK)


def _refused(option: str, path: Path, why: str) -> ConfigError:
    return ConfigError(why, where=f"{option} {path}")
