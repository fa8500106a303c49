"""How well a model answers in the terms of an ontology: F1 as Text2KGBench scores, beside published models.

    python benchmarks/ontologies.py FOLDER http://localhost:8092/v1 MODEL [--sentences 40] [--way WAY]…

FOLDER has `ontologies/ont_*.ttl`, `train/ont_*_train.jsonl` (a line a triple: sent, sub_label, rel_label,
obj_label), `test/*.jsonl` (sent, triples) and `published/*.jsonl`, the answers of the paper's models. Nothing
of it belongs to this project. A text of `train` that contains a test sentence, or is contained in it, is not
shown. Scored as in the paper: strings without blanks and underscores, in lower case; triples whose relation
is not among the sentence's gold relations are left out; F1 of each sentence, the mean of each ontology, the
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
from rdflib.term import Node

from trustgraph_prompt.ask import ask
from trustgraph_prompt.graph.ontology_choice import OntologyIndex
from trustgraph_prompt.graph.ontology_files import load
from trustgraph_prompt.llm import OpenAIProvider
from trustgraph_prompt.prompts import PromptDefinition, PromptSet, files
from trustgraph_prompt.prompts.pool import Pool, PoolClause, PoolText
from trustgraph_prompt.prompts.within_ontology import within
from trustgraph_prompt.reader import read

TOKENS = 400  # of one answer
CONCURRENT = 4
KEYS = ("subject", "relation", "object")
TEMPLATES = Path(__file__).parent.parent / "templates"

Triple = tuple[str, str, str]


@dataclass(frozen=True)
class Sentence:
    """A sentence with the triples that people verified."""

    id: str
    text: str
    gold: frozenset[Triple]


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
    """A relation of an ontology and its ends by their labels; an end without a class is a value."""

    label: str
    domain: str
    range: str

    def __str__(self) -> str:
        return f"- {self.label} (of a {self.domain or 'thing'}, to a {self.range or 'value'})"


def relations_of(turtle: Path) -> list[Relation]:
    """The relations of an ontology, in the order of their labels."""
    graph = Graph().parse(turtle)

    def label(subject: Node | None) -> str:
        return str(graph.value(subject, RDFS.label) or "").strip()

    found = [*graph.subjects(RDF.type, OWL.ObjectProperty), *graph.subjects(RDF.type, OWL.DatatypeProperty)]
    ends = ((each, graph.value(each, RDFS.domain), graph.value(each, RDFS.range)) for each in found)
    return sorted((Relation(label(each), label(of), label(to)) for each, of, to in ends), key=str)


def pool_of(train: Path, tests: Iterable[Sentence]) -> list[tuple[str, list[Triple]]]:
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


def nearest(
    pool: Sequence[tuple[str, list[Triple]]], text: str, count: int
) -> list[tuple[str, list[Triple]]]:
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

    def answer(triples: Iterable[Triple]) -> str:
        objects = [dict(zip(KEYS, each, strict=True)) for each in triples]
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
            "properties": {key: {"type": "string"} for key in KEYS}
            | {"relation": {"enum": [each.label for each in relations]}},
            "required": list(KEYS),
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
        tuple(str(each.get(key, "")) for key in KEYS)  # type: ignore[misc]
        for each in objects
        if isinstance(each, dict)
    ], tokens


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


#: The bundled prompt within the ontology: how many nearest examples of a pool are shown.
PRODUCT = {"bundled prompt": 0, "bundled prompt, three nearest": 3, "bundled prompt, five nearest": 5}


@dataclass(frozen=True)
class Task:
    """The sentences of one ontology, its file, and the texts that may be shown."""

    sentences: Sequence[Sentence]
    ontology: Path
    pool: Sequence[tuple[str, list[Triple]]]


async def asked_by_hand(task: Task, url: str, model: str, way: str) -> tuple[list[list[Triple]], int]:
    """The answers to the baseline's question, and their tokens."""
    shown, enum = WAYS[way]
    relations = relations_of(task.ontology)
    limit = asyncio.Semaphore(CONCURRENT)
    async with ClientSession(url.rstrip("/") + "/", timeout=ClientTimeout(600)) as session:

        async def one(text: str) -> tuple[list[Triple], int]:
            async with limit:
                examples = nearest(task.pool, text, shown) if shown else []
                return await by_hand(session, model, text, relations, examples, enum=enum)

        answers = await asyncio.gather(*(one(each.text) for each in task.sentences))
    return [triples for triples, _ in answers], sum(tokens for _, tokens in answers)


async def asked_bundled(task: Task, url: str, model: str, way: str) -> tuple[list[list[Triple]], int]:
    """The answers to the bundled prompt within the ontology, as a worker asks it, and their tokens."""
    index = OntologyIndex(load([task.ontology]))
    prompt = bundled(task.pool, PRODUCT[way])
    limit = asyncio.Semaphore(CONCURRENT)
    async with OpenAIProvider(url, model) as provider:

        async def one(text: str) -> tuple[list[Triple], int]:
            of_text, terms = within(index, prompt, text)
            if terms is None:
                return [], 0
            question = of_text.question({**terms, "text": text})
            async with limit:
                outcome = await ask(of_text, question, provider)
            return [triple_of(each, index) for each in outcome.objects], outcome.usage.completion_tokens or 0

        answers = await asyncio.gather(*(one(each.text) for each in task.sentences))
    return [triples for triples, _ in answers], sum(tokens for _, tokens in answers)


def bundled(pool: Sequence[tuple[str, list[Triple]]], shown: int) -> PromptDefinition:
    """The bundled prompt, with the settings of the baselines."""
    prompt = PromptSet.build(files.load(TEMPLATES)).prompts["extract-with-ontologies"]
    prompt = replace(prompt, config=replace(prompt.config, temperature=0.0, seed=1, max_tokens=TOKENS))
    if not shown:
        return prompt
    texts = [
        PoolText(text, {"text": text}, [dict(zip(KEYS, triple, strict=True)) for triple in triples])
        for text, triples in pool
    ]
    clause = PoolClause("0" * 64, show=shown)
    return replace(prompt, pool_clause=clause).with_pool(Pool.of(texts, "text", "the training set"))


def triple_of(value: dict[str, Any], index: OntologyIndex) -> Triple:
    """An object as it is published, with the label of its relation."""
    fact = index.vocabulary.as_fact(value)
    return fact["subject"], fact["relation"], fact["object"]


async def ask_all(url: str, model: str, folder: Path, tests: Sequence[Path], most: int, way: str) -> None:
    began, tokens, scores = time.monotonic(), 0, []
    for file in tests:
        of_file = sentences(file, most)
        task = Task(
            of_file,
            folder / "ontologies" / f"ont_{file.stem}.ttl",
            pool_of(folder / "train" / f"ont_{file.stem}_train.jsonl", of_file),
        )
        asked = asked_bundled if way in PRODUCT else asked_by_hand
        answers, cost = await asked(task, url, model, way)
        tokens += cost
        scores.append([f1(each.gold, said) for each, said in zip(of_file, answers, strict=True)])
    report(way, scores, f"{time.monotonic() - began:.0f} s, {tokens} tokens")


def published(folder: Path, tests: Sequence[Path], most: int) -> None:
    """Score the answers of the paper's models to the same sentences."""
    for model in sorted({file.name.split("_")[0] for file in (folder / "published").iterdir()}):
        scores = []
        for file in tests:
            answers = {
                each["id"]: each["triples"] for each in lines(folder / "published" / f"{model}_{file.name}")
            }
            said = ([t for t in answers.get(each.id, ()) if len(t) == 3] for each in sentences(file, most))
            scores.append(
                [
                    f1(each.gold, each_said)
                    for each, each_said in zip(sentences(file, most), said, strict=True)
                ]
            )
        report(f"{model} (published)", scores)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("url", nargs="?")
    parser.add_argument("model", nargs="?", default="model")
    parser.add_argument("--sentences", type=int, default=40)
    parser.add_argument("--way", action="append", choices=[*WAYS, *PRODUCT])
    given = parser.parse_args()
    tests = sorted((given.folder / "test").glob("*.jsonl"))
    published(given.folder, tests, given.sentences)
    for way in (given.way or [*WAYS, *PRODUCT]) if given.url else ():
        asyncio.run(ask_all(given.url, given.model, given.folder, tests, given.sentences, way))


if __name__ == "__main__":
    main()
