"""Mixes objects of two builds for somebody who reads them blind, and counts the verdicts.

    python benchmarks/statements.py mix BEFORE.jsonl AFTER.jsonl --out FOLDER [--most 150] [--twice 60]
    python benchmarks/statements.py count FOLDER
    python benchmarks/statements.py names OBJECTS.jsonl…

The objects are those that `extraction_truth.py --objects` writes. `mix` draws at most so many of each build,
evenly over prompts, and writes into FOLDER: `sheet.jsonl`, without quotes and in random order, `again.jsonl`,
some of them for a second reader, and `key.jsonl`, which says of which build each is. A reader fills `says` in
each line of a sheet: 1 if a fair reader agrees that the object says what the text says, ends in order, and
understandable alone; 0.5 if its core is right and something material is missing, garbled or vague, or two
facts are joined; 0 if it is wrong, from elsewhere, or a relation that the text does not make. `count` prints
the shares, and Cohen's kappa of the two readers. `names` counts how many of the names that a person marked in
the texts (`passages/names.json`) are an entity, a subject or an object in each file.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

SAYS = (1, 0.5, 0)
SEED = 40


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def write(path: Path, values: Iterable[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values), "utf-8")


def drawn(objects: Sequence[dict[str, Any]], most: int, draw: random.Random) -> list[dict[str, Any]]:
    """At most so many objects, those of each prompt in the same share as among all."""
    by_prompt: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for each in objects:
        by_prompt[each["prompt"]].append(each)
    share = min(1.0, most / len(objects))
    return [one for group in by_prompt.values() for one in draw.sample(group, round(share * len(group)))]


def mix(before: Path, after: Path, out: Path, most: int, twice: int) -> None:
    draw = random.Random(SEED)
    rows = [
        (build, each)
        for build, path in (("before", before), ("after", after))
        for each in drawn(lines(path), most, draw)
    ]
    draw.shuffle(rows)
    sheet = [
        {
            "number": number,
            "prompt": each["prompt"],
            "text": each["text"],
            "object": {key: value for key, value in each["object"].items() if key != "quote"},
            "says": None,
        }
        for number, (_, each) in enumerate(rows)
    ]
    out.mkdir(parents=True, exist_ok=True)
    write(out / "sheet.jsonl", sheet)
    write(
        out / "again.jsonl",
        sorted(draw.sample(sheet, min(twice, len(sheet))), key=lambda each: each["number"]),
    )
    write(out / "key.jsonl", ({"number": number, "build": build} for number, (build, _) in enumerate(rows)))


def count(folder: Path) -> None:
    build = {each["number"]: each["build"] for each in lines(folder / "key.jsonl")}
    says = {each["number"]: each["says"] for each in lines(folder / "sheet.jsonl")}
    prompt = {each["number"]: each["prompt"] for each in lines(folder / "sheet.jsonl")}
    print("| | objects | stated | in part | not |\n|:---|---:|---:|---:|---:|")
    for id in ("", *sorted(set(prompt.values()))):
        for name in ("before", "after"):
            found = Counter(says[n] for n in build if build[n] == name and id in ("", prompt[n]))
            total = found.total() or 1
            cells = " | ".join(f"{found[value]} ({found[value] / total:.0%})" for value in SAYS)
            print(f"| {id or 'all'}, {name} | {found.total()} | {cells} |")
    again = {each["number"]: each["says"] for each in lines(folder / "again.jsonl")}
    if all(value is not None for value in again.values()):
        print(
            f"\nread twice: {len(again)}, kappa {kappa([(says[n], other) for n, other in again.items()]):.2f}"
        )


def kappa(pairs: Sequence[tuple[float, float]]) -> float:
    """Cohen's kappa: how far two readers agree beyond chance."""
    first, second = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    same = sum(a == b for a, b in pairs) / len(pairs)
    chance = sum(first[value] * second[value] for value in SAYS) / len(pairs) ** 2
    return (same - chance) / (1 - chance)


def names(objects: Path) -> None:
    """Print how many of the marked names some objects name."""
    marked = json.loads((Path(__file__).parent / "passages" / "names.json").read_text("utf-8"))
    ends: defaultdict[str, str] = defaultdict(str)
    for each in lines(objects):
        said = (str(each["object"].get(key, "")) for key in ("entity", "subject", "object"))
        ends[each["text"]] += "\n".join(["", *said]).casefold()
    found = {text: sum(name.casefold() in ends[text] for name in of_text) for text, of_text in marked.items()}
    by_text = ", ".join(f"{text} {count} of {len(marked[text])}" for text, count in found.items())
    print(f"{objects}: {sum(found.values())} of {sum(map(len, marked.values()))} names ({by_text})")


def main() -> None:
    said = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = said.add_subparsers(dest="command", required=True)
    mixing = commands.add_parser("mix")
    mixing.add_argument("before", type=Path)
    mixing.add_argument("after", type=Path)
    mixing.add_argument("--out", type=Path, required=True)
    mixing.add_argument("--most", type=int, default=150, help="objects of each build")
    mixing.add_argument("--twice", type=int, default=60, help="objects for a second reader")
    commands.add_parser("count").add_argument("folder", type=Path)
    naming = commands.add_parser("names")
    naming.add_argument("objects", type=Path, nargs="+")
    given = said.parse_args()
    if given.command == "mix":
        mix(given.before, given.after, given.out, given.most, given.twice)
    elif given.command == "count":
        count(given.folder)
    else:
        for each in given.objects:
            names(each)


if __name__ == "__main__":
    main()
