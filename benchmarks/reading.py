"""What reading costs: each line is a ratio to `orjson.loads` per line of the same objects, in the same run.

200 objects of a two-branch `oneOf` are read and validated, and the Outcome built.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import jsonschema
import orjson

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.reader import StreamReader, read

SCHEMA = {
    "oneOf": [
        {
            "type": "object",
            "properties": {
                "type": {"const": "definition"},
                "entity": {"type": "string"},
                "definition": {"type": "string"},
            },
            "required": ["type", "entity", "definition"],
        },
        {
            "type": "object",
            "properties": {
                "type": {"const": "relationship"},
                "subject": {"type": "string"},
                "predicate": {"type": "string"},
                "object": {"type": "string"},
                "object-entity": {"type": "boolean"},
            },
            "required": ["type", "subject", "predicate", "object", "object-entity"],
        },
    ]
}
OBJECTS = [
    {
        "type": "definition",
        "entity": f"entity {n}",
        "definition": f"What number {n} is, said in one sentence.",
    }
    if n % 2
    else {
        "type": "relationship",
        "subject": f"entity {n}",
        "predicate": "is-part-of",
        "object": f"entity {n + 1}",
        "object-entity": True,
    }
    for n in range(200)
]
LINES = [json.dumps(value) for value in OBJECTS]
CLEAN = "\n".join(LINES)
LAYOUTS = {
    "clean lines": CLEAN,
    "fenced": f"Here they are:\n```json\n{CLEAN}\n```\n",
    "array": "[\n" + ",\n".join(LINES) + "\n]",
    "wrapped": '{"items": [' + ", ".join(LINES) + "]}",
    "pretty-printed": "\n".join(json.dumps(value, indent=2) for value in OBJECTS),
    "cut": CLEAN[:-20],
    "one broken line": "\n".join([*LINES[:100], '{"type": "definition", "entity": oops}', *LINES[100:]]),
}
SETTINGS: dict[str, dict[str, Any]] = {
    "a rule": {"invariants": ["type is defined"]},
    "extra keys forbidden": {"extra": "forbid"},
    "coerced": {"coerce": True},
}
HOSTILE = ["[", "{", '{"a":', '"', '{"a":"x" y"}\n']


def seconds(work: Callable[[], object], rounds: int = 30) -> float:
    """The best of `rounds`."""
    return min(_once(work) for _ in range(rounds))


def _once(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def stream(chunks: list[str], contract: Contract) -> None:
    reader = StreamReader(contract)
    for chunk in chunks:
        reader.feed(chunk)
    reader.close()


class Keeper:
    """What any reader in Python does at the least: a call for each chunk, and a look at it."""

    def __init__(self) -> None:
        self.chunks: list[str] = []

    def feed(self, chunk: str) -> list[object]:
        self.chunks.append(chunk)
        if "}" not in chunk:
            return []
        return []


def keep(chunks: list[str]) -> None:
    keeper = Keeper()
    for chunk in chunks:
        keeper.feed(chunk)


def validate_per_call() -> None:
    for line in LINES:
        jsonschema.validate(json.loads(line), SCHEMA)


def main() -> None:
    contract = Contract.from_schema(SCHEMA, format="jsonl")
    floor = seconds(lambda: [orjson.loads(line) for line in CLEAN.split("\n")])
    print(f"{len(LINES)} objects, {len(CLEAN)} bytes; orjson.loads per line: {floor * 1e6:.0f} us = 1.0x\n")
    clean = 0.0
    for name, text in LAYOUTS.items():
        assert len(read(text, contract).value) >= len(OBJECTS) - 1
        took = seconds(lambda text=text: read(text, contract))  # type: ignore[misc]
        clean = clean or took
        print(f"  {name:32} {took / floor:8.1f}x")
    for name, settings in SETTINGS.items():
        strict = Contract.from_schema(SCHEMA, format="jsonl", **settings)
        took = seconds(lambda strict=strict: read(CLEAN, strict))  # type: ignore[misc]
        print(f"  {f'clean lines, {name}':32} {took / floor:8.1f}x")
    for size in (4, 20):
        chunks = [CLEAN[i : i + size] for i in range(0, len(CLEAN), size)]
        took = seconds(lambda chunks=chunks: stream(chunks, contract))  # type: ignore[misc]
        least = seconds(lambda chunks=chunks: keep(chunks))  # type: ignore[misc]
        name = f"fed in chunks of {size} characters"
        print(f"  {name:32} {took / floor:8.1f}x   (the calls alone: {least / floor:.1f}x)")
    took = seconds(validate_per_call, rounds=3)
    print(
        f"\n  json.loads and jsonschema.validate per object: {took / clean:.0f} times our time on clean lines"
    )
    took = seconds(lambda: Contract.from_schema(SCHEMA, format="jsonl"))
    print(f"  compiling the contract: {took * 1e6:.0f} us\n")
    for token in HOSTILE:
        text = (token * 1_000_000)[:1_000_000]
        took = seconds(lambda text=text: read(text, "jsonl"), rounds=2)  # type: ignore[misc]
        print(f"  {f'1 MB of {token!r}':32} {took * 1e3:8.0f} ms")


if __name__ == "__main__":
    main()
