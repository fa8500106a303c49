"""Workers in processes of their own, all that they need in a folder, their logs and the pages they serve."""

from __future__ import annotations

import asyncio
import json
import sys
import urllib.error
import urllib.request
from asyncio.subprocess import PIPE
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from time import monotonic

from tests.support.command import PROGRAM, environment
from tests.support.forks import AsyncFork, can_fork, fork_async
from tests.support.workers import Heard, listening
from trustgraph_prompt.broker import Broker

Spawned = asyncio.subprocess.Process | AsyncFork


class Process:
    """A worker in a process of its own. Its log is read all the time, so that it never blocks on it."""

    def __init__(self, process: Spawned) -> None:
        self._process = process
        self._address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.log: list[str] = []
        self._reading = asyncio.create_task(self._read())
        self.pid, self.kill, self.send_signal = process.pid, process.kill, process.send_signal

    async def shows(self, path: str, text: str, seconds: float = 60) -> None:
        """Wait until a page of the process says something."""
        async with asyncio.timeout(seconds):
            while text not in await self.page(path):
                await asyncio.sleep(0.02)

    async def page(self, path: str) -> str:
        """A page of the process."""
        return await asyncio.to_thread(page, f"http://{await self._address}{path}")

    async def says(self, text: str, seconds: float = 60) -> None:
        """Wait until it stands in the log."""
        async with asyncio.timeout(seconds):
            while not any(text in line for line in self.log):
                await asyncio.sleep(0.02)

    async def address(self) -> tuple[str, int]:
        """Where it serves its pages."""
        host, _, port = (await self._address).rpartition(":")
        return host, int(port)

    async def answers_within(self, path: str) -> float:
        """How many seconds a page of the process takes."""
        address, began = await self._address, monotonic()
        await asyncio.to_thread(page, f"http://{address}{path}")
        return monotonic() - began

    async def wait(self) -> int:
        code = await self._process.wait()
        await self._reading
        return code

    async def ended(self) -> None:
        """Wait until it has ended, in order."""
        code = await self.wait()
        assert code == 0, f"exit code {code}\n{''.join(self.log[-30:])}"

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


class Site:
    """A folder with a flow, prompts and the answers of a model; processes that use it.

    They meet on the broker at `url`, by default one in a file of the folder.
    """

    def __init__(
        self, folder: Path, stack: AsyncExitStack, url: str | None = None, config_topic: str | None = None
    ) -> None:
        self.folder = folder
        self.url = url or f"embedded:{folder / 'broker.db'}"
        self.provider = f"scripted:{folder / 'script.jsonl'}"
        self._model: tuple[str, ...] = ("--provider", self.provider)
        self.config_topic = config_topic
        self._stack = stack

    def serves(self, flow: str, templates: Mapping[str, str]) -> None:
        """The flow and the prompts of the processes that start from now on."""
        (self.folder / "flow.yaml").write_text(flow)
        (self.folder / "templates.json").write_text(json.dumps(templates))

    def answers(self, *answers: Mapping[str, object]) -> None:
        """What their model says."""
        (self.folder / "script.jsonl").write_text("\n".join(map(json.dumps, answers)))

    def asks(self, server: str) -> None:
        """Their model is behind a URL, and is asked once for each answer."""
        self._model = ("--base-url", server, "--model", "small", "--no-native-schema")

    @property
    def arguments(self) -> list[str]:
        """How the command is asked for a worker that serves the flow."""
        config = ("--topic", self.config_topic) if self.config_topic else ()
        return [
            *("run", "--broker", self.url, *config, *self._model),
            *("--flows", str(self.folder / "flow.yaml"), "--templates", str(self.folder / "templates.json")),
        ]

    async def run(self, *options: object, **variables: str) -> Process:
        """Such a worker, once it is ready."""
        return await self.start(*self.arguments, *options, **variables)

    async def start(self, *arguments: object, **variables: str) -> Process:
        """A process of the command that is asked so, once it is ready."""
        worker = await self.begin(*arguments, **variables)
        await worker.shows("/readyz", '"ready": true')
        return worker

    async def begin(self, *arguments: object, **variables: str) -> Process:
        """Such a process, ready or not; without arguments a worker that serves the flow."""
        asked = arguments or self.arguments
        http = () if "--http" in asked else ("--http", "127.0.0.1:0")
        worker = Process(await self.spawn(*asked, *http, stderr=PIPE, **variables))
        self._stack.push_async_callback(worker.end)
        return worker

    async def spawn(self, *arguments: object, stderr: int, **variables: str) -> Spawned:
        """A process of the command, which ends with the test at the latest."""
        asked, environ = [*map(str, arguments)], environment(**variables)
        process: Spawned
        if can_fork(variables):
            process = await fork_async([str(PROGRAM), *asked], self.folder, environ, stderr)
        else:
            command = (sys.executable, "-m", "trustgraph_prompt", *asked)
            process = await asyncio.create_subprocess_exec(
                *command, stderr=stderr, cwd=self.folder, env=environ
            )
        self._stack.push_async_callback(_end, process)
        return process

    async def hear(self, broker: Broker, topic: str) -> Heard:
        """Follow a topic until the test ends."""
        return await self._stack.enter_async_context(listening(broker, topic))


async def _end(process: Spawned) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()


def page(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return str(response.read().decode())
    except urllib.error.HTTPError as error:
        return error.read().decode()
    except OSError as error:
        return str(error)
