"""What is left of an answer that ran into its output limit, asked as a JSON array and as JSONL (seed 1).

Answers of 10 to 1,000 objects end at 10 to 100 % of their text, each limit at some places within an object. A
plain parser (`json.loads` of the array, of each line), a repairing one (json_repair in the same way, where it
is installed) and ours read them. Counted are the objects that come back as they were written, and those that
nobody wrote: a cut one, closed up. `--write` puts tables and chart into `docs/`.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import random
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from html import escape
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.reading import SCHEMA
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.reader import read

DOCS = Path(__file__).parents[1] / "docs"
SIZES = [10, 30, 100, 300, 1000]
LIMITS = range(10, 101, 10)
TITLES = {"array": "JSON array", "jsonl": "JSONL"}
BEGINS, ENDS = "<!-- measured -->", "<!-- /measured -->"
CUTS = 10  # places at which each limit falls, within the length of an object

CONTRACT = Contract.from_schema(SCHEMA, format="jsonl")

Object = Mapping[str, Any]
Parser = Callable[[str], list[Any]]


def objects(count: int) -> list[Object]:
    """Definitions and relationships as a model finds them in a text about rocks; always the same ones."""
    chance = random.Random(1)
    rocks = [
        "chalk",
        "flint",
        "granite",
        "limestone",
        "marble",
        "sandstone",
        "slate",
        "basalt",
        "clay",
        "shale",
    ]
    kinds = ["soft white", "hard grey", "fine-grained", "layered", "igneous", "sedimentary"]
    places = [
        "in shallow seas",
        "under pressure",
        "from shells",
        "by cooling lava",
        "in deserts",
        "over ages",
    ]
    predicates = ["is-found-in", "consists-of", "is-older-than", "is-a-kind-of"]
    made: list[Object] = []
    for number in range(count):
        rock, other = (f"{name} of layer {number}" for name in chance.sample(rocks, 2))
        if chance.random() < 0.5:
            text = f'A {chance.choice(kinds)} rock, formed {chance.choice(places)}; geologists say "{rock}".'
            made.append({"type": "definition", "entity": rock, "definition": text})
        else:
            relationship = {"subject": rock, "predicate": chance.choice(predicates), "object": other}
            made.append({"type": "relationship", **relationship, "object-entity": chance.random() < 0.8})
    return made


def array(lines: list[str]) -> str:
    return "[\n  " + ",\n  ".join(lines) + "\n]"


def jsonl(lines: list[str]) -> str:
    return "\n".join(lines)


def whole(loads: Callable[[str], Any]) -> Parser:
    """All of the text at once, or nothing."""

    def parse(text: str) -> list[Any]:
        try:
            value = loads(text)
        except ValueError:
            return []
        return value if isinstance(value, list) else []

    return parse


def line_by_line(loads: Callable[[str], Any]) -> Parser:
    """Each line alone, as seed 1 has it: one that is no JSON is skipped."""

    def parse(text: str) -> list[Any]:
        values = []
        for line in text.strip().split("\n"):
            try:
                values.append(loads(line))
            except ValueError:
                continue
        return values

    return parse


def ours(text: str) -> list[Any]:
    found: list[Any] = read(text, CONTRACT).value
    return found


def parsers() -> dict[str, dict[str, Parser]]:
    """By layout and name."""
    loads: dict[str, Callable[[str], Any]] = {"plain": json.loads}
    if importlib.util.find_spec("json_repair"):
        loads["repairing"] = importlib.import_module("json_repair").loads
    return {
        "array": {name: whole(load) for name, load in loads.items()} | {"ours": ours},
        "jsonl": {name: line_by_line(load) for name, load in loads.items()} | {"ours": ours},
    }


@dataclass
class Count:
    """What came of some answers."""

    answers: int = 0
    cut: int = 0
    kept: float = 0.0  # shares, summed
    invented: int = 0
    accepted: int = 0  # of the invented ones: what the schema lets pass

    def add(self, read: list[Any], written: set[str], *, cut: bool) -> None:
        found = {json.dumps(value) for value in read if isinstance(value, dict)}
        strangers = [json.loads(value) for value in found - written]
        self.answers += 1
        self.cut += cut
        self.kept += len(found & written) / len(written)
        self.invented += len(strangers)
        self.accepted += sum(map(CONTRACT.accepts, strangers))

    def __add__(self, other: Count) -> Count:
        return Count(
            self.answers + other.answers,
            self.cut + other.cut,
            self.kept + other.kept,
            self.invented + other.invented,
            self.accepted + other.accepted,
        )

    @property
    def share(self) -> float:
        """Objects kept, in percent."""
        return 100 * self.kept / self.answers


Counts = dict[tuple[str, str, int, int], Count]  # by layout, parser, size and limit


def measure() -> Counts:
    """All answers read by all parsers. Ours is held to what it claims: what was complete, nothing else."""
    counts: Counts = {}
    for size, layout in product(SIZES, (array, jsonl)):
        lines = [json.dumps(value) for value in objects(size)]
        text, written = layout(lines), set(lines)
        completed = [text.index(line) + len(line) for line in lines]
        for limit, (name, parse) in product(LIMITS, parsers()[layout.__name__].items()):
            count = counts[layout.__name__, name, size, limit] = Count()
            for end in ends(len(text), limit, len(text) // size):
                found = parse(text[:end])
                count.add(found, written, cut=end < len(text))
                if name == "ours":
                    assert list(map(json.dumps, found)) == lines[: bisect_right(completed, end)]
    return counts


def ends(length: int, limit: int, span: int) -> list[int]:
    """Where the limit falls: at `CUTS` places up to `limit` percent, within the length of an object."""
    last = length * limit // 100
    return [last] if limit == 100 else [last - span * place // CUTS for place in range(CUTS)]


def total(
    counts: Counts, layout: str, name: str, *, size: int | None = None, limit: int | None = None
) -> Count:
    """The sum over all sizes and limits but for those given."""
    chosen = (
        count
        for (its_layout, its_name, its_size, its_limit), count in counts.items()
        if (its_layout, its_name) == (layout, name)
        and size in (None, its_size)
        and limit in (None, its_limit)
    )
    return sum(chosen, Count())


def tables(counts: Counts) -> str:
    """Markdown."""
    columns = list(dict.fromkeys((layout, name) for layout, name, _, _ in counts))
    head = [f"{TITLES[layout]}, {name}" for layout, name in columns]
    rule = [":---", *("---:" for _ in columns)]

    def shares(sums: Iterable[Count]) -> list[str]:
        return [f"{count.share:.1f} %" for count in sums]

    by_limit = [["output limit", *head], rule]
    for limit in LIMITS:
        by_limit.append([f"{limit} %", *shares(total(counts, *column, limit=limit) for column in columns)])
    by_size = [["objects", *head], rule]
    for size in SIZES:
        by_size.append([f"{size:,}", *shares(total(counts, *column, size=size) for column in columns)])
    sums = [total(counts, *column) for column in columns]
    invented = [
        ["", *head],
        rule,
        ["cut answers", *(f"{count.cut:,}" for count in sums)],
        ["objects nobody wrote", *(f"{count.invented:,}" for count in sums)],
        ["of these, accepted by the schema", *(f"{count.accepted:,}" for count in sums)],
    ]
    parts = [by_limit, by_size, invented]
    return "\n\n".join("\n".join(f"| {' | '.join(row)} |" for row in part) for part in parts)


WIDTH, HEIGHT, TOP, SIDE = 220, 160, 46, 44  # of a panel, and what is left around it

STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #333 }
  .title { font-weight: 600 }
  .small { font-size: 10px; fill: #777 }
  .axis { stroke: #bbb; stroke-width: 1 }
  .line { fill: none; stroke-width: 2 }
  .line.ours { stroke: #2563eb; stroke-width: 4 }
  .line.repairing { stroke: #f59e0b; stroke-dasharray: 8 8 }
  .line.plain { stroke: #111; stroke-dasharray: 2 6 }
  .bar.plain { fill: #111 } .bar.repairing { fill: #f59e0b } .bar.ours { fill: #2563eb }
  @media (prefers-color-scheme: dark) {
    text { fill: #ddd } .small { fill: #999 } .axis { stroke: #555 }
    .line.plain { stroke: #fff } .bar.plain { fill: #fff }
  }
"""


def chart(counts: Counts) -> str:
    """SVG: the share kept by limit in each layout, and what was invented in a hundred cut answers."""
    names = list(dict.fromkeys(name for _, name, _, _ in counts))
    panels = [*(kept(counts, layout, names) for layout in TITLES), invented(counts, names)]
    step = WIDTH + 2 * SIDE
    placed = (
        f'<g transform="translate({SIDE + step * place},{TOP})">{panel}</g>'
        for place, panel in enumerate(panels)
    )
    legend = (
        f'<path class="line {name}" d="M{left} 14h24"/>{label(left + 30, 18, name)}'
        for left, name in zip(range(SIDE, 1000, 110), names, strict=False)
    )
    size = f'viewBox="0 0 {step * len(panels)} {HEIGHT + TOP + 44}" role="img"'
    title = "<title>Objects kept and objects invented, of answers that were cut</title>"
    body = "\n".join([*legend, *placed])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n{title}\n<style>{STYLE}</style>\n{body}\n</svg>\n'
    )


def kept(counts: Counts, layout: str, names: list[str]) -> str:
    parts = [label(0, -10, f"{TITLES[layout]}: objects kept", "title"), axes()]
    for percent in (0, 50, 100):
        parts.append(label(-6, HEIGHT * (1 - percent / 100) + 4, f"{percent} %", "small", "end"))
        parts.append(label(WIDTH * percent / 100, HEIGHT + 16, f"{percent} %", "small", "middle"))
    parts.append(label(WIDTH / 2, HEIGHT + 32, "output limit", "small", "middle"))
    for name in reversed(names):  # where they are one, the finer line is on top
        shares = ((limit, total(counts, layout, name, limit=limit).share) for limit in LIMITS)
        points = " ".join(
            f"{WIDTH * limit / 100:.1f},{HEIGHT * (1 - share / 100):.1f}" for limit, share in shares
        )
        parts.append(f'<polyline class="line {name}" points="{points}"/>')
    return "".join(parts)


def invented(counts: Counts, names: list[str]) -> str:
    parts = [label(0, -10, "Invented in 100 cut answers", "title"), axes()]
    bars = list(product(TITLES, names))
    wide = WIDTH / (len(bars) + 1)
    for place, (layout, name) in enumerate(bars):
        count = total(counts, layout, name)
        rate = count.invented / count.cut
        left = wide * (place + (place >= len(names)) + 0.1)
        height = HEIGHT * min(rate, 1)
        parts.append(
            f'<rect class="bar {name}" x="{left:.1f}" y="{HEIGHT - height:.1f}" width="{wide * 0.8:.1f}" '
            f'height="{height:.1f}"/>'
        )
        parts.append(label(left + wide * 0.4, HEIGHT - height - 4, f"{100 * rate:.0f}", "small", "middle"))
    for place, layout in enumerate(TITLES):
        middle = wide * (place * (len(names) + 1) + len(names) / 2)
        parts.append(label(middle, HEIGHT + 16, TITLES[layout], "small", "middle"))
    return "".join(parts)


def axes() -> str:
    return f'<path class="axis line" d="M0 0V{HEIGHT}H{WIDTH}"/>'


def label(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def main() -> None:
    counts = measure()
    print(tables(counts))
    if "--write" in sys.argv[1:]:
        page = DOCS / "concepts" / "extraction-quality.md"
        before, _, rest = page.read_text("utf-8").partition(BEGINS)
        _, _, after = rest.partition(ENDS)
        page.write_text(f"{before}{BEGINS}\n{tables(counts)}\n{ENDS}{after}", "utf-8")
        (DOCS / "images" / "extraction-quality.svg").write_text(chart(counts), "utf-8")


if __name__ == "__main__":
    main()
