"""How many statements a second the objects of answers become, on one core. Exits with 1 below the bar.

Each answer has 10 definitions or 10 relationships, as the bundled prompts give them, and no name is cached
at the start. The bar is for facts and labels; the provenance, without evidence, and the messages to the
topics are stated by themselves. Times are CPU time, the median of some rounds.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections import deque
from collections.abc import Callable
from itertools import chain
from typing import Any

from trustgraph_prompt import package_data
from trustgraph_prompt.graph.batches import entity_contexts, triples
from trustgraph_prompt.graph.mapping import Graph, graph_of
from trustgraph_prompt.graph.names import naming
from trustgraph_prompt.graph.provenance import Origin, provenance
from trustgraph_prompt.graph.statements import Iri, Statement
from trustgraph_prompt.prompts import files
from trustgraph_prompt.wire import Chunk, Metadata

BAR = 200_000  # statements a second, without provenance
ANSWERS = 500
ROUNDS = 9
LIMIT = 5_000_000
CHUNK = Chunk(Metadata("urn:chunk:1", "urn:doc:1", "default"), "")
ORIGIN = Origin(Iri("urn:chunk:1"), "", "prompt", "version", "component", "1", 0.0)

PROMPTS = files.read(package_data.templates()).build().prompts


def definitions(answer: int) -> list[dict[str, Any]]:
    return [
        {"entity": f"Entity {answer} {n}", "definition": f"The definition number {n} of answer {answer}."}
        for n in range(10)
    ]


def relationships(answer: int) -> list[dict[str, Any]]:
    return [
        {
            "subject": f"Entity {answer} {n}",
            "predicate": f"is related in way {n}",
            "object": f"Entity {answer} {n + 1}",
            "object-entity": n % 3 > 0,
        }
        for n in range(10)
    ]


ANSWERED = {
    "extract-definitions": [definitions(answer) for answer in range(ANSWERS)],
    "extract-relationships": [relationships(answer) for answer in range(ANSWERS)],
}


def graphs() -> list[Graph]:
    """All answers as graphs, with names that are not cached yet."""
    named = naming()
    return [
        graph_of(clause, objects, named)
        for prompt, answers in ANSWERED.items()
        if (clause := PROMPTS[prompt].graph)
        for objects in answers
    ]


def seconds(work: Callable[[], object]) -> float:
    times = []
    for _ in range(ROUNDS):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return statistics.median(times)


def main() -> int:
    made = graphs()
    plain: list[list[Statement]] = [[*graph.facts, *graph.labels] for graph in made]
    count = sum(map(len, plain))
    reasons = sum(len(provenance(graph, ORIGIN)) for graph in made)

    def encoded() -> None:
        for statements, graph in zip(plain, made, strict=True):
            deque(chain(triples(statements, CHUNK, LIMIT), entity_contexts(graph.contexts, CHUNK, LIMIT)), 0)

    rate = count / seconds(graphs)
    print(f"  objects to statements    {rate:12,.0f} statements/s (bar: {BAR:,})")
    rate_of_provenance = reasons / seconds(lambda: [provenance(graph, ORIGIN) for graph in made])
    print(f"  provenance               {rate_of_provenance:12,.0f} statements/s")
    print(f"  statements to messages   {count / seconds(encoded):12,.0f} statements/s")
    return int(rate < BAR)


if __name__ == "__main__":
    sys.exit(main())
