"""Every regular expression of the package, on texts made of its own parts: time must not grow faster.

For each part that may repeat without end, texts repeat what it takes, behind what stands before it. Exits
with 1 where four times the text takes much more than four times as long. Words on the command line limit this
to the patterns whose names contain one of them.
"""

from __future__ import annotations

import ast
import re
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from inspect import getsource
from itertools import chain, product
from pkgutil import walk_packages
from re import _constants as code
from re import _parser as parser
from typing import Any, Final, NamedTuple

import trustgraph_prompt

LENGTH: Final = 8_000
"""Characters of a text. What takes long is measured again with four times as many."""

LONG: Final = 4e-3  # seconds, which no linear search takes
AGAIN: Final = 3
BAR: Final = 9  # linear is 4, quadratic 16
HOPELESS: Final = 2.0
"""Seconds after which a search is ended."""

SIGNS: Final = "aA01 \t\n\r\"'`~#.,:;-_+*/\\<>()[]{}=|!?&%$@^é²”…−\u0301\u2061"
ENDS: Final = ("", "\0", "\n", "//", "!", '"', "a", " `")
ENDLESS: Final = 50  # repetitions

_MATCHED: Final = "only matched where a value is read"
#: What may grow faster, as it is used.
USED_OTHERWISE: Final = {
    "documents.raised_text._OPERATORS": "of 20 characters",
    "documents.raised_text._WORD": "of 60 characters",
    "graph_store.store._CHARACTERS": "of what a SPARQL parser expects",
    "json_text.grammar.BEFORE_ELEMENT": _MATCHED,
    "json_text.grammar.BEFORE_OBJECT": _MATCHED,
    "json_text.grammar.ELEMENTS": _MATCHED,
    "json_text.grammar.FLAT_TOKEN": _MATCHED,
    "json_text.grammar.MEMBERS": _MATCHED,
    "json_text.grammar.TOKEN": _MATCHED,
    "llm.openai.denials._OF_A_PARAMETER": "of 4,000 characters",
    "llm.openai.denials._OF_THE_FEATURE": "of 4,000 characters",
    "prompts.ibis_dialect._TOKEN": "of text that ends with no space, up to what begins no token",
    "reader.complete_values._KEYS": "of up to three keys that were matched before",
    "reader.repair.grammar.FENCE": _MATCHED,
    "reader.repair.parser._OMITTED": _MATCHED,
    "reader.repair.strings._PLAINLY_FOLLOWS": _MATCHED,
    "reader.scanner._LINE_BEGINS": "of 40 characters",
    "worker.telemetry.status_page._SECTION": "of our own page",
}

SINGLE: Final = (code.LITERAL, code.NOT_LITERAL, code.ANY, code.IN)
REPEATS: Final = (code.MAX_REPEAT, code.MIN_REPEAT, code.POSSESSIVE_REPEAT)

METHODS: Final = frozenset(("match", "fullmatch", "search", "finditer", "findall", "sub", "subn", "split"))

Node = tuple[Any, Any]
Attack = tuple[str, str]
"""What comes first, and what is repeated."""


class Used(NamedTuple):
    """A pattern, and how it is used: by the names of methods."""

    name: str
    pattern: re.Pattern[Any]
    methods: frozenset[str]


def patterns() -> Iterator[Used]:
    """The patterns of all modules, each once."""
    seen: set[tuple[Any, int]] = set()
    infos = walk_packages(trustgraph_prompt.__path__, "trustgraph_prompt.")
    modules = [import_module(info.name) for info in infos if not info.name.endswith("__main__")]
    sources = {module: getsource(module) for module in modules}
    everything = "\n".join(sources.values())
    for module, source in sources.items():
        for name, pattern, methods in chain(
            compiled(vars(module), source, everything), in_calls(vars(module), source)
        ):
            if (key := (pattern.pattern, pattern.flags)) not in seen:
                seen.add(key)
                place = module.__name__.removeprefix("trustgraph_prompt.")
                yield Used(f"{place}.{name}", pattern, methods & METHODS or METHODS)


def compiled(names: Mapping[str, Any], source: str, everything: str) -> Iterator[Used]:
    """The patterns in the names of a module and in its tables."""

    def within(value: Any) -> Iterator[re.Pattern[Any]]:
        if isinstance(value, re.Pattern):
            yield value
        elif isinstance(value, dict):
            yield from within([*value, *value.values()])
        elif isinstance(value, list | tuple):
            yield from chain.from_iterable(map(within, value))

    for name, value in names.items():
        found = [] if name.startswith("__") else list(within(value))
        used_in = source if name.startswith("_") else everything
        methods = frozenset(re.findall(rf"\b{name}\.(\w+)", used_in) if found else ())
        yield from (Used(name, pattern, methods) for pattern in found)


def in_calls(names: Mapping[str, Any], source: str) -> Iterator[Used]:
    """The patterns in calls such as `re.sub("a+", …)` that have no local names."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re.") and node.args:
            try:
                text = eval(compile(ast.Expression(node.args[0]), "", "eval"), dict(names))
                method = ast.unparse(node.func).removeprefix("re.")
                if method in METHODS:
                    yield Used(f"line {node.lineno}", re.compile(text), frozenset((method,)))
            except (NameError, TypeError):
                continue


def attacks(pattern: re.Pattern[Any]) -> set[Attack]:
    """Texts that repeat what the parts of a pattern take."""
    flags, text = pattern.flags, pattern.pattern
    whole = parser.parse(text if isinstance(text, str) else text.decode("latin-1"), flags)
    found: set[Attack] = set()

    def visit(nodes: Iterable[Node], before: str) -> None:
        for op, value in nodes:
            if op in REPEATS and value[1] > ENDLESS:
                found.update((start, pump) for pump in pumps(value[2], flags) for start in (before, ""))
            for part in parts_of(op, value):
                visit(part, before)
            before += sample([(op, value)], flags, 0)

    visit(whole, "")
    for turn in range(4):
        once = sample(whole, flags, turn)
        found |= {("", once[:end]) for end in (*range(1, 9), len(once))}
    return {(start, pump) for start, pump in found if pump}


def pumps(body: Iterable[Node], flags: int) -> set[str]:
    nodes = list(body)
    samples = {sample(nodes, flags, turn) for turn in range(4)}
    is_single = len(nodes) == 1 and nodes[0][0] in SINGLE
    return samples | set(characters(*nodes[0], flags) if is_single else ())


def parts_of(op: Any, value: Any) -> Iterator[Iterable[Node]]:
    if op in REPEATS:
        yield value[2]
    elif op is code.SUBPATTERN:
        yield value[3]
    elif op is code.ATOMIC_GROUP:
        yield value
    elif op is code.BRANCH:
        yield from value[1]
    elif op in (code.ASSERT, code.ASSERT_NOT):
        yield value[1]


def sample(nodes: Iterable[Node], flags: int, turn: int) -> str:
    """A text that nodes take; another turn gives other characters and branches."""
    text = ""
    for op, value in nodes:
        if op in SINGLE:
            some = characters(op, value, flags) or ["a"]
            text += some[turn % len(some)]
        elif op not in (code.ASSERT, code.ASSERT_NOT):
            least = value[0] or 1 - turn % 2 if op in REPEATS else 1
            ways = list(parts_of(op, value))
            text += sample(ways[turn % len(ways)], flags, turn) * min(least, ENDLESS) if ways else ""
    return text


def characters(op: Any, value: Any, flags: int) -> list[str]:
    """Characters that a node takes."""
    if op is code.LITERAL:
        return [chr(value)]
    own = value if op is code.IN else ()
    named = [
        chr(of if kind is code.LITERAL else of[0]) for kind, of in own if kind in (code.LITERAL, code.RANGE)
    ]
    return [sign for sign in dict.fromkeys([*SIGNS, *named]) if takes(op, value, ord(sign), flags)]


def takes(op: Any, value: Any, sign: int, flags: int) -> bool:
    if op is code.ANY:
        return sign != ord("\n") or bool(flags & re.DOTALL)
    if op is code.NOT_LITERAL:
        return bool(sign != value)
    is_in = False
    for kind, of in value:
        is_in |= (
            (kind is code.LITERAL and sign == of)
            or (kind is code.RANGE and of[0] <= sign <= of[1])
            or (kind is code.CATEGORY and CATEGORIES[of].match(chr(sign)) is not None)
        )
    return is_in != (value[0][0] is code.NEGATE)


CATEGORIES: Final = {
    getattr(code, f"CATEGORY_{name}"): re.compile(rf"\{sign}")
    for name, sign in (("DIGIT", "d"), ("SPACE", "s"), ("WORD", "w"))
    for name, sign in ((name, sign), (f"NOT_{name}", sign.upper()))
}


def seconds(used: Used, attack: Attack, end: str, length: int) -> float:
    """The CPU time of a search in a text, for each way in which it is used; `HOPELESS` if it was ended."""
    start, pump = attack
    text: Any = start + pump * (length // len(pump)) + end
    if isinstance(used.pattern.pattern, bytes):
        text = text.encode("latin-1", "replace")
    began = time.process_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, HOPELESS)
    try:
        for method in used.methods & {"match", "fullmatch"}:
            getattr(used.pattern, method)(text)
        if used.methods - {"match", "fullmatch"}:
            for _ in used.pattern.finditer(text):
                pass
    except TimeoutError:
        return HOPELESS
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return time.process_time() - began


def worst(used: Used) -> tuple[float, Attack, str] | None:
    """How much longer four times a text takes where it is more than the bar, with the text."""
    for attack, end in product(sorted(attacks(used.pattern)), ENDS):
        for _ in range(AGAIN):  # the machine may be busy
            little = seconds(used, attack, end, LENGTH)
            much = seconds(used, attack, end, 4 * LENGTH) if little > LONG else 0
            if much < HOPELESS and much <= BAR * little:
                break
        else:
            return much / little, attack, end
    return None


def end_search(*_: object) -> None:
    raise TimeoutError


def main() -> None:
    signal.signal(signal.SIGVTALRM, end_search)
    over, count = [], 0
    for used in patterns():
        name = used.name
        if name in USED_OTHERWISE or (sys.argv[1:] and not any(word in name for word in sys.argv[1:])):
            continue
        count += 1
        if found := worst(used):
            growth, (start, pump), end = found
            print(f"  {name:52} {growth:6.1f}x for {start[:20]!r} + {pump[:20]!r} * n + {end!r}", flush=True)
            over.append(name)
    print(f"{count} regular expressions; {len(USED_OTHERWISE)} others are used on short texts")
    if over:
        sys.exit(f"  over the bar: {', '.join(over)}")


if __name__ == "__main__":
    main()
