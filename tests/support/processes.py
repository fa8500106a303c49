"""A worker in a process of its own, its log, and the pages that it serves."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from contextlib import suppress


class Process:
    """A worker in a process of its own. Its log is read all the time, so that it never blocks on it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.log: list[str] = []
        self._reading = asyncio.create_task(self._read())
        self.kill, self.send_signal = process.kill, process.send_signal

    async def shows(self, path: str, text: str, seconds: float = 60) -> None:
        """Wait until a page of the process says something."""
        address = await self._address
        async with asyncio.timeout(seconds):
            while text not in await asyncio.to_thread(page, f"http://{address}{path}"):
                await asyncio.sleep(0.02)

    async def wait(self) -> int:
        code = await self._process.wait()
        await self._reading
        return code

    async def end(self) -> None:
        """Kill it, if it still lives."""
        with suppress(ProcessLookupError):
            self.kill()
        await self.wait()

    async def _read(self) -> None:
        assert self._process.stderr is not None
        async for line in self._process.stderr:
            self.log.append(line.decode())
            record = json.loads(line) if line.startswith(b"{") else {}
            if "http" in record and not self._address.done():
                self._address.set_result(record["http"])
        if not self._address.done():
            self._address.set_exception(AssertionError("".join(self.log)))
            self._address.exception()


def page(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return str(response.read().decode())
    except urllib.error.HTTPError as error:
        return error.read().decode()
    except OSError as error:
        return str(error)
