"""What reading costs: each line is a ratio to `orjson.loads` per line of the same objects, in the same run.

200 objects of a two-branch `oneOf` are read and validated, and the Outcome built. Times are CPU time, the
least of many rounds; the bars are those that the product was built to.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from statistics import median
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
BARS = {"clean lines": 2.0, "one broken line": 6.0}  # else 8
NESTED_SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "aliases": {"type": "array", "items": {"type": "string"}},
        "facts": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "predicate": {"type": "string"},
                    "objects": {"type": "array", "items": {"type": "object", "required": ["id"]}},
                    "certainty": {"type": "number", "minimum": 0, "maximum": 1},
                },
                "required": ["predicate", "objects"],
            },
        },
    },
    "required": ["name", "facts"],
}
HOSTILE = ["[", "{", '{"a":', '"', '{"a":"x" y"}\n', '{"type": "definition", "entity": 5}\n']


def seconds(work: Callable[[], object], rounds: int = 30) -> float:
    """The best of `rounds`."""
    return min(_once(work) for _ in range(rounds))


def _once(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def nested(number: int) -> dict[str, object]:
    """An object as models write them of a person: about 500 characters, lists of objects in it."""
    return {
        "name": f"Person {number}",
        "aliases": [f"P. {number}", 'the "Elder"', "Ö. – née Ä."],
        "facts": [
            {
                "predicate": f"knows-{fact}",
                "objects": [
                    {"id": f"p{number + fact}", "since": 1900 + fact, "sources": [1, 2, {"page": 7}]}
                ],
                "certainty": 0.5,
            }
            for fact in range(4)
        ],
    }


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
    floor = seconds(lambda: [orjson.loads(line) for line in CLEAN.split("\n")], rounds=300)
    print(f"{len(LINES)} objects, {len(CLEAN)} bytes; orjson.loads per line: {floor * 1e6:.0f} us = 1.0x\n")
    clean = 0.0
    for name, text in LAYOUTS.items():
        assert len(read(text, contract).value) >= len(OBJECTS) - 1
        took = seconds(lambda text=text: read(text, contract))  # type: ignore[misc]
        clean = clean or took
        print(f"  {name:32} {took / floor:8.1f}x   (bar: {BARS.get(name, 8.0):.0f}x)")
    for name, settings in SETTINGS.items():
        strict = Contract.from_schema(SCHEMA, format="jsonl", **settings)
        took = seconds(lambda strict=strict: read(CLEAN, strict))  # type: ignore[misc]
        print(f"  {f'clean lines, {name}':32} {took / floor:8.1f}x")
    for size in (4, 20):
        chunks = [CLEAN[i : i + size] for i in range(0, len(CLEAN), size)]
        took = seconds(lambda chunks=chunks: stream(chunks, contract))  # type: ignore[misc]
        least = seconds(lambda chunks=chunks: keep(chunks))  # type: ignore[misc]
        name = f"fed in chunks of {size} characters"
        print(f"  {name:32} {took / floor:8.1f}x   (bar: 20x; the calls alone: {least / floor:.1f}x)")
    took = seconds(validate_per_call, rounds=3)
    per_call = f"{took / clean:.0f} times our time on clean lines (bar: 3,000)"
    print(f"\n  json.loads and jsonschema.validate per object: {per_call}")
    compiling = seconds(lambda: Contract.from_schema(SCHEMA, format="jsonl"), rounds=5)
    print(f"  compiling that contract again, from the cache: {compiling * 1e6:.0f} us")
    print(f"  compiling one that is new: {median(map(compile_new, range(20))) * 1e6:.0f} us\n")

    print("  the same for nested objects of 600 characters, each against its own floor")
    shapes = Contract.from_schema(NESTED_SCHEMA, format="jsonl")
    for count in (100, 1_000, 10_000):
        lines = [json.dumps(nested(number)) for number in range(count)]
        clean_text = "\n".join(lines)
        pretty = "\n".join(json.dumps(nested(number), indent=2) for number in range(count))
        rounds = max(3, 1_000 // count)
        least = seconds(lambda lines=lines: [orjson.loads(line) for line in lines], rounds)  # type: ignore[misc]
        for name, text in (
            ("clean lines", clean_text),
            ("fenced", f"```\n{clean_text}\n```"),
            ("pretty", pretty),
        ):
            took = seconds(lambda text=text: read(text, shapes), rounds)  # type: ignore[misc]
            each = f"{took / count * 1e6:.1f} us an object"
            print(f"  {f'{count:,} in {name}':32} {took / least:8.1f}x   ({each})")
    print("\n  hostile text (bar: 200 ms); more of it in hostile_reading.py")
    for token in HOSTILE:
        text = (token * 1_000_000)[:1_000_000]
        for name, against in (("any", Contract.from_schema(None, format="jsonl")), ("schema", contract)):
            took = seconds(lambda text=text, against=against: read(text, against), rounds=2)  # type: ignore[misc]
            print(f"  {f'1 MB of {token!r}':50} {name:8} {took * 1e3:8.0f} ms")


def compile_new(number: int) -> float:
    """Seconds for a contract that nobody compiled before."""
    schema = {"title": f"schema {number}", **SCHEMA}
    return _once(lambda: Contract.from_schema(schema, format="jsonl").accepts(OBJECTS[0]))


if __name__ == "__main__":
    main()
