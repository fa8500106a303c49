"""The command as a person runs it: a process, its exit code and what it printed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Final

ROOT = Path(__file__).parents[2]
PROGRAM = Path(sys.executable).with_name("trustgraph-prompt")
DOCUMENT = ROOT / "demo" / "on-a-piece-of-chalk.txt"
RECORDING = ROOT / "demo" / "on-a-piece-of-chalk.recording.jsonl"
SCRIPTED = f"scripted:{RECORDING}"


def environment(**variables: str) -> dict[str, str]:
    """This process's own, without what would choose a provider or a broker."""
    ours = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TRUSTGRAPH_PROMPT_", "OPENAI_"))
    }
    return {**ours, "COLUMNS": "200", "NO_COLOR": "1", **variables}


def run(
    *arguments: object, folder: Path | None = None, input: str | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end.

    It is forked (`forked.py`), with files as standard output and error. With an input or variables it is
    a process like any other, with pipes.
    """
    command = [str(PROGRAM), *map(str, arguments)]
    if input is None and not variables:
        return _forked(command, folder)
    return subprocess.run(
        command,
        cwd=folder,
        input=input,
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


_idle: Final[list[subprocess.Popen[str]]] = []
"""Processes that fork (`forked.py`). Each ends with its standard input, that is with this process."""


def _forked(command: list[str], folder: Path | None) -> subprocess.CompletedProcess[str]:
    forking = _idle.pop() if _idle else _forking()
    assert forking.stdin is not None
    assert forking.stdout is not None
    with tempfile.NamedTemporaryFile("r") as out, tempfile.NamedTemporaryFile("r") as err:
        order = {
            "arguments": command,
            "folder": str(folder or Path.cwd()),
            "out": out.name,
            "err": err.name,
            "environment": environment(),
        }
        try:
            print(json.dumps(order), file=forking.stdin, flush=True)
            code = int(forking.stdout.readline())
        except BaseException:  # the time of the test is over
            os.killpg(forking.pid, signal.SIGKILL)
            raise
        _idle.append(forking)
        return subprocess.CompletedProcess(command, code, out.read(), err.read())


def _forking() -> subprocess.Popen[str]:
    program = [sys.executable, "-P", str(Path(__file__).with_name("forked.py"))]
    return subprocess.Popen(
        program, env=environment(), stdin=PIPE, stdout=PIPE, text=True, start_new_session=True
    )


@contextmanager
def started(*arguments: object, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """The command, running until the block ends."""
    process = subprocess.Popen(
        [str(PROGRAM), *map(str, arguments)],
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
