"""Checks before a run that its files can be written, and overwrite nothing of somebody else."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from trustgraph_prompt.documents.files import is_page_of_ours
from trustgraph_prompt.errors import ConfigError


def check_file(option: str, path: Path, used: Iterable[Path], *, may_replace: bool) -> None:
    """Check that a file can be written; one that exists is replaced only if `may_replace`.

    `used` are other files of the run. Raises `ConfigError`.
    """
    if os.path.realpath(path) in {os.path.realpath(file) for file in used}:
        raise _refused(option, path, "is another file of this run; choose another name")
    if path.is_dir() or not _is_writable(path.parent):
        raise _refused(option, path, "cannot be written; give a file in a writable folder")
    if path.exists() and not may_replace:
        raise _refused(option, path, "exists, and no earlier run wrote it; choose another name")


def check_page(option: str, path: Path, used: Iterable[Path], *, may_replace: bool) -> None:
    """Check a file as `check_file` does, and that its name is one of HTML.

    A page that exists may be a document, so only one that this program wrote is replaced.
    """
    if path.suffix not in (".html", ".htm"):
        raise _refused(option, path, "a page is HTML; end its name in .html")
    check_file(option, path, used, may_replace=may_replace and is_page_of_ours(path))


def check_folder(
    option: str, folder: Path, names: Iterable[str], used: Iterable[Path], *, may_replace: bool
) -> None:
    """Check that files of these names can be written into a folder, which need not exist.

    Raises `ConfigError`.
    """
    there = next(each for each in (folder, *folder.parents) if each.exists())
    if not _is_writable(there):
        raise _refused(option, folder, "cannot be written; give a writable folder")
    if folder.exists():
        for name in names:
            check_file(option, folder / name, used, may_replace=may_replace)


def _is_writable(folder: Path) -> bool:
    return folder.is_dir() and os.access(folder, os.W_OK)


def _refused(option: str, path: Path, why: str) -> ConfigError:
    return ConfigError(why, where=f"{option} {path}")
