"""Texts that no model should write, and what must hold of the reading of every text."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.support.layouts import LAYOUTS, answer
from trustgraph_prompt.contract import Contract, Format
from trustgraph_prompt.reader import Outcome, StreamReader, read

# fmt: off
TOKENS = [
    *"{}[],:\"'\n \\<>`~-*.#/a1é\u2028\ufeff\x00\t\r",
    "true", "null", "tr", "NaN", "-Infinity", "1e5", "1e400", "-0.0", "12345678901234567890",
    '"a"', '"id"', '"a":1', '"id":1', '{"id":1}', '{"a":1}', '{"id":', '{"a":', "{}", "[]", "[1]",
    '{"items":[',
    '{"list":[{"id":2}', '"}', '"]}', '\\"', "\\u", "\\ud83d", "\\n", "d83", '{"b":{"c":[1]}}',
    '"b":[{"id":3}]',
    "```", "```json\n", "\n```\n", "~~~", "````", "<think>", "</think>", "<think", "</", "<reasoning>",
    "</reasoning>", "\n{", "\n[", "\n- {", "\n1. ", "\r\n", "\n\n", "\n  {", '{"id": 1\n',
    "{'id': 1}", "{id: 1}",
    "{x", "[0, 1)", "[1]", "// no\n", "/* no */", "...", "Here: ", " and ", "It's ", ", ", "},\n{",
    "}{", "]}",
    "“", "”", "|", "True", "None", "\n> ", "\n\n\n", "\ud800",
]
# fmt: on

SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "list": {"type": "array"}},
    "required": ["id"],
}
ANY: dict[Format, Contract] = {
    format: Contract.from_schema(None, format=format) for format in ("json", "jsonl")
}
STRICT: dict[Format, Contract] = {
    format: Contract.from_schema(SCHEMA, format=format) for format in ("json", "jsonl")
}
MENDING: dict[Format, Contract] = {
    format: Contract.from_schema(SCHEMA, format=format, repair=True) for format in ("json", "jsonl")
}


def soup(random: random.Random) -> str:
    """Tokens in a row; few different ones more often than many."""
    tokens = random.sample(TOKENS, random.choice((2, 3, 5, 10, len(TOKENS))))
    return "".join(random.choices(tokens, k=random.randint(1, 40)))


def value(random: random.Random, depth: int = 3) -> Any:
    kind = random.randrange(11 if depth else 8)
    if kind >= 8:
        size = random.randint(0, 3)
        if kind == 8:
            return [value(random, depth - 1) for _ in range(size)]
        return {string(random): value(random, depth - 1) for _ in range(size)}
    simple = random.choice((None, True, False, 0, -1, 10**25, 0.5, -0.0, 1e308, 1e-7, 2**53 + 1))
    return simple if kind < 3 else string(random)


def string(random: random.Random) -> str:
    return "".join(random.choices(TOKENS, k=random.randint(0, 4))) if random.random() < 0.5 else "a b"


def sound(random: random.Random) -> str:
    """Objects in one of the layouts."""
    objects = [{"id": n, string(random): value(random)} for n in range(random.randint(0, 4))]
    return answer(random.choice(_NAMES), objects).text


def mutated(random: random.Random) -> str:
    """An answer with a few places changed, and perhaps cut."""
    text = sound(random)
    for _ in range(random.randint(1, 4)):
        place = random.randint(0, len(text))
        gone = random.choice((0, 0, 1, 1, 2, 10))
        text = text[:place] + random.choice((*TOKENS, "", "", "")) + text[place + gone :]
    return text[: random.randint(0, len(text))] if random.random() < 0.3 else text


def noise(random: random.Random) -> str:
    """Any characters."""
    most = random.choice((0x7F, 0xFF, 0xFFFF, 0x10FFFF))
    return "".join(chr(random.randint(0, most)) for _ in range(random.randint(0, 80)))


_NAMES = sorted(LAYOUTS)
KINDS: dict[str, Callable[[random.Random], str]] = {
    "soup": soup,
    "mutated": mutated,
    "sound": sound,
    "noise": noise,
}


def streamed(text: str, contract: Contract, random: random.Random) -> tuple[list[object], Outcome]:
    """What is given for `text` in chunks, and what comes of it."""
    most = random.choice((1, 4, 20))
    reader = StreamReader(contract)
    given: list[object] = []
    position = 0
    while position < len(text):
        end = position + random.randint(1, most)
        given += reader.feed(text[position:end])
        position = end
    return given, reader.close()


def check(text: str, contract: Contract, random: random.Random) -> Outcome:
    """The outcome of reading `text`; raises `AssertionError` where it is not as it must be."""
    whole = read(text, contract)
    given, outcome = streamed(text, contract, random)
    assert outcome == whole
    assert repr(outcome.value) == repr(whole.value)
    assert all(
        map(contract.accepts, whole.value if contract.format == "jsonl" else [whole.value][: whole.ok])
    )
    assert whole.explain()
    for places in (whole.rejected, whole.repaired):
        assert all(text.startswith(place.raw, place.start) for place in places)
    if contract.format == "jsonl":
        # What a broken opening had swallowed is found at the end alone; all else has been given.
        assert Counter(map(repr, given)) <= Counter(map(repr, [*whole.value, *whole.retracted]))
    if not contract.repair:
        assert not whole.repaired
        assert all(stands_in(text, value) for value in whole.objects)
    return whole


def stands_in(text: str, value: Any) -> bool:
    """Whether a strict decoder finds the value in the text."""
    decoder = json.JSONDecoder()
    wanted = repr(value)
    places = (n for n, c in enumerate(text) if c in '{["-0123456789tfn')
    for place in places:
        try:
            if repr(decoder.raw_decode(text, place)[0]) == wanted:
                return True
        except ValueError:
            pass
    return False
