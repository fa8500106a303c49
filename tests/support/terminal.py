"""A real terminal: a shell in a tmux of its own, what is on the screen, and keys that a person presses."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from tests.support.command import environment
from tests.support.requirements import unavailable

TMUX: Final = shutil.which("tmux")
PROMPT: Final = "ready>"


class Terminal:
    """A shell on a screen. Its server listens on a socket of its own, and ends with it."""

    def __init__(self, socket: Path) -> None:
        self._tmux = (str(TMUX), "-S", str(socket), "-f", os.devnull)

    async def begin(self, folder: Path, columns: int, rows: int) -> None:
        """Start the shell in a folder."""
        size = ("-x", str(columns), "-y", str(rows))
        shell = f"PS1='{PROMPT} ' exec bash --norc --noprofile"
        await self._run("new-session", "-d", *size, "-c", str(folder), shell)
        await self.shows(PROMPT)

    async def type(self, line: str) -> None:
        """Type a line and press Enter."""
        await self._run("send-keys", "-l", line)
        await self._run("send-keys", "Enter")

    async def press(self, key: str) -> None:
        """Press a key, by its name for tmux."""
        await self._run("send-keys", key)

    async def screen(self) -> str:
        """What is on the screen."""
        return await self._run("capture-pane", "-p")

    async def shows(self, *texts: str, seconds: float = 60) -> str:
        """Wait until all of the texts are on the screen, and return what is there."""
        screen = ""
        try:
            async with asyncio.timeout(seconds):
                while not all(text in screen for text in texts):
                    await asyncio.sleep(0.05)
                    screen = await self.screen()
        except TimeoutError:
            raise AssertionError(f"{texts} did not appear:\n{screen}") from None
        return screen

    async def end(self) -> None:
        """End the shell and all that runs in it."""
        await self._run("kill-server")

    async def _run(self, *arguments: str) -> str:
        process = await asyncio.create_subprocess_exec(
            *self._tmux,
            *arguments,
            stdout=asyncio.subprocess.PIPE,
            env={**environment(), "TERM": "xterm-256color", "TMUX": "", "LC_ALL": "C.UTF-8"},
        )
        output, _ = await process.communicate()
        return output.decode()


@asynccontextmanager
async def terminal(folder: Path, columns: int = 150, rows: int = 40) -> AsyncIterator[Terminal]:
    """A terminal in a folder. Skips the test without tmux."""
    if TMUX is None:
        unavailable("no tmux: apt-get install tmux")
    with tempfile.TemporaryDirectory() as directory:  # the path of a socket must be short
        opened = Terminal(Path(directory) / "tmux")
        await opened.begin(folder, columns, rows)
        try:
            yield opened
        finally:
            await opened.end()
