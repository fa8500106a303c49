"""A process with TrustGraph's own clients in it: reads calls as lines of JSON, writes what came of them.

    {"id": 1, "client": "prompt", "request": TOPIC, "response": TOPIC, "method": NAME, "arguments": {…}}
    {"id": 1, "result": {…}, "chunks": [[TEXT, WHETHER IT IS THE LAST], …]}
    {"id": 1, "error": TYPE, "message": TEXT, "chunks": […]}

Calls run side by side. A client is made as TrustGraph's processors make theirs, one for each pair of topics;
a line without a `method` only makes it. The first line of output names the version of trustgraph-base.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import sys
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any, Final

# Whether the package is there, is for the tests to find out.
base: Final[Any] = importlib.import_module("trustgraph.base")
pulsar: Final[Any] = importlib.import_module("trustgraph.base.async_pulsar_backend")
version: Final[str] = importlib.import_module("trustgraph.base_version").__version__

_SPECS: Final = {"prompt": base.PromptClientSpec, "text-completion": base.TextCompletionClientSpec}


class Clients:
    """The clients of a processor, by kind and topics."""

    def __init__(self, url: str) -> None:
        self._processor = SimpleNamespace(id="test", async_backend=pulsar.AsyncPulsarBackend(url))
        self._clients: dict[tuple[str, str, str], asyncio.Future[Any]] = {}

    async def get(self, kind: str, request: str, response: str) -> Any:
        place = kind, request, response
        if place not in self._clients:
            self._clients[place] = asyncio.ensure_future(self._make(*place))
        return await self._clients[place]

    async def close(self) -> None:
        for client in self._clients.values():
            await (await client).close()
        await self._processor.async_backend.close()

    async def _make(self, kind: str, request: str, response: str) -> Any:
        spec = _SPECS[kind]("requests", "responses")
        topics = {"topics": {"requests": request, "responses": response}}
        return await spec.register(SimpleNamespace(consumer={}), self._processor, topics)


async def outcome(clients: Clients, call: dict[str, Any]) -> dict[str, Any]:
    chunks: list[Any] = []
    arguments = call.get("arguments", {})
    if arguments.get("streaming"):
        arguments["chunk_callback"] = lambda text, last: chunks.append((text, last))
    if call.get("method") == "text_completion_stream":

        async def handler(response: Any) -> None:
            chunks.append((response.response, response.end_of_stream))

        arguments["handler"] = handler
    try:
        client = await clients.get(call["client"], call["request"], call["response"])
        if "method" not in call:
            return {"id": call["id"], "result": {}, "chunks": []}
        result = await getattr(client, call["method"])(**arguments)
        return {"id": call["id"], "result": asdict(result), "chunks": chunks}
    except Exception as error:
        return {"id": call["id"], "error": type(error).__name__, "message": str(error), "chunks": chunks}


async def main(url: str) -> None:
    clients = Clients(url)
    say({"version": version})

    async def one(line: str) -> None:
        say(await outcome(clients, json.loads(line)))

    async with asyncio.TaskGroup() as calls:
        while line := await asyncio.to_thread(sys.stdin.readline):
            calls.create_task(one(line))
    with contextlib.suppress(BaseException):
        await clients.close()


def say(record: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
