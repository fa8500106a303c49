"""Prints the results of a SPARQL query as a table, and in the standard formats of SPARQL results."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Sequence
from typing import Any

import pyoxigraph as ox
import typer

from trustgraph_prompt.cli import output
from trustgraph_prompt.graph import vocabulary as v
from trustgraph_prompt.terminal import harmless

_ANY_WIDTH = 100_000  # of a file or a pipe, in characters

_STRING = ox.NamedNode(v.XSD + "string")

Row = Sequence[ox.NamedNode | ox.BlankNode | ox.Literal | ox.Triple | None]


def print_table(names: Sequence[str], rows: Sequence[Row]) -> None:
    """Print a table, with the prefixes of IRIs."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE)
    for name in names:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(harmless(_cell(term))) for term in row))
    console = Console(width=None if sys.stdout.isatty() else _ANY_WIDTH)
    with console.capture() as printed:
        console.print(table)
    for line in printed.get().removesuffix("\n").split("\n"):
        typer.echo(line.rstrip(" "))


def print_csv(names: Sequence[str], rows: Sequence[Row]) -> None:
    """Print SPARQL 1.1 Query Results CSV; on a terminal without what a terminal obeys."""
    text = io.StringIO()
    written = csv.writer(text, lineterminator="\n" if sys.stdout.isatty() else "\r\n")
    written.writerows([names, *(map(_plain, row) for row in rows)])
    shown = harmless(text.getvalue()) if sys.stdout.isatty() else text.getvalue()
    sys.stdout.flush()
    sys.stdout.buffer.write(shown.encode())


def print_json(names: Sequence[str], rows: Sequence[Row]) -> None:
    """Print SPARQL 1.1 Query Results JSON."""
    bindings = [
        {name: _json(term) for name, term in zip(names, row, strict=True) if term is not None} for row in rows
    ]
    typer.echo(output.json_text({"head": {"vars": names}, "results": {"bindings": bindings}}))


def _plain(term: object) -> str:
    if isinstance(term, ox.Triple):
        return " ".join(map(_plain, term))
    if isinstance(term, ox.NamedNode | ox.Literal):
        return term.value
    return "" if term is None else str(term)


def _json(term: object) -> dict[str, Any]:
    if isinstance(term, ox.Triple):
        parts = zip(("subject", "predicate", "object"), term, strict=True)
        return {"type": "triple", "value": {name: _json(part) for name, part in parts}}
    if isinstance(term, ox.Literal):
        return {"type": "literal", "value": term.value, **_kind(term)}
    assert isinstance(term, ox.NamedNode | ox.BlankNode)
    return {"type": "uri" if isinstance(term, ox.NamedNode) else "bnode", "value": term.value}


def _kind(literal: ox.Literal) -> dict[str, str]:
    if literal.language:
        direction = {"its:dir": str(literal.direction)} if literal.direction else {}
        return {"xml:lang": literal.language, **direction}
    return {} if literal.datatype == _STRING else {"datatype": literal.datatype.value}


def _cell(term: object) -> str:
    """A term for people: an IRI with its prefix, a literal as its text."""
    if isinstance(term, ox.Triple):
        return f"<<( {' '.join(map(_cell, term))} )>>"
    if isinstance(term, ox.NamedNode):
        for prefix, iri in v.PREFIXES.items():
            if term.value.startswith(iri):
                return f"{prefix}:{term.value.removeprefix(iri)}"
        return f"<{term.value}>"
    return _plain(term)
