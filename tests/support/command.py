"""The command as a person runs it: a process, its exit code and what it printed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from select import PIPE_BUF

from tests.support.forks import can_fork, fork

ROOT = Path(__file__).parents[2]
PROGRAM = Path(sys.executable).with_name("trustgraph-prompt")
DOCUMENT = ROOT / "demo" / "on-a-piece-of-chalk.txt"
RECORDING = ROOT / "demo" / "on-a-piece-of-chalk.recording.jsonl"
SCRIPTED = f"scripted:{RECORDING}"
TIMEOUT = 100.0  # seconds


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
    """Run the command to its end, with files as standard output and error and a pipe for an input."""
    command = [str(PROGRAM), *map(str, arguments)]
    given, environ = (input or "").encode(), environment(**variables)
    if len(given) <= PIPE_BUF and can_fork(variables):
        return _forked(command, folder or Path.cwd(), given if input is not None else None, environ)
    return subprocess.run(
        command,
        cwd=folder,
        input=input,
        env=environ,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


def _forked(
    command: list[str], folder: Path, given: bytes | None, environ: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    with ExitStack() as stack:
        out, err = (stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(2))
        if given is None:
            read = stack.enter_context(open(os.devnull, "rb"))
        else:
            ours, theirs = os.pipe()
            read = stack.enter_context(open(ours, "rb"))
            os.write(theirs, given)
            os.close(theirs)
        process = fork(command, folder, environ, (read.fileno(), out.fileno(), err.fileno()))
        try:
            code = process.wait(TIMEOUT)
        except BaseException:  # the time of the test is over
            process.kill()
            raise
        for file in (out, err):
            file.seek(0)
        if code == -signal.SIGABRT:
            raise subprocess.TimeoutExpired(command, TIMEOUT, f"{out.read()}\n{err.read()}")
        return subprocess.CompletedProcess(command, code, out.read(), err.read())


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
