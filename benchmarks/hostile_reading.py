"""What the worst texts cost: CPU time for 1 MB of each, whole or as it comes, and the memory that it takes.

`python benchmarks/hostile_reading.py [SEARCH]` looks that many seconds for worse ones. Exits with 1 where the
time of any text grows faster than the text, or is more than `TIMES` that of plain decoding, `TIMES_REPAIRED`
where values are repaired: a slow machine is slow at both, and what exceeds a bar is measured again, as the
machine may be busy.
"""

from __future__ import annotations

import gc
import json
import random
import sys
import time
import tracemalloc
from collections.abc import Callable
from functools import partial

from tests.support.hostile_texts import FRAGMENTS, HOSTILE
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.reader import StreamReader, read

MEGABYTE = 1_000_000
BAR = 0.2  # seconds for a megabyte, on a quiet machine
TIMES = 3  # times what the standard library takes to decode a megabyte of small objects, one by one
TIMES_REPAIRED = 4  # the same with repair, whose budget allows 2,500 small values whatever the text's length
AGAIN = 3  # times that a text is measured again which seems to take too long, or to grow too fast
LEAST = 1e-3  # seconds; what takes less for a tenth is cheap enough, and depends on caches
PLAIN = ['{"a": 1}'] * (MEGABYTE // 8)
GROWTH = 30  # times the time for ten times the text: linear is 10, quadratic 100
CHUNK = 64
SHOWN = 12
STRICT = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
CONTRACTS = {
    "json": Contract.from_schema(None),
    "jsonl": Contract.from_schema(None, format="jsonl"),
    "jsonl, schema": Contract.from_schema(STRICT, format="jsonl"),
    "jsonl, repair": Contract.from_schema(STRICT, format="jsonl", repair=True),
    "strict": Contract.from_schema(STRICT, fences="strict"),
}
BLOCKS = ["```json\n", "```json\n```\n", "```json\n{} ```\n", '```json {"a": ']
SHAPES = ['{"s":1,"l":[{"id":1}]}', '{"ok":1,"l":[]}', '{"name":"f","arguments":{"id":1}}']
TEXTS = [*HOSTILE.values(), *BLOCKS, *SHAPES]


def text_of(token: str, size: int) -> str:
    return (token * (size // len(token) + 1))[:size]


def seconds(text: str, contract: Contract, rounds: int) -> float:
    """The best of `rounds`."""
    best = float("inf")
    for _ in range(rounds):
        gc.collect()
        started = time.process_time()
        read(text, contract)
        best = min(best, time.process_time() - started)
    return best


def plainly() -> float:
    """Seconds of plain decoding, now."""
    gc.collect()
    started = time.process_time()
    for line in PLAIN:
        json.loads(line)
    return time.process_time() - started


def bar(contract: Contract) -> int:
    """How many times plain decoding a contract may take."""
    return TIMES_REPAIRED if contract.repair else TIMES


def is_slow(took: float, text: str, contract: Contract) -> bool:
    """Whether a text that seems to take too long does so beside plain decoding, too."""
    for _ in range(AGAIN):
        if took <= bar(contract) * plainly():
            return False
        took = min(took, seconds(text, contract, 1))
    return True


def measured(measure: Callable[[str], float], text: str) -> tuple[float, float]:
    """The seconds of a text, and how many times those of its tenth; again where it seems to grow too fast."""
    tenth = took = growth = float("inf")
    for _ in range(AGAIN):
        tenth = min(tenth, measure(text[: len(text) // 10]))
        took = min(took, measure(text))
        growth = took / max(tenth, LEAST)
        if growth <= GROWTH:
            break
    return took, growth


def seconds_streamed(text: str, contract: Contract) -> float:
    chunks = [text[start : start + CHUNK] for start in range(0, len(text), CHUNK)]
    started = time.process_time()
    reader = StreamReader(contract)
    for chunk in chunks:
        reader.feed(chunk)
    reader.close()
    return time.process_time() - started


def peak(text: str, contract: Contract) -> float:
    """How many times the text reading takes in memory at the most, beside its result.

    Of that, 12 times are what orjson asks the allocator for; it touches 16 bytes for each value.
    """
    gc.collect()
    tracemalloc.start()
    outcome = read(text, contract)
    most = tracemalloc.get_traced_memory()[1]
    gc.collect()
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    del outcome
    return (most - kept) / len(text)


def search(limit: float) -> None:
    """Prints the texts that cost most per character, of those that chance finds and mends."""
    chance = random.Random()
    names = [name for name in CONTRACTS if "repair" not in name]
    found: dict[tuple[str, str], float] = {}
    until = time.monotonic() + limit
    while time.monotonic() < until:
        if found and chance.random() < 0.5:
            best = sorted(found, key=found.__getitem__)[-20:]
            token = chance.choice(best)[1]
            place = chance.randint(0, len(token))
            token = token[:place] + chance.choice(FRAGMENTS) + token[place + chance.randint(0, 3) :]
        else:
            token = "".join(chance.choices(FRAGMENTS, k=chance.randint(2, 4)))
        if not 0 < len(token) <= 40:
            continue
        name = chance.choice(names)
        text = text_of(token, MEGABYTE // 10)
        found[name, token] = 10 * seconds(text, CONTRACTS[name], 1)
    print(f"\n  worst of {len(found):,} found in {limit:.0f} s, in ms for 1 MB")
    for name, token in sorted(found, key=found.__getitem__, reverse=True)[:SHOWN]:
        took = seconds(text_of(token, MEGABYTE), CONTRACTS[name], 2)
        print(f"  {took * 1e3:6.0f}  {name:14} {token!r}")


def main() -> None:
    rows: list[tuple[float, str, str, float]] = []
    plain = min(plainly() for _ in range(5))
    too_fast: list[str] = []
    too_slow: list[str] = []
    for token in TEXTS:
        text = text_of(token, MEGABYTE)
        for name, contract in CONTRACTS.items():
            took, growth = measured(partial(seconds, contract=contract, rounds=2), text)
            rows.append((took, name, token, growth))
            if growth > GROWTH:
                too_fast.append(f"{growth:.0f}x  {name:14} {token!r}")
            if took > bar(contract) * plain and is_slow(took, text, contract):
                too_slow.append(f"{took * 1e3:.0f} ms  {name:14} {token!r}")
        _, growth = measured(partial(seconds_streamed, contract=CONTRACTS["jsonl"]), text)
        if growth > GROWTH:
            too_fast.append(f"{growth:.0f}x  {'in chunks':14} {token!r}")
    rows.sort(reverse=True)
    print(f"plain decoding of 1 MB, object by object: {plain * 1e3:.0f} ms\n")
    print(f"{len(TEXTS)} texts of 1 MB, slowest first: CPU time (bar: {BAR * 1e3:.0f} ms), against a tenth")
    print("of the text (linear: 10x), in chunks of 64 characters, and memory beside the result\n")
    for took, name, token, growth in rows[:SHOWN]:
        text = text_of(token, MEGABYTE)
        streamed = seconds_streamed(text, CONTRACTS[name])
        most = peak(text, CONTRACTS[name])
        figures = f"{took * 1e3:6.0f} ms {growth:5.1f}x {streamed * 1e3:6.0f} ms {most:6.1f}x"
        print(f"  {figures}  {name:14} {token!r}")
    for name in CONTRACTS:
        times = [took for took, other, _, _ in rows if other == name]
        over = sum(took > BAR for took in times)
        print(f"  {name:14} at most {max(times) * 1e3:.0f} ms, {over} of {len(times)} over the bar")
    if len(sys.argv) > 1:
        search(float(sys.argv[1]))
    if too_fast or too_slow:
        growing = f"  more than {GROWTH}x the time for 10x the text:"
        slow = f"  more than {TIMES}x the time of plain decoding, {TIMES_REPAIRED}x with repair:"
        sys.exit("\n".join([growing, *(too_fast or ["none"]), slow, *(too_slow or ["none"])]))


if __name__ == "__main__":
    main()
