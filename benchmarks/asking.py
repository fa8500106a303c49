"""What asking costs: CPU time of the client against a bare aiohttp POST for the same answer, in the same run.

The server is a process of its own on loopback, which sends what was written down beforehand. Times are CPU
time of this process, the median of many rounds in which each way takes its turn.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from statistics import median
from typing import ClassVar

import aiohttp
import orjson

from tests.support.benchmark_server import HttpServer, server
from trustgraph_prompt.ask import ask
from trustgraph_prompt.llm import Call, Limiter, Limits, Message, OpenAIProvider
from trustgraph_prompt.prompts import PromptDefinition, Question
from trustgraph_prompt.worker.main import tune_garbage_collection

CALLS = 100  # of a round
ROUNDS = 15
IN_FLIGHT = 500
SECONDS = 10  # of 500 in flight
CHUNKS = 10_000

PROMPT = PromptDefinition.from_entry(
    "entities",
    {
        "prompt": "unused",
        "response-type": "jsonl",
        "schema": {
            "type": "object",
            "properties": {"entity": {"type": "string"}, "definition": {"type": "string"}},
            "required": ["entity", "definition"],
        },
    },
)
QUESTION = Question("Be exact.", "Which entities are in this text? " + "The sea is deep and wide. " * 40)
CALL = Call([Message("system", QUESTION.system), Message("user", QUESTION.prompt)])


def text(events: int, piece: int = 5) -> str:
    """Objects, one a line, of so many pieces of five characters."""
    line = json.dumps({"entity": "Nautilus", "definition": "A submarine; what it is, said in a sentence."})
    return (f"{line}\n" * (events * piece // len(line) + 1))[: events * piece]


def answer(events: int, piece: int = 5) -> bytes:
    """A response as servers send it: a piece of text an event, an event a chunk of HTTP."""
    said = text(events, piece)
    envelope = {
        "id": "chatcmpl-7Qyq",
        "object": "chat.completion.chunk",
        "created": 1700000000,
        "model": "small",
    }

    def event(delta: dict[str, str], finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return orjson.dumps({**envelope, "choices": [choice]})

    usage = {"prompt_tokens": 300, "completion_tokens": events, "total_tokens": 300 + events}
    payloads = [
        event({"role": "assistant", "content": ""}),
        *(event({"content": said[start : start + piece]}) for start in range(0, len(said), piece)),
        event({}, "stop"),
        orjson.dumps({**envelope, "choices": [], "usage": usage}),
        b"[DONE]",
    ]
    events_ = [b"data: %b\n\n" % payload for payload in payloads]
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%b\r\n" % (len(event), event) for event in events_) + b"0\r\n\r\n"


def request(model: str) -> bytes:
    """What is posted where nothing of ours is used."""
    messages = [{"role": each.role, "content": each.text} for each in CALL.messages]
    return orjson.dumps({"model": model, "stream": True, "messages": messages})


class Server(HttpServer):
    """Answers each request with what its model says, after the seconds that it takes."""

    ANSWERS: ClassVar = {
        "small": (0.0, answer(100)),
        "slow": (1.0, answer(20)),
        "long": (0.0, answer(CHUNKS)),
    }

    def answer(self, body: bytes) -> None:
        delay, response = self.ANSWERS[orjson.loads(body)["model"]]
        # no model takes the same time twice; answers that did would come in ever larger crowds
        delay *= random.uniform(0.9, 1.1)
        asyncio.get_running_loop().call_later(delay, self.transport.write, response)


async def cpu(work: Callable[[], Awaitable[object]], times: int) -> float:
    """Seconds of CPU that a time takes."""
    gc.collect()
    started = time.process_time()
    for _ in range(times):
        await work()
    return (time.process_time() - started) / times


async def compare(ways: dict[str, Callable[[], Awaitable[object]]], times: int) -> dict[str, float]:
    """Seconds of CPU of each way: the median of rounds in which each takes its turn."""
    took: dict[str, list[float]] = {name: [] for name in ways}
    for work in ways.values():
        await cpu(work, max(1, times // 10))  # warm
    for _ in range(ROUNDS):
        for name, work in ways.items():
            took[name].append(await cpu(work, times))
    return {name: median(each) for name, each in took.items()}


async def overhead(url: str) -> None:
    """One call after the other, of 100 events each."""
    body = request("small")
    async with aiohttp.ClientSession() as session, OpenAIProvider(url, "small") as provider:

        async def bare() -> None:
            async with session.post(f"{url}/chat/completions", data=body) as response:
                assert b"[DONE]" in await response.read()

        async def stream() -> None:
            assert "".join([delta.text async for delta in provider.stream(CALL)]) == text(100)

        async def asked() -> None:
            assert (await ask(PROMPT, QUESTION, provider)).value

        limited = Limiter(provider, Limits(IN_FLIGHT, 1_000_000, 1_000_000_000))

        async def asked_within_limits() -> None:
            assert (await ask(PROMPT, QUESTION, limited)).value

        took = await compare(
            {"bare POST": bare, "provider.stream": stream, "ask": asked, "ask, limits": asked_within_limits},
            CALLS,
        )
    print("  a call of 100 events")
    for name, each in took.items():
        print(f"    {name:24} {each * 1e6:8.0f} us of CPU {each / took['bare POST']:8.1f}x")


async def chunks(url: str) -> None:
    """An answer of 10,000 events."""
    body = request("long")
    async with aiohttp.ClientSession() as session, OpenAIProvider(url, "long") as provider:

        async def bare() -> None:
            rest, count = b"", 0
            async with session.post(f"{url}/chat/completions", data=body) as response:
                async for chunk in response.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        if line.startswith(b"data: {"):
                            orjson.loads(line[6:])
                            count += 1
            assert count == CHUNKS + 3

        async def stream() -> None:
            count = 0
            async for _ in provider.stream(CALL):
                count += 1
            assert count >= CHUNKS

        async def asked() -> None:
            assert (await ask(PROMPT, QUESTION, provider)).value

        took = await compare({"split, orjson.loads": bare, "provider.stream": stream, "ask": asked}, 1)
    print(f"\n  an answer of {CHUNKS:,} events")
    for name, each in took.items():
        per_chunk = f"{each / CHUNKS * 1e6:8.1f} us of CPU an event"
        print(f"    {name:24} {per_chunk} {each / took['split, orjson.loads']:8.1f}x")


async def throughput(url: str) -> None:
    """500 calls in flight of 20 events that take a second each, give or take a tenth, as in a worker."""
    tune_garbage_collection()
    async with OpenAIProvider(url, "slow") as provider:
        limited = Limiter(provider, Limits(IN_FLIGHT))
        done, resident = 0, list[float]()

        async def asking(number: int) -> None:
            nonlocal done
            # answers of a second that all begin together would all end together
            await asyncio.sleep(number / IN_FLIGHT)
            while True:
                assert (await ask(PROMPT, QUESTION, limited)).value
                done += 1

        # as many again wait, as they do when there is more to do than the limit allows
        tasks = [asyncio.create_task(asking(number)) for number in range(2 * IN_FLIGHT)]
        await asyncio.sleep(5)
        began, cpu_began, before = time.monotonic(), time.process_time(), done
        for _ in range(SECONDS):
            await asyncio.sleep(1)
            resident.append(resident_megabytes())
        took, cpu_took, count = time.monotonic() - began, time.process_time() - cpu_began, done - before
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    print(f"\n  {IN_FLIGHT} calls in flight of about a second and 20 events each, for {took:.0f} s")
    print(f"    throughput               {count / (IN_FLIGHT * took):8.1%} of ideal (bar: 98%)")
    each = f"{cpu_took / count * 1e6:.0f} us a call"
    print(f"    CPU                      {cpu_took / took:8.0%} of a core, {each}")
    grown = f"{resident[0]:.1f} MB after the first second, {resident[-1]:.1f} MB after the last"
    print(f"    resident memory          {grown}")


def resident_megabytes() -> float:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize() / 1e6


async def main() -> None:
    print(f"CPU time of the client, Python {sys.version.split()[0]}\n")
    async with server(Server, IN_FLIGHT) as url:
        await overhead(url)
        await chunks(url)
        await throughput(url)


if __name__ == "__main__":
    asyncio.run(main())
