"""Seconds of a processor and memory that ontologies take: to be read, indexed and chosen from.

python benchmarks/ontology_size.py [TERMS ...]
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support import public_ontologies as made
from trustgraph_prompt.graph.ontology_choice import OntologyIndex
from trustgraph_prompt.graph.ontology_files import load
from trustgraph_prompt.process_memory import data_in_use

SIZES = (10_000, 50_000, 100_000)
TEXT = "The legal person 17 is kept in the house; the positive regulation of process 40 is a thing. " * 20


def trustgraph(classes: int) -> str:
    """TrustGraph's own format."""
    found = {
        f"c/Thing{number}": {
            "rdfs:label": [
                {"value": f"thing {number}", "lang": "en"},
                {"value": f"Ding {number}", "lang": "de"},
            ],
            "rdfs:comment": f"Any thing that is kept in place {number} of a house.",
            "rdfs:subClassOf": f"c/Thing{number // 2 or 1}",
        }
        for number in range(classes)
    }
    return json.dumps({"classes": found})


FORMS: dict[str, Callable[[int], str]] = {
    ".obo": made.gene_ontology,
    ".ttl": lambda size: made.turtle(size * 10 // 11),
    ".owl": lambda size: made.fibo(min(size, 95_000)),  # of 64 MB
    ".jsonld": made.schema_org,
    ".json": trustgraph,
}


def measure(file: Path) -> None:
    """Print what one file takes, in this process."""
    before, started = data_in_use() or 0, time.process_time()
    ontology = load([file])
    read = time.process_time()
    index = OntologyIndex(ontology)
    assert index.vocabulary
    indexed = time.process_time()
    for _ in range(10):
        index.choose(TEXT)
    chosen = (time.process_time() - indexed) / 10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    held = ((data_in_use() or 0) - before) / 1_048_576
    size = file.stat().st_size / 1_048_576
    print(
        f"{file.suffix:8}{len(ontology):8,} terms {size:6.1f} MB: read {read - started:5.1f} s, "
        f"index {indexed - read:5.1f} s, choose {chosen * 1000:5.0f} ms, peak {peak:6,.0f} MB, "
        f"kept {held:6,.0f} MB"
    )


def main() -> None:
    """Measure each size and format in a process of its own."""
    sizes = [int(size) for size in sys.argv[1:]] or SIZES
    with TemporaryDirectory() as folder:
        for suffix, make in FORMS.items():
            for size in sizes:
                file = Path(folder, f"o{size}{suffix}")
                file.write_text(make(size - 10), encoding="utf-8")
                code = f"from benchmarks.ontology_size import measure, Path; measure(Path({str(file)!r}))"
                subprocess.run([sys.executable, "-c", code], check=True)


if __name__ == "__main__":
    main()
