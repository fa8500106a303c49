"""Follows a guide: writes its files, types its commands, and looks for what it shows in what they print."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.support.command import run
from tests.support.guides import guide_page

_BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT[\d:]+\+00:00")


def follow(guide: str, folder: Path, files: Mapping[str, str]) -> int:
    """Do what the guide says in a folder with the demo, and return how many of its outputs were compared.

    A block of a kind in `files` is saved as the file that it names there.
    """
    printed = ""
    compared = 0
    for kind, block in _BLOCK.findall(guide_page(guide).read_text(encoding="utf-8")):
        if kind in files:
            (folder / files[kind]).write_text(block, encoding="utf-8")
        elif kind == "text":
            assert _is_shown(block, printed), f"{block}\nis not in\n{printed}"
            compared += 1
        elif kind == "sh":
            for program, *words in _commands(block):
                if program == "cp":
                    shutil.copy(folder / words[0], folder / words[1])
                    continue
                assert program == "trustgraph-prompt"
                done = run(*words, folder=folder)
                assert done.returncode == 0, (words, done.stderr)
                printed = done.stdout
    return compared


def _lines(text: str) -> list[str]:
    """Lines without the time, and without their layout, which depends on the longest."""
    told = (_TIME.sub("TIME", line) for line in text.splitlines() if set(line) - set(" ─"))
    return [" ".join(line.split()) for line in told]


def _is_shown(shown: str, printed: str) -> bool:
    """Whether the lines of the guide are printed in this order; `…` alone stands for any lines."""
    rest = iter(_lines(printed))
    return all(any(_is_told(told, line) for line in rest) for told in _lines(shown) if told != "…")


def _is_told(told: str, line: str) -> bool:
    """Whether the guide tells this line, up to a `…` at the end."""
    return line == told or (told.endswith("…") and line.startswith(told.removesuffix("…").rstrip()))


def _commands(block: str) -> Iterator[list[str]]:
    for line in block.replace("\\\n", " ").splitlines():
        yield shlex.split(line, comments=True)
