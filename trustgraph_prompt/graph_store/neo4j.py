"""Writes a graph as files that `neo4j-admin database import` reads."""

from __future__ import annotations

import csv
import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from trustgraph_prompt.errors import StoreError
from trustgraph_prompt.graph_store.view import Fact, GraphView
from trustgraph_prompt.replaced_file import replaced

Row = Mapping[str, str | Sequence[str]]
"""Cells by column; a list has several items."""

NODES, RELATIONSHIPS = "nodes.csv", "relationships.csv"

_DELIMITER, _INSTEAD = "|", "\N{BROKEN BAR}"  # of the items of a list; no item can contain it

_MOST_COLUMNS = 100
_OTHERS: Final = "otherFacts:string[]"
_DOUBTFUL: Final = "doubtfulFacts:string[]"
_NODE: Final = ("iri:ID", "name", "names:string[]", "iris:string[]", ":LABEL", _OTHERS, _DOUBTFUL)
_PASSAGES: Final = ("documents:string[]", "starts:long[]", "ends:long[]", "pages:long[]", "headings:string[]")
_RELATIONSHIP: Final = (
    *(":START_ID", ":END_ID", ":TYPE", "prompts:string[]", *_PASSAGES, "quotes:string[]", "doubt"),
)


def import_command(directory: Path) -> str:
    """The command to type: it makes the default database of the files, while the server does not run."""
    nodes, relationships = shlex.quote(str(directory / NODES)), shlex.quote(str(directory / RELATIONSHIPS))
    return (
        f"neo4j-admin database import full --nodes={nodes} --relationships={relationships} "
        f"--array-delimiter='{_DELIMITER}' --multiline-fields=true neo4j"
    )


def write_neo4j(view: GraphView, directory: Path) -> None:
    """Write `nodes.csv` and `relationships.csv` into a directory, over files of that name.

    Things are nodes with their types as labels. Their texts are lists, one property for each predicate; a
    name is made of letters, digits and `_`. Beyond the 100 most used predicates, texts are in `otherFacts`.
    Relations have the passages that state them as lists of the same length, with 0 for an unknown page. The
    `doubt` of a relation is `ungrounded` or `weak`; the `doubtfulFacts` of a node are those of its texts.
    Documents are nodes as well. Raises `StoreError`.
    """
    columns = _columns(view)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as cause:
        raise StoreError(f"{directory}: cannot be made: {cause.strerror}") from cause
    _write(directory / NODES, [*_NODE, *dict.fromkeys(columns.values())], _nodes(view, columns))
    relations = (_relationship(view, each) for each in view.facts if each.is_relation)
    _write(directory / RELATIONSHIPS, _RELATIONSHIP, relations)


def _columns(view: GraphView) -> dict[str, str]:
    """The columns of the most used predicates of texts."""
    taken = {column.partition(":")[0] for column in _NODE}
    used = Counter(fact.predicate for fact in view.facts if not fact.is_relation)
    columns = {}
    for predicate, _ in used.most_common(_MOST_COLUMNS):
        name = re.sub(r"\W+", "_", predicate).strip("_") or "property"
        columns[predicate] = f"{name}_:string[]" if name in taken else f"{name}:string[]"
    return columns


def _nodes(view: GraphView, columns: Mapping[str, str]) -> Iterator[Row]:
    texts: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for fact in view.facts:
        if fact.is_relation:
            continue
        if fact.predicate in columns:
            texts[fact.subject][columns[fact.predicate]].append(fact.object)
        else:
            texts[fact.subject][_OTHERS].append(f"{fact.predicate}: {fact.object}")
        if doubt := _doubt(fact):
            texts[fact.subject][_DOUBTFUL].append(f"{doubt}: {fact.predicate}: {fact.object}")
    for thing in view.things.values():
        labels = ["Thing", *filter(None, thing.types)]
        cells = (thing.iri, thing.name, thing.names, thing.iris, labels)
        yield {**dict(zip(_NODE, cells, strict=False)), **texts[thing.iri]}
    for document in view.documents.values():
        cells = (document.iri, document.name, document.files, (document.iri,), ["Document"])
        yield dict(zip(_NODE, cells, strict=False))


def _relationship(view: GraphView, fact: Fact) -> Row:
    passages = fact.passages
    cells = (
        fact.subject,
        fact.object,
        fact.predicate,
        fact.prompts,
        [each.document for each in passages],
        [str(each.start) for each in passages],
        [str(each.end) for each in passages],
        [str(each.page or 0) for each in passages],
        [each.heading or "" for each in passages],
        [view.documents[each.document].text[each.start : each.end] for each in passages],
        _doubt(fact),
    )
    return dict(zip(_RELATIONSHIP, cells, strict=True))


def _doubt(fact: Fact) -> str:
    return "ungrounded" if fact.is_ungrounded else "weak" if fact.is_weak else ""


def _cell(value: str | Sequence[str]) -> str:
    if not isinstance(value, str):
        value = _DELIMITER.join(each.replace(_DELIMITER, _INSTEAD) for each in value)
    return value.replace("\0", "\N{REPLACEMENT CHARACTER}")


def _write(path: Path, header: Sequence[str], rows: Iterable[Row]) -> None:
    with replaced(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, header, lineterminator="\n")
        writer.writeheader()
        writer.writerows({column: _cell(value) for column, value in row.items()} for row in rows)
