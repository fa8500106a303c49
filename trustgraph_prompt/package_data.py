"""Finds the bundled prompts and flows: in the installed package, else in the checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent


def templates() -> Path:
    """The directory of the prompt files."""
    return _folder("templates")


def flows() -> Path:
    """The directory of the flow files."""
    return _folder("flows")


def _folder(name: str) -> Path:
    installed = _PACKAGE / "_data" / name
    return installed if installed.is_dir() else _PACKAGE.parent / name
