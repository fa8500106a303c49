"""How many of the classes that a reader would use for a passage are in the part that is chosen for it.

The ontology is Brick 1.2, the file brickschema/ontologies/1.2/Brick.ttl of the Python package brickschema
0.8.0; its path is the argument. The whole ontology would have all of these classes. Classes that Brick does
not have are not counted. Exits with 1 if fewer than 90 % are chosen within the limit that flows have.
"""

from __future__ import annotations

import sys
import time
from itertools import groupby
from pathlib import Path

from trustgraph_prompt.graph.ontology_choice import MOST_CHOSEN, OntologyIndex
from trustgraph_prompt.graph.ontology_files import parse_ontology

BAR = 0.9
LIMITS = (40, 80, MOST_CHOSEN, 320)
PASSAGES = Path(__file__).parent / "brick_passages.txt"


def passages() -> list[tuple[str, list[set[str]]]]:
    """The texts, and for each thing in them the classes of which one is needed."""
    lines = [line for line in PASSAGES.read_text().splitlines() if line and not line.startswith("#")]
    blocks = [list(block) for _, block in groupby(lines, key=lambda line: line.startswith("- "))]
    return [
        ("\n".join(text), [set(line[2:].split()) for line in needs])
        for text, needs in zip(blocks[::2], blocks[1::2], strict=True)
    ]


def main() -> int:
    if len(sys.argv) < 2:
        print("  skipped: give it the path of Brick.ttl")
        return 0
    ontology = parse_ontology(path := Path(sys.argv[1]), path.read_text())
    index = OntologyIndex(ontology)
    known = [(text, [need for need in needs if need & ontology.classes.keys()]) for text, needs in passages()]
    wanted = sum(len(needs) for _, needs in known)
    shares = {}
    for limit in LIMITS:
        started = time.process_time()
        chosen = [(index.choose(text, limit).classes.keys(), needs) for text, needs in known]
        seconds = (time.process_time() - started) / len(known)
        missed = [" ".join(sorted(need)) for ids, needs in chosen for need in needs if not need & ids]
        shares[limit] = 1 - len(missed) / wanted
        print(
            f"  limit {limit:3}: {wanted - len(missed)} of {wanted} ({shares[limit]:.0%}), "
            f"{seconds * 1000:.1f} ms a passage; missed: {'; '.join(missed)}"
        )
    return int(shares[MOST_CHOSEN] < BAR)


if __name__ == "__main__":
    sys.exit(main())
