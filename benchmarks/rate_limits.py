"""What remains of a worker's pace when its server refuses calls, and how much a server at its limit refuses.

The server is a process of its own on loopback. It answers after 150 ms, give or take a fifth, and refuses
with 429: at random, or all that goes beyond a token bucket.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import AsyncGenerator

import orjson

from tests.support.benchmark_server import HttpServer, server
from trustgraph_prompt.ask import ask
from trustgraph_prompt.errors import ProviderRateLimit
from trustgraph_prompt.llm import Call, Delta, Limiter, Limits, OpenAIProvider
from trustgraph_prompt.llm.provider import ProviderWrapper
from trustgraph_prompt.prompts import PromptDefinition, Question

IN_FLIGHT = 32
REQUESTING = 200  # at a time: some wait for another try of theirs
SECONDS = 30
RATE = 50  # answers a second that the token bucket allows

LEAST_OF_UNDISTURBED = 0.5
LEAST_OF_RATE = 0.9
MOST_REFUSED = 0.1

PROMPT = PromptDefinition.from_entry("say", {"prompt": "unused"})
QUESTION = Question("Be exact.", "Which entities are in this text?")

ANSWER = orjson.dumps(
    {
        "model": "small",
        "choices": [{"message": {"role": "assistant", "content": "None."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
    }
)


def response(status: bytes, body: bytes, *headers: bytes) -> bytes:
    head = [b"HTTP/1.1 " + status, b"Content-Type: application/json", *headers]
    return b"\r\n".join([*head, b"Content-Length: %d" % len(body), b"", body])


class Server(HttpServer):
    """Does as the model says that it is asked for: "10", "10 retry-after" (per cent), or "limited"."""

    tokens, filled = float(RATE), time.monotonic()

    def answer(self, body: bytes) -> None:
        how, _, says_when = str(orjson.loads(body)["model"]).partition(" ")
        if self._refuses(how):
            headers = [b"Retry-After: 2"] if says_when else []
            self.transport.write(response(b"429 Too Many Requests", b"{}", *headers))
        else:
            delay, served = random.uniform(0.12, 0.18), response(b"200 OK", ANSWER)
            asyncio.get_running_loop().call_later(delay, self.transport.write, served)

    @classmethod
    def _refuses(cls, how: str) -> bool:
        if how != "limited":
            return random.random() * 100 < int(how)
        now = time.monotonic()
        cls.tokens, cls.filled = min(RATE, cls.tokens + (now - cls.filled) * RATE), now
        refuses = cls.tokens < 1
        cls.tokens -= not refuses
        return refuses


class Counted(ProviderWrapper):
    """A provider whose calls are counted by how they ended."""

    answered = refused = 0

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        try:
            async for delta in self.provider.stream(call):
                yield delta
            self.answered += 1
        except ProviderRateLimit:
            self.refused += 1
            raise


async def answered(url: str, how: str) -> tuple[float, float]:
    """Answers a second, and the share of calls that was refused."""
    async with OpenAIProvider(url, how) as provider:
        counted = Counted(provider)
        limited = Limiter(counted, Limits(IN_FLIGHT))

        async def requesting() -> None:
            while True:
                await ask(PROMPT, QUESTION, limited)

        tasks = [asyncio.create_task(requesting()) for _ in range(REQUESTING)]
        await asyncio.sleep(SECONDS)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return counted.answered / SECONDS, counted.refused / (counted.answered + counted.refused)


async def main() -> int:
    print(f"answers a second over {SECONDS} s, {IN_FLIGHT} in flight, Python {sys.version.split()[0]}\n")
    missed = 0

    def row(name: str, rate: float, refused: float, text: str, good: bool) -> None:
        nonlocal missed
        missed += not good
        print(f"  {name:36} {rate:8.1f}/s {refused:8.1%} refused   {text}{'' if good else '   MISSED'}")

    async with server(Server) as url:
        undisturbed, _ = await answered(url, "0")
        row("nothing refused", undisturbed, 0.0, "", True)
        for name, how in (("10 % refused", "10"), ("10 % refused, Retry-After: 2", "10 retry-after")):
            rate, refused = await answered(url, how)
            part = rate / undisturbed
            text = f"{part:.0%} of the undisturbed rate (bar: {LEAST_OF_UNDISTURBED:.0%})"
            row(name, rate, refused, text, part >= LEAST_OF_UNDISTURBED)
        for name, how in (("a limit of", "limited"), ("Retry-After: 2, a limit of", "limited retry-after")):
            rate, refused = await answered(url, how)
            bars = f"(bars: {LEAST_OF_RATE:.0%}, {MOST_REFUSED:.0%})"
            text = f"{rate / RATE:.0%} of the limit {bars}"
            good = rate >= LEAST_OF_RATE * RATE and refused <= MOST_REFUSED
            row(f"{name} {RATE}/s", rate, refused, text, good)
    return missed


if __name__ == "__main__":
    sys.exit(min(1, asyncio.run(main())))
