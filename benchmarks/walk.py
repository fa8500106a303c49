"""How far a request walks: the modules and functions of ours that run for one whose worker is warm.

`python benchmarks/walk.py [--bars]`: with `--bars` it exits with 1 above them. A worker on the embedded
broker in memory asks a server in another process over HTTP, and publishes the two objects of each answer, an
answer record and a response. The first request warms it up. Counted are functions and methods that run, in
any thread, for each of the next two: what runs for one of them only is the worker's own clockwork. Lambdas
and comprehensions are part of the function they stand in, and the code of the broker is not counted.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import trustgraph_prompt
from tests.support.benchmark_server import HttpServer, server
from tests.support.workers import Working
from trustgraph_prompt.broker import Producer, Reader, connect
from trustgraph_prompt.llm import OpenAIProvider
from trustgraph_prompt.wire import PromptRequest
from trustgraph_prompt.worker import Flow, Input, Outputs, Prompts, Service

MODULES_BAR, FUNCTIONS_BAR = 45, 250

PACKAGE = Path(trustgraph_prompt.__file__).parent
BROKER = PACKAGE / "broker"

REQUESTS = "persistent://tg/flow/requests"
RESPONSES = "persistent://tg/flow/responses"
FLOW = Flow(
    "walk",
    Input(REQUESTS, "walk"),
    Outputs("persistent://tg/flow/answers", RESPONSES, {"": "persistent://tg/flow/objects"}),
)
DEFINE = {
    "prompt": "Define what is in: {{ text }}",
    "response-type": "jsonl",
    "object-schema": {
        "type": "object",
        "properties": {"entity": {"type": "string"}, "definition": {"type": "string"}},
        "required": ["entity", "definition"],
    },
}
OBJECTS = [
    {"entity": "chalk", "definition": "a soft white limestone"},
    {"entity": "flint", "definition": "a hard grey stone"},
]
SECONDS_TO_SETTLE = 0.3  # after the response: the acknowledgement

Walk = set[CodeType]


def event(choices: list[dict[str, Any]], **others: Any) -> bytes:
    data = b"data: %b\n\n" % json.dumps({"id": "1", "model": "small", "choices": choices, **others}).encode()
    return b"%x\r\n%b\r\n" % (len(data), data)


class Model(HttpServer):
    """Streams the two objects, in pieces, to whoever asks."""

    def answer(self, body: bytes) -> None:
        text = "".join(json.dumps(each) + "\n" for each in OBJECTS)
        pieces = [text[start : start + 20] for start in range(0, len(text), 20)]
        events = [
            *(event([{"index": 0, "delta": {"content": piece}}]) for piece in pieces),
            event([{"index": 0, "delta": {}, "finish_reason": "stop"}]),
            event([], usage={"prompt_tokens": 30, "completion_tokens": 40, "total_tokens": 70}),
        ]
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        self.transport.write(head + b"".join(events) + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")


@contextmanager
def walking() -> Iterator[Walk]:
    """The functions that are called during the block, in any thread that this one starts, too."""
    walk: Walk = set()

    def look(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            walk.add(frame.f_code)

    threading.setprofile(look)
    sys.setprofile(look)
    try:
        yield walk
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def ours(walk: Walk) -> Walk:
    """The functions of the package and not of the broker, as one thing with what stands in them."""
    return {code for code in walk if _is_ours(Path(code.co_filename)) and not code.co_name.startswith("<")}


def _is_ours(file: Path) -> bool:
    return file.is_relative_to(PACKAGE) and not file.is_relative_to(BROKER)


async def send(requests: Producer, responses: Reader, id: str, data: bytes) -> None:
    """Send a request and wait until its message is settled."""
    await requests.send(data, properties={"id": id})
    response = await responses.receive()
    assert response is not None
    assert json.loads(json.loads(response.data)["object"]) == OBJECTS, response.data
    await asyncio.sleep(SECONDS_TO_SETTLE)


async def walk() -> Walk:
    """The functions that run for each of two requests to a warm worker."""
    async with server(Model) as url, await connect("embedded:") as broker:
        prompts = Prompts({"template.define": json.dumps(DEFINE)}, [FLOW.workspace])
        service = Service(broker, [FLOW], prompts, lambda _: OpenAIProvider(url, "small"), config_topic=None)
        working = Working(service)
        await working.ready()
        requests, responses = await broker.producer(REQUESTS), await broker.reader(RESPONSES)
        walks = []
        for text in ("first", "second", "third"):
            data = PromptRequest.asking("define", {"text": f"The {text} flint."}).encode()
            with walking() as each:
                await send(requests, responses, text, data)
            walks.append(ours(each))
        await working.stop()
    return walks[1] & walks[2]


def main(arguments: list[str]) -> None:
    by_module: dict[str, list[str]] = defaultdict(list)
    for code in asyncio.run(walk()):
        by_module[str(Path(code.co_filename).relative_to(PACKAGE))].append(code.co_qualname)
    functions = sum(map(len, by_module.values()))
    for module in sorted(by_module):
        print(f"{len(by_module[module]):4}  {module}: {', '.join(sorted(by_module[module]))}")
    print(f"\n  {len(by_module)} modules (bar {MODULES_BAR}), {functions} functions (bar {FUNCTIONS_BAR})")
    if "--bars" in arguments and (len(by_module) > MODULES_BAR or functions > FUNCTIONS_BAR):
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
