"""The command as a person runs it: a process, its exit code and what it printed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
    """Run the command to its end."""
    return subprocess.run(
        [str(PROGRAM), *map(str, arguments)],
        cwd=folder,
        input=input,
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
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
