"""How well a model answers in the terms of an ontology: F1 as Text2KGBench scores, beside published models.

    python benchmarks/ontologies.py FOLDER http://localhost:8092/v1 MODEL [--sentences 40] [--way WAY]…

FOLDER has `ontologies/ont_*.ttl`, `train/ont_*_train.jsonl` (a line a triple: sent, sub_label, rel_label,
obj_label), `test/*.jsonl` (sent, triples) and `published/*.jsonl`, the answers of the paper's models. Nothing
of it belongs to this project. A text of `train` that contains a test sentence, or is contained in it, is not
shown. Scored as in the paper: strings without blanks and underscores, in lower case; triples whose relation
is none of the sentence's gold relations are left out; F1 of each sentence, the mean of each ontology, the
mean of these. Intervals (95 %) are those of resampled sentences.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import log, sqrt
from pathlib import Path
from statistics import fmean
from typing import Any

from aiohttp import ClientSession, ClientTimeout
from rdflib import OWL, RDF, RDFS, Graph

from trustgraph_prompt import package_data
from trustgraph_prompt.ask import ask
from trustgraph_prompt.graph.ontology_choice import OntologyIndex
from trustgraph_prompt.graph.ontology_files import load
from trustgraph_prompt.llm import Provider, RuntimeConfig
from trustgraph_prompt.llm.openai import OpenAIProvider
from trustgraph_prompt.prompts import PromptDefinition, files
from trustgraph_prompt.prompts.within_ontology import within
from trustgraph_prompt.reader import read

TOKENS = 400  # of one answer
CONCURRENT = 4

Triple = tuple[str, str, str]
Pool = list[tuple[str, list[Triple]]]


@dataclass(frozen=True)
class Sentence:
    """A sentence with the triples that people verified."""

    id: str
    text: str
    gold: frozenset[Triple]


@dataclass(frozen=True)
class Answers:
    """How the sentences of one ontology were answered."""

    triples: Sequence[Sequence[Triple]]
    seconds: float = 0.0
    tokens: int = 0


def plain(text: str) -> str:
    """A string as the paper compares it."""
    return re.sub(r"[\s_]+", "", text).lower()


def plain_triple(triple: Iterable[str]) -> Triple:
    subject, relation, object = map(plain, triple)
    return subject, relation, object


def f1(gold: frozenset[Triple], answered: Iterable[Triple]) -> float:
    """F1 of one sentence: only the relations that its gold triples have count."""
    relations = {relation for _, relation, _ in gold}
    counted = {triple for triple in map(plain_triple, answered) if triple[1] in relations}
    right = len(counted & gold)
    return 0.0 if not right else 2 * right / (len(counted) + len(gold))


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines() if line.strip()]


def sentences(file: Path, most: int) -> list[Sentence]:
    return [
        Sentence(
            each["id"],
            each["sent"],
            frozenset(plain_triple((one["sub"], one["rel"], one["obj"])) for one in each["triples"]),
        )
        for each in lines(file)[:most]
    ]


def mean_of_ontologies(scores: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    """The mean of the means, and its 95 % interval by resampling the sentences of each ontology."""
    mean = fmean(map(fmean, scores))
    draw = random.Random(1)
    drawn = sorted(fmean(fmean(draw.choices(each, k=len(each))) for each in scores) for _ in range(2000))
    return mean, drawn[50], drawn[-50]


@dataclass(frozen=True)
class Relation:
    """A relation of an ontology by its label, and the labels of its ends; one without a class is a value."""

    label: str
    domain: str
    range: str

    def __str__(self) -> str:
        return f"- {self.label} (of a {self.domain or 'thing'}, to a {self.range or 'value'})"


def relations_of(turtle: Path) -> list[Relation]:
    """The relations of an ontology, in the order of their labels."""
    graph = Graph().parse(turtle)

    def label(subject: object) -> str:
        return str(graph.value(subject, RDFS.label) or "").strip()

    found = [*graph.subjects(RDF.type, OWL.ObjectProperty), *graph.subjects(RDF.type, OWL.DatatypeProperty)]
    ends = ((each, graph.value(each, RDFS.domain), graph.value(each, RDFS.range)) for each in found)
    return sorted((Relation(label(each), label(of), label(to)) for each, of, to in ends), key=str)


def pool_of(train: Path, tests: Iterable[Sentence]) -> Pool:
    """The texts of the training set with their triples, without any that has something of a test sentence."""
    triples: dict[str, list[Triple]] = defaultdict(list)
    for each in lines(train):
        triples[each["sent"]].append((each["sub_label"], each["rel_label"].strip(), each["obj_label"]))
    asked = [plain(each.text) for each in tests]
    return [
        (text, said)
        for text, said in triples.items()
        if not any(plain(text) in other or other in plain(text) for other in asked)
    ]


def nearest(pool: Sequence[tuple[str, list[Triple]]], text: str, count: int) -> Pool:
    """The texts of a pool that share the rarest words with a text, the nearest last."""
    words = [frozenset(re.findall(r"\w+", each.lower())) for each, _ in pool]
    spread = Counter(word for each in words for word in each)
    own = frozenset(re.findall(r"\w+", text.lower()))

    def score(each: frozenset[str]) -> float:
        return sum(log(1 + len(pool) / spread[word]) ** 2 for word in each & own) / sqrt(len(each))

    return [pool[n] for n in sorted(range(len(pool)), key=lambda n: score(words[n]))[-count:]]


_QUESTION = """\
You write down what a passage says as facts, each with a subject, a relation and an object. Use only these \
relations:
{relations}

Write subject and object exactly as the passage writes them. Answer with JSON objects, each with the keys \
"subject", "relation", "object"{form}, and nothing else."""


async def by_hand(
    session: ClientSession,
    model: str,
    text: str,
    relations: Sequence[Relation],
    examples: Sequence[tuple[str, list[Triple]]],
    *,
    enum: bool,
) -> tuple[list[Triple], int]:
    """Ask the baseline's question: labels of the relations, examples as turns, `relation` an enum or not."""
    keys = ("subject", "relation", "object")

    def answer(triples: Iterable[Triple]) -> str:
        objects = [dict(zip(keys, each, strict=True)) for each in triples]
        return json.dumps({"items": objects}) if enum else "\n".join(map(json.dumps, objects))

    form = ', in a list: {"items": […]}' if enum else ", one per line"
    system = _QUESTION.format(relations="\n".join(map(str, relations)), form=form)
    messages = [{"role": "system", "content": system}]
    for passage, triples in examples:
        messages += [{"role": "user", "content": passage}, {"role": "assistant", "content": answer(triples)}]
    body: dict[str, Any] = {
        "model": model,
        "messages": [*messages, {"role": "user", "content": text}],
        "temperature": 0,
        "seed": 1,
        "max_tokens": TOKENS,
    }
    if enum:
        item = {
            "type": "object",
            "properties": {key: {"type": "string"} for key in keys}
            | {"relation": {"enum": [each.label for each in relations]}},
            "required": list(keys),
            "additionalProperties": False,
        }
        schema = {
            "type": "object",
            "properties": {"items": {"type": "array", "items": item}},
            "required": ["items"],
            "additionalProperties": False,
        }
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "facts", "strict": True, "schema": schema},
        }
    async with session.post("chat/completions", json=body) as response:
        answered = await response.json()
    written, tokens = answered["choices"][0]["message"]["content"], answered["usage"]["completion_tokens"]
    objects = read(written, "jsonl").value
    if enum and len(objects) == 1 and "items" in objects[0]:
        objects = objects[0]["items"]
    return [
        tuple(str(each.get(key, "")) for key in keys)  # type: ignore[misc]
        for each in objects
        if isinstance(each, dict)
    ], tokens


BUNDLED = "bundled prompt"


def bundled_prompt() -> PromptDefinition:
    """`extract-with-ontologies`, with the settings of the other ways."""
    source = files.read(package_data.templates() / "extract-with-ontologies.prompt")
    prompt = source.build().prompts["extract-with-ontologies"]
    return replace(prompt, config=RuntimeConfig(temperature=0, seed=1, max_tokens=TOKENS))


async def by_us(
    prompt: PromptDefinition, ontology: OntologyIndex, provider: Provider, text: str
) -> tuple[list[Triple], int]:
    """Ask the bundled prompt in the terms of the ontology; a relation is called by its label."""
    kept, terms = within(ontology, prompt, text)
    outcome = await ask(kept, kept.question({"text": text, **(terms or {})}), provider)
    facts = map(ontology.vocabulary.as_fact, outcome.objects)
    found = [(each["subject"], each["relation"], each["object"]) for each in facts]
    return found, outcome.usage.completion_tokens or 0


async def ask_bundled(url: str, model: str, folder: Path, tests: Sequence[Path], most: int) -> None:
    began, tokens, scores = time.monotonic(), 0, []
    limit, prompt = asyncio.Semaphore(CONCURRENT), bundled_prompt()
    async with OpenAIProvider(url, model) as provider:
        for file in tests:
            ontology = OntologyIndex(load([folder / "ontologies" / f"ont_{file.stem}.ttl"]))
            of_file = sentences(file, most)

            async def one(text: str, ontology: OntologyIndex = ontology) -> tuple[list[Triple], int]:
                async with limit:
                    return await by_us(prompt, ontology, provider, text)

            answers = await asyncio.gather(*(one(each.text) for each in of_file))
            tokens += sum(each for _, each in answers)
            scores.append([f1(each.gold, said) for each, (said, _) in zip(of_file, answers, strict=True)])
    report(BUNDLED, scores, f"{time.monotonic() - began:.0f} s, {tokens} tokens")


def report(name: str, scores: Sequence[Sequence[float]], more: str = "") -> None:
    mean, low, high = mean_of_ontologies(scores)
    each = " ".join(f"{fmean(one):.2f}" for one in scores)
    print(f"  {name:44} {mean:.3f}  ({low:.2f} to {high:.2f})   {each}  {more}", flush=True)


#: The baseline's question: how many nearest examples are shown, and whether `relation` is an enum.
WAYS = {
    "plain question": (0, False),
    "plain question, enum": (0, True),
    "three nearest": (3, False),
    "three nearest, enum": (3, True),
}


async def ask_all(url: str, model: str, folder: Path, tests: Sequence[Path], most: int, way: str) -> None:
    shown, enum = WAYS[way]
    began, tokens, scores = time.monotonic(), 0, []
    limit = asyncio.Semaphore(CONCURRENT)
    async with ClientSession(url.rstrip("/") + "/", timeout=ClientTimeout(600)) as session:
        for file in tests:
            name = file.stem
            of_file = sentences(file, most)
            relations = relations_of(folder / "ontologies" / f"ont_{name}.ttl")
            pool = pool_of(folder / "train" / f"ont_{name}_train.jsonl", of_file)

            async def one(
                text: str, relations: list[Relation] = relations, pool: Pool = pool
            ) -> tuple[list[Triple], int]:
                async with limit:
                    examples = nearest(pool, text, shown) if shown else []
                    return await by_hand(session, model, text, relations, examples, enum=enum)

            answers = await asyncio.gather(*(one(each.text) for each in of_file))
            tokens += sum(each for _, each in answers)
            scores.append([f1(each.gold, said) for each, (said, _) in zip(of_file, answers, strict=True)])
    report(way, scores, f"{time.monotonic() - began:.0f} s, {tokens} tokens")


def published(folder: Path, tests: Sequence[Path], most: int) -> None:
    """Score the answers of the paper's models to the same sentences."""
    for model in sorted({file.name.split("_")[0] for file in (folder / "published").iterdir()}):
        scores = []
        for file in tests:
            of_model = lines(folder / "published" / f"{model}_{file.name}")
            answers = {each["id"]: each["triples"] for each in of_model}
            scores.append(
                [
                    f1(each.gold, [said for said in answers.get(each.id, ()) if len(said) == 3])
                    for each in sentences(file, most)
                ]
            )
        report(f"{model} (published)", scores)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("url", nargs="?")
    parser.add_argument("model", nargs="?", default="model")
    parser.add_argument("--sentences", type=int, default=40)
    parser.add_argument("--way", action="append", choices=[BUNDLED, *WAYS])
    given = parser.parse_args()
    tests = sorted((given.folder / "test").glob("*.jsonl"))
    published(given.folder, tests, given.sentences)
    for way in (given.way or [BUNDLED, *WAYS]) if given.url else ():
        if way == BUNDLED:
            asyncio.run(ask_bundled(given.url, given.model, given.folder, tests, given.sentences))
        else:
            asyncio.run(ask_all(given.url, given.model, given.folder, tests, given.sentences, way))


if __name__ == "__main__":
    main()
