"""Walks a tutorial: writes its files and types its commands, in the order of the page."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.command import PROGRAM, ROOT, environment, run

_BLOCK: Final = re.compile(
    r"^(?P<fence>`{3,})(?P<kind>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)
_COMMAND: Final = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
_PROGRESS: Final = re.compile(r"(reading |asking about |\d+/\d+ answers|writing the graph).*\n")
_VARYING: Final = [
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(\+00:00|Z)"), "TIME"),
    (re.compile(r"in [\d.]+ s\b"), "in SECONDS"),
    (re.compile(r"\btaken by \S+"), "taken by WORKER"),
    (re.compile(r"[\d:-]+(?=  (unknown-prompt|llm-error))"), "ID"),
]


@dataclass(frozen=True, slots=True)
class Step:
    """A command of a tutorial, what the page shows below it, and what it printed."""

    command: str
    shown: str
    printed: str


def walk(page: Path, folder: Path, broker: str = "") -> Iterator[Step]:
    """Do what the page says in an empty folder with the demo; a worker runs until the end."""
    (folder / "demo").symlink_to(ROOT / "demo")
    with ExitStack() as stack:
        for block in _BLOCK.finditer(page.read_text("utf-8")):
            if title := block["title"]:
                (folder / title).parent.mkdir(exist_ok=True)
                (folder / title).write_text(block["text"], "utf-8")
            elif block["kind"] == "console":
                for command, shown in _COMMAND.findall(block["text"]):
                    typed = command.replace("$BROKER", broker)
                    if typed.startswith("trustgraph-prompt run"):
                        _start(typed, folder, stack)
                    else:
                        yield Step(command, shown, _type(typed, folder))


def comparable(output: str) -> str:
    """An output without what differs between two runs."""
    output = _PROGRESS.sub("", output)
    for varying, name in _VARYING:
        output = varying.sub(name, output)
    return "".join(f"{line.rstrip()}\n" for line in output.splitlines()).strip("\n")


def _type(command: str, folder: Path) -> str:
    if command.startswith("trustgraph-prompt "):
        # Where the reader has activated .venv; what to type next begins with a path otherwise.
        path = f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"
        done = run(*shlex.split(command)[1:], folder=folder, PATH=path)
    else:
        done = subprocess.run(
            ["sh", "-c", command], cwd=folder, capture_output=True, text=True, timeout=60, check=False
        )
    return done.stdout + done.stderr


def _start(command: str, folder: Path, stack: ExitStack) -> None:
    process = subprocess.Popen(
        [PROGRAM, *shlex.split(command)[1:]],
        cwd=folder,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    stack.callback(process.communicate)
    stack.callback(process.terminate)
    assert process.stderr is not None
    next(line for line in process.stderr if '"starting"' in line)
