"""Reads many texts that nobody foresaw, and holds each outcome against what must be true of every one.

`python benchmarks/fuzz_reading.py [COUNT [SEED]]`; texts that fail are printed.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter

from tests.support import fuzz
from trustgraph_prompt.contract import Contract, Format
from trustgraph_prompt.reader import read

COUNT = 100_000
SHARE_MENDED = 0.05
SLOWEST = 0.25  # seconds of CPU time for a text of at most some hundred characters


def contract_for(number: int, random: random.Random) -> tuple[str, Contract]:
    format: Format = "json" if number % 2 else "jsonl"
    if random.random() < SHARE_MENDED:
        return f"{format}, repaired", fuzz.MENDING[format]
    return (f"{format}, any", fuzz.ANY[format]) if number % 4 < 2 else (f"{format}", fuzz.STRICT[format])


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1_000_000)
    print(f"{count:,} texts, seed {seed}")
    reasons: Counter[tuple[str, str]] = Counter()
    kinds = list(fuzz.KINDS)
    failures = 0
    slowest = (0.0, "")
    for number in range(count):
        chance = random.Random(f"{seed} {number}")
        text = fuzz.KINDS[kinds[number // 4 % len(kinds)]](chance)
        name, contract = contract_for(number, chance)
        try:
            outcome = fuzz.check(text, contract, chance)
        except Exception as error:
            failures += 1
            if failures <= 20:
                print(f"  text {number} as {name}: {type(error).__name__} {str(error)[:100]}\n    {text!r}")
            continue
        reasons[name, str(outcome.reason)] += 1
        started = time.process_time()
        read(text, contract)
        slowest = max(slowest, (time.process_time() - started, text))
    for (name, reason), times in sorted(reasons.items()):
        print(f"  {name:18} {reason:22} {times:8,}")
    print(f"  slowest: {slowest[0] * 1e3:.1f} ms for {len(slowest[1])} characters: {slowest[1][:60]!r}")
    print(f"  {failures} failures")
    sys.exit(bool(failures) or slowest[0] > SLOWEST)


if __name__ == "__main__":
    main()
