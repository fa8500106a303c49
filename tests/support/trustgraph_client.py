"""TrustGraph's own clients, from the package index, in a process of their own."""

from __future__ import annotations

import asyncio
import importlib.metadata
import itertools
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Literal

from tests.support.requirements import unavailable

VERSION: Final = "2.11.1"
_PROGRAM: Final = Path(__file__).with_name("trustgraph_client_main.py")


class TrustGraphClient:
    """Calls methods of `PromptClient` and `TextCompletionClient`; any number at a time."""

    def __init__(self, process: Process, topics: dict[str, str]) -> None:
        self._process = process
        self._topics = topics
        self._ids = itertools.count()
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._reading = asyncio.create_task(self._read())

    async def prompt(self, id: str, *, streaming: bool = False, **variables: object) -> dict[str, Any]:
        """What comes of `PromptClient.prompt`."""
        return await self.call("prompt", id=id, variables=variables, streaming=streaming, timeout=60)

    async def call(self, method: str | None, **arguments: object) -> dict[str, Any]:
        """What comes of a method of `PromptClient`: `result`, or `error` and `message`; and `chunks`."""
        return await self.ask("prompt", "request", "response", method, arguments)

    async def complete(self, method: str, **arguments: object) -> dict[str, Any]:
        """What comes of a method of `TextCompletionClient`."""
        topics = ("text-completion-request", "text-completion-response")
        return await self.ask("text-completion", *topics, method, arguments)

    async def ask(
        self,
        client: Literal["prompt", "text-completion"],
        request: str,
        response: str,
        method: str | None,
        arguments: Mapping[str, object],
    ) -> dict[str, Any]:
        """What comes of a method of a client between two topics of the flow, by the names of their specs."""
        id = next(self._ids)
        call: dict[str, object] = {"id": id, "client": client, "arguments": arguments}
        call |= {"request": self._topics.get(request, request)}
        call |= {"response": self._topics.get(response, response)}
        if method is not None:
            call["method"] = method
        answered: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[id] = answered
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(call).encode() + b"\n")
        await self._process.stdin.drain()
        return await answered

    async def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), 10)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        await self._reading

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            record = json.loads(line)
            if "version" in record:
                assert record["version"] == VERSION
            else:
                self._waiting.pop(record["id"]).set_result(record)
        for waiting in self._waiting.values():
            waiting.set_exception(AssertionError("the clients' process has ended"))


@asynccontextmanager
async def trustgraph_client(url: str, topics: dict[str, str]) -> AsyncIterator[TrustGraphClient]:
    """Clients on a broker, for the topics of a flow; those of the prompt processor hear already."""
    try:
        importlib.metadata.version("trustgraph-base")
    except importlib.metadata.PackageNotFoundError:
        unavailable("no trustgraph-base: pip install trustgraph-prompt[upstream]")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", str(_PROGRAM), url), stdin=PIPE, stdout=PIPE, limit=2**24
    )
    client = TrustGraphClient(process, topics)
    try:
        await client.call(None)
        yield client
    finally:
        await client.end()
