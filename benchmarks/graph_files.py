"""What 1,000,000 of our statements cost as a file of Turtle and in a store, beside pyoxigraph alone.

The statements are those of extraction: facts, labels, and where they come from, with triple terms. Each way
is a process of its own: CPU seconds, of which those of making the statements are taken off, and the peak of
resident memory. pyoxigraph alone makes the same terms of the same texts. Exits with 1 if one of ours takes
more than twice its CPU time, or 1 GB.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any, Final

import pyoxigraph as ox

from trustgraph_prompt import package_data
from trustgraph_prompt.contract import Grounding
from trustgraph_prompt.documents import Document
from trustgraph_prompt.graph.mapping import Graph, graph_of
from trustgraph_prompt.graph.names import naming
from trustgraph_prompt.graph.provenance import Origin, about_document, passage_iri, provenance
from trustgraph_prompt.graph.statements import Literal, Statement, TripleTerm
from trustgraph_prompt.graph_store import rdf
from trustgraph_prompt.graph_store.rdf import write_rdf
from trustgraph_prompt.graph_store.read_view import read_view
from trustgraph_prompt.graph_store.store import GraphStore
from trustgraph_prompt.grounding import MatchKind
from trustgraph_prompt.prompts import files

STATEMENTS: Final = 1_000_000
MOST_TIMES, MOST_MEGABYTES = 2.0, 1_000
RELATIONSHIPS: Final = 10  # of each answer
CHUNK: Final = 2_000  # characters
CHUNKS: Final = 40  # of each document


def statements() -> Iterator[Statement]:
    return islice(_extracted(), STATEMENTS)


def _extracted() -> Iterator[Statement]:
    named = naming()
    clause = files.read(package_data.templates()).build().prompts["extract-relationships"].graph
    assert clause
    for number in count():
        document = Document(
            f"file-{number}.txt", (f"Document {number}. " + "text " * (CHUNK * CHUNKS // 5))[: CHUNK * CHUNKS]
        )
        yield from about_document(document)
        for chunk in range(CHUNKS):
            start = chunk * CHUNK
            objects = [_relationship(number * CHUNKS + chunk, n) for n in range(RELATIONSHIPS)]
            found = [_found(n * 100) for n in range(RELATIONSHIPS)]
            graph = graph_of(clause, objects, named, tuple(found))
            graph = Graph({**graph.facts, **graph.labels})
            iri, text = passage_iri(document, start, start + CHUNK), document.text[start : start + CHUNK]
            origin = Origin(
                iri, text, "extract-relationships", "1", "extract", "1", None, "m", None, document, start
            )
            yield from graph.facts
            yield from provenance(graph, origin)


def _relationship(answer: int, n: int) -> dict[str, Any]:
    thing = (answer * RELATIONSHIPS + n) * 7 % 50_021
    return {
        "subject": f"Entity {thing}",
        "predicate": f"is related in way {thing % 300}",
        "object": f"Entity {thing + 1}" if n % 3 else f"The text number {answer} {n}",
        "object-entity": n % 3 > 0,
    }


def _found(start: int) -> dict[str, Grounding | None]:
    return {
        f"/{key}": Grounding("text", MatchKind.EXACT, 1.0, ((start + offset, start + offset + 12),))
        for key, offset in (("subject", 0), ("object", 40))
    }


def alone() -> Iterator[ox.Quad]:
    """The quads as a program makes them that only knows pyoxigraph."""

    def term(of: object) -> Any:
        if isinstance(of, Literal):
            datatype = ox.NamedNode(of.datatype) if of.datatype else None
            return ox.Literal(of.value, datatype=datatype)
        if isinstance(of, TripleTerm):
            return ox.Triple(term(of.subject), term(of.predicate), term(of.object))
        return ox.NamedNode(str(of))

    for each in statements():
        graph = ox.NamedNode(each.graph) if each.graph else ox.DefaultGraph()
        yield ox.Quad(term(each.subject), term(each.predicate), term(each.object), graph)


def turtle_alone(folder: Path) -> None:
    ox.serialize((quad.triple for quad in alone()), folder / "graph.ttl", ox.RdfFormat.TURTLE)


def store_alone(folder: Path) -> None:
    store = ox.Store(folder / "store")
    store.bulk_extend(alone())
    store.flush()


def turtle(folder: Path) -> None:
    write_rdf(rdf.quads(statements()), folder / "graph.ttl")


def store(folder: Path) -> None:
    with GraphStore.open(folder / "store") as opened:
        opened.add(statements())


def turtle_through_store(folder: Path) -> None:
    with GraphStore.open(folder / "store") as opened:
        opened.add(statements())
        write_rdf(opened.dataset, folder / "graph.ttl")


def view(folder: Path) -> None:
    """All that a page shows."""
    with GraphStore.open(folder / "store") as opened:
        opened.add(statements())
        read_view(opened)


WAYS: Final[dict[str, Callable[[Path], object]]] = {
    "made only": lambda _: deque(statements(), 0),
    "turtle, pyoxigraph alone": turtle_alone,
    "turtle": turtle,
    "turtle through a store": turtle_through_store,
    "store, pyoxigraph alone": store_alone,
    "store": store,
    "store, and its view": view,
}
BARS: Final = {"turtle": "turtle, pyoxigraph alone", "store": "store, pyoxigraph alone"}


def measured(way: str) -> tuple[float, int, int]:
    """CPU seconds, peak of resident memory in megabytes, megabytes on disk."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, way, folder]
        out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
        size = sum(each.stat().st_size for each in Path(folder).rglob("*") if each.is_file())
        return float(out[0]), int(out[1]) // 1024, size // 2**20


def child(way: str, folder: Path) -> None:
    started = time.process_time()
    WAYS[way](folder)
    seconds = time.process_time() - started
    status = Path("/proc/self/status").read_text()
    print(seconds, next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))


def main() -> int:
    results = {way: measured(way) for way in WAYS}
    made, failed = results["made only"][0], False
    print(f"{STATEMENTS:,} statements: CPU seconds (without {made:.1f} s to make them), memory, disk")
    for way, (seconds, memory, disk) in results.items():
        line = f"  {way:26} {seconds - made:6.1f} s {memory:6,} MB {disk:6,} MB"
        if way in BARS:
            times = (seconds - made) / (results[BARS[way]][0] - made)
            failed = failed or times > MOST_TIMES or memory > MOST_MEGABYTES
            line += (
                f"   {times:.2f} times pyoxigraph alone (bar: {MOST_TIMES:g} times, {MOST_MEGABYTES:,} MB)"
            )
        print(line)
    return int(failed)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        child(sys.argv[1], Path(sys.argv[2]))
    else:
        sys.exit(main())
