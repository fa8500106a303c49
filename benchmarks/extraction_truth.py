"""What a model gives for the bundled extraction prompts, and how much of it stands in the text it was given.

    python benchmarks/extraction_truth.py http://localhost:8080/v1 MODEL

Each prompt is asked for each text in `passages/` and for the beginning of the demo's document, as a worker
asks, at temperature 0 and with a fixed seed. An object counts if it has the right form, is no echo of the
prompt and stands in the text where the schema refuses what does not. The tables are in
docs/concepts/extraction-truth.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import operator
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

from trustgraph_prompt.ask import ask
from trustgraph_prompt.contract.server_schema import server_schema
from trustgraph_prompt.errors import ProviderError, Reason
from trustgraph_prompt.llm import OpenAIProvider
from trustgraph_prompt.prompts import PromptSet
from trustgraph_prompt.prompts.files import load
from trustgraph_prompt.reader import Outcome

HERE = Path(__file__).parent
TEMPLATES = HERE.parent / "templates"
CHALK = HERE.parent / "demo" / "on-a-piece-of-chalk.txt"
CHALK_CHARACTERS = 1_500
TOKENS = 600  # of one answer
SEED = 1
CONCURRENT = 4

#: What the prompts are asked with beside the text.
TERMS: Mapping[str, Mapping[str, Any]] = {
    "extract-rows": {
        "schema": {
            "name": "figures",
            "description": "Amounts, dates and measures that the text gives.",
            "fields": [
                {
                    "name": "what",
                    "type": "string",
                    "description": "What is measured or dated.",
                    "required": True,
                },
                {"name": "value", "type": "string", "description": "The amount or date.", "required": True},
            ],
        }
    },
    "extract-with-ontologies": {
        "classes": {
            "Person": {"comment": "A human being."},
            "Organisation": {"comment": "A company, an institution, a group of people."},
            "Place": {"comment": "A country, a town, a building, a region."},
            "Thing": {
                "comment": "Anything else that has a name: a product, a substance, a document, an event."
            },
        },
        "object_properties": {
            "works_for": {"domain": "Person", "range": "Organisation"},
            "located_in": {"range": "Place"},
            "part_of": {"comment": "One is a part or a member of the other."},
            "made_of": {"domain": "Thing", "range": "Thing"},
        },
        "datatype_properties": {
            "date": {"comment": "When it was, began or ended.", "range": "xsd:string"},
            "amount": {"comment": "How much or how many.", "range": "xsd:string"},
        },
    },
}
PROMPTS = (
    "extract-definitions",
    "extract-relationships",
    "extract-topics",
    "extract-rows",
    "agent-kg-extract",
    "extract-with-ontologies",
)


@dataclass
class Count:
    """What came of some questions."""

    objects: int = 0  # different ones
    echoed: int = 0
    ungrounded: int = 0
    malformed: int = 0
    useless: int = 0  # answers without an object, valid or not
    seconds: float = 0.0
    tokens: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(*map(operator.add, astuple(self), astuple(other)))

    @classmethod
    def of(cls, outcome: Outcome, seconds: float) -> Count:
        reasons = Counter(each.issues[0].reason for each in outcome.rejected)
        echoed, ungrounded = reasons.pop(Reason.ECHOED, 0), reasons.pop(Reason.UNGROUNDED, 0)
        tokens = outcome.usage.completion_tokens or 0
        useless = int(not outcome.objects and not outcome.rejected)
        return cls(len(_different(outcome)), echoed, ungrounded, reasons.total(), useless, seconds, tokens)


def _different(outcome: Outcome) -> list[dict[str, Any]]:
    """The objects that a worker would publish, those with the same id once."""
    return list({json.dumps(each, sort_keys=True): each for each in outcome.objects}.values())


#: By prompt and text.
Counts = Mapping[tuple[str, str], Count]


def passages() -> dict[str, str]:
    """The texts by name."""
    found = {path.stem: path.read_text("utf-8") for path in sorted((HERE / "passages").glob("*.txt"))}
    chalk = CHALK.read_text("utf-8")
    return {**found, "lecture": chalk[: chalk.rindex(". ", 0, CHALK_CHARACTERS) + 1]}


async def measured(
    prompts: PromptSet,
    provider: OpenAIProvider,
    texts: Mapping[str, str],
    ids: Iterable[str],
    *,
    native: bool,
) -> tuple[Counts, list[dict[str, Any]]]:
    """What was counted, and what was published."""
    counts: dict[tuple[str, str], Count] = {}
    published: list[dict[str, Any]] = []
    slots = asyncio.Semaphore(CONCURRENT)

    async def put(id: str, name: str, text: str) -> None:
        prompt, question = prompts.question(id, {"text": text, **TERMS.get(id, {})})
        config = replace(prompt.config, temperature=0.0, seed=SEED, max_tokens=TOKENS)
        holds = native and server_schema(prompt.contract, items=True) is not None
        prompt = replace(prompt, config=config, native_items=holds)
        async with slots:
            started = time.monotonic()
            outcome = await ask(prompt, question, provider)
        if outcome.cause is not None:
            raise outcome.cause
        counts[id, name] = Count.of(outcome, time.monotonic() - started)
        published.extend({"prompt": id, "text": name, "object": each} for each in _different(outcome))

    async with asyncio.TaskGroup() as tasks:
        for id in ids:
            for name, text in texts.items():
                tasks.create_task(put(id, name, text))
    return counts, published


def by_text(counts: Counts) -> str:
    """Markdown: how many objects came of each text with each prompt."""
    ids, names = (list(dict.fromkeys(keys)) for keys in zip(*sorted(counts), strict=True))
    rows = [[name, *(counts[id, name].objects for id in ids)] for name in sorted(names)]
    return _markdown(["", *ids, "in all"], [[*row, sum(row[1:])] for row in rows])


def by_prompt(counts: Counts) -> str:
    """Markdown: what came of all texts with each prompt."""
    sums: defaultdict[str, Count] = defaultdict(Count)
    for (id, _), count in sorted(counts.items()):
        sums[id] += count
    sums["in all"] = sum(counts.values(), Count())
    head = ["", "objects", "echoes", "not in the text", "wrong form", "no object", "seconds", "tokens"]
    return _markdown(head, [[id, *astuple(count)] for id, count in sums.items()])


def _markdown(head: list[str], rows: list[list[Any]]) -> str:
    said = [[name, *(f"{cell:,.0f}" for cell in cells)] for name, *cells in rows]
    lines = [head, [":---", *("---:" for _ in head[1:])], *said]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


async def main() -> None:
    said = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    said.add_argument("url", nargs="?", help="of an OpenAI-compatible server; needed to measure")
    said.add_argument("model", nargs="?", default="", help="its name there")
    said.add_argument(
        "--prompts",
        type=Path,
        default=TEMPLATES,
        help="a folder of prompt files; by default the bundled ones",
    )
    said.add_argument("--prompt", action="append", choices=PROMPTS, help="only this one; may be given again")
    said.add_argument(
        "--text", action="append", choices=sorted(passages()), help="only this text; may be given again"
    )
    said.add_argument(
        "--native", action="store_true", help="have the server hold the schema (`native: items`)"
    )
    said.add_argument("--objects", type=Path, help="where the objects are written, one a line")
    given = said.parse_args()
    if given.url is None:
        said.print_usage()
        return
    prompts = PromptSet.build(load(given.prompts))
    ids = [id for id in given.prompt or PROMPTS if id in prompts.prompts]
    if not ids:
        raise SystemExit(f"{given.prompts}: none of {', '.join(given.prompt or PROMPTS)}")
    texts = {name: text for name, text in passages().items() if name in (given.text or passages())}
    async with OpenAIProvider(given.url, given.model) as provider:
        counts, published = await measured(prompts, provider, texts, ids, native=given.native)
    print(by_text(counts), by_prompt(counts), sep="\n\n")
    if given.objects is not None:
        lines = (json.dumps(each, ensure_ascii=False) + "\n" for each in published)
        given.objects.write_text("".join(lines), "utf-8")


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except* ProviderError as failed:
        raise SystemExit(str(failed.exceptions[0])) from None
