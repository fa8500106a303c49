"""What hostile answers do to everybody else: eight at once beside a good request, in one process.

Each case runs in a process of its own. Measured are the longest time in which the event loop did nothing else
(a heartbeat every 5 ms), how long the slowest good request took, when all eight were done, and memory.
Exits with 1 where the loop stood still for longer than the bar.
"""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from trustgraph_prompt.ask import ask
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.llm import Call, ScriptedAnswer, ScriptedProvider
from trustgraph_prompt.prompts import PromptDefinition, Question

AT_ONCE = 8
BEAT = 0.005
EVERY = 0.02  # seconds a good request
BAR = 0.3  # seconds for which the loop stands still, on a machine that others share
PIECE = 65_536
TOKEN = 16  # characters

GOOD = "\n".join(f'{{"id": {number}}}' for number in range(20))
PLAIN = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
DEMANDING = {"properties": {"n": {"items": {"allOf": [{"type": "string"} for _ in range(40)]}}}}


CHOICE = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
CHOOSING = {"properties": {"a": {"items": {"properties": {"n": CHOICE}}}}}


def a_prompt(contract: Contract, id: str) -> PromptDefinition:
    return replace(PromptDefinition.from_entry(id, {"prompt": "?"}), contract=contract)


def plain(**settings: Any) -> Contract:
    return Contract.from_schema(PLAIN, **settings)


def lists(count: int, size: int) -> str:
    return "\n".join('{"n": [' + ", ".join(["1"] * size) + "]}" for _ in range(count))


CASES: dict[str, tuple[Callable[[], str], Callable[[], Contract]]] = {
    "words": (lambda: "word " * 3_200_000, lambda: plain(format="jsonl")),
    "words, json": (lambda: "word " * 3_200_000, lambda: plain(repair=True)),
    "objects without end": (lambda: '{"a":' * 1_000_000, lambda: plain(format="jsonl")),
    "objects without end, json": (lambda: '{"a":' * 1_000_000, lambda: plain(repair=True)),
    "broken lines": (lambda: '{"id": x}\n' * 100_000, lambda: plain(format="jsonl", repair=True)),
    "a demanding schema": (
        lambda: lists(60, 1_000),
        lambda: Contract.from_schema(DEMANDING, format="jsonl"),
    ),
    "rules over long lists": (
        lambda: "\n".join('{"a": -1, "b": [' + "1, " * 30_000 + "1]}" for _ in range(5)),
        lambda: Contract.from_schema(None, format="jsonl", invariants=["a in b"] * 100),
    ),
    "one value, token by token": (
        lambda: '{"a": [' + f'{{"n": "12", "of": "{"x" * 200}"}}, ' * 3_000 + "{}]}",
        lambda: Contract.from_schema(CHOOSING, format="jsonl", coerce=True),
    ),
    "broken, token by token": (
        lambda: '{"a": [' + f'{{"n": "12", "of": "{"x" * 200}"}}, ' * 3_000 + "{},}}",
        lambda: Contract.from_schema(CHOOSING, format="jsonl", coerce=True, repair=True),
    ),
}


async def beat(stops: list[float]) -> None:
    last = time.perf_counter()
    while True:
        await asyncio.sleep(BEAT)
        now = time.perf_counter()
        stops.append(now - last - BEAT)
        last = now


async def measure(text: str, contract: Contract, chunk: int) -> tuple[float, float, float]:
    """The longest stop, the slowest good request, and when all hostile answers were done, in seconds."""

    def answer(call: Call) -> ScriptedAnswer:
        if call.labels["prompt"] == "hostile":
            return ScriptedAnswer(text, chunk=chunk)
        return ScriptedAnswer(GOOD, chunk=PIECE)

    provider = ScriptedProvider(answer)
    hostile, good = a_prompt(contract, "hostile"), a_prompt(plain(format="jsonl"), "good")
    question = Question("", "?")
    stops: list[float] = []
    latencies: list[float] = []

    async def good_ones() -> None:
        due = time.perf_counter()
        while True:
            await asyncio.sleep(due - time.perf_counter())
            await ask(good, question, provider)
            latencies.append(time.perf_counter() - due)
            due = max(due + EVERY, time.perf_counter())

    others = [asyncio.create_task(beat(stops)), asyncio.create_task(good_ones())]
    began = time.perf_counter()
    await asyncio.gather(*(ask(hostile, question, provider) for _ in range(AT_ONCE)))
    took = time.perf_counter() - began
    await asyncio.sleep(0.05)  # a stop at the end is seen by the beat that follows it
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    return max(stops), max(latencies), took


def run(name: str) -> None:
    make_text, make_contract = CASES[name]
    chunk = TOKEN if name.endswith("token by token") else PIECE
    stop, latency, took = asyncio.run(measure(make_text(), make_contract(), chunk))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"  {name:28} {stop * 1e3:8.0f} ms {latency * 1e3:8.0f} ms {took:8.1f} s {peak:6} MB", flush=True)
    if stop > BAR:
        sys.exit(1)


def main() -> None:
    if len(sys.argv) > 1:
        run(" ".join(sys.argv[1:]))
        return
    print(
        f"{AT_ONCE} hostile answers at once, the loop's longest stop (bar: {BAR * 1e3:.0f} ms), the slowest"
    )
    print("good request beside them, when all were done, and the most memory the process had\n", flush=True)
    ran = [subprocess.run([sys.executable, __file__, name], check=False).returncode for name in CASES]
    if any(ran):
        sys.exit(f"the loop stood still for more than {BAR * 1e3:.0f} ms in {sum(map(bool, ran))} cases")


if __name__ == "__main__":
    main()
