"""`graph query`: evaluates a SPARQL query."""

from __future__ import annotations

import signal
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trustgraph_prompt.cli import options
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.terminal import harmless

if TYPE_CHECKING:
    import pyoxigraph as ox

EXAMPLE = (
    "Example:  trustgraph-prompt graph query --store graph "
    "'SELECT ?name WHERE { ?thing a e:volcano ; rdfs:label ?name }'"
)


_ANY_WIDTH = 100_000  # of a file or a pipe, in characters


class Format(StrEnum):
    """How to print the results."""

    table = "table"
    csv = "csv"
    json = "json"


def command(
    query: Annotated[
        str,
        typer.Argument(
            metavar="SPARQL", help="The query, @FILE for that in a file, or - for standard input."
        ),
    ],
    store: options.StoreOption,
    format: Annotated[
        Format, typer.Option("--format", help="How to print results of SELECT and ASK.")
    ] = Format.table,
) -> None:
    """Evaluate a SPARQL query, and print its results.

    The default graph has the facts and labels, GRAPH <urn:graph:source> where they come from. These prefixes
    need no declaration: rdf, rdfs, owl, xsd, prov, oa, skos, schema, tg, tp, and e for entities. The graph of
    a CONSTRUCT or DESCRIBE is printed as Turtle.
    """
    import pyoxigraph as ox

    from trustgraph_prompt.graph_store.store import PREFIXES

    with options.graph_store(store) as opened:
        # Nothing can cancel a query, so Ctrl-C ends the process at once.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        results = opened.query(_text(query))
        if isinstance(results, ox.QueryTriples):
            if format is not Format.table:
                raise ConfigError(
                    "a graph is printed as Turtle, without --format", where=f"--format {format}"
                )
            text = ox.serialize(results, format=ox.RdfFormat.TURTLE, prefixes=PREFIXES) or b""
            typer.echo(harmless(text.decode().replace("\t", "    ")), nl=False)
        elif format is not Format.table:
            written = {Format.csv: ox.QueryResultsFormat.CSV, Format.json: ox.QueryResultsFormat.JSON}[format]
            lines = (results.serialize(format=written) or b"").decode().split("\r\n")
            typer.echo("\r\n".join(map(harmless, lines)), nl=format is Format.json)
        elif isinstance(results, ox.QueryBoolean):
            typer.echo("yes" if results else "no")
        else:
            _print_table(results)


def _text(query: str) -> str:
    if query != "-" and not query.startswith("@"):
        return query
    try:
        content = sys.stdin.buffer.read() if query == "-" else Path(query[1:]).read_bytes()
        return content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        where = "standard input" if query == "-" else query[1:]
        raise ConfigError(f"cannot be read: {reason}", where=where) from error


def _print_table(results: ox.QuerySolutions) -> None:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE)
    for variable in results.variables:
        table.add_column(variable.value, overflow="fold")
    for solution in results:
        table.add_row(*(Text(harmless(_cell(term))) for term in solution))
    console = Console(width=None if sys.stdout.isatty() else _ANY_WIDTH)
    with console.capture() as printed:
        console.print(table)
    for line in printed.get().removesuffix("\n").split("\n"):
        typer.echo(line.rstrip(" "))


def _cell(term: object) -> str:
    """A term for people: an IRI with its prefix, a literal as its text."""
    import pyoxigraph as ox

    from trustgraph_prompt.graph_store.store import PREFIXES

    if isinstance(term, ox.Literal):
        return term.value
    if isinstance(term, ox.Triple):
        return f"<<( {' '.join(map(_cell, term))} )>>"
    if isinstance(term, ox.NamedNode):
        for prefix, iri in PREFIXES.items():
            if term.value.startswith(iri):
                return f"{prefix}:{term.value.removeprefix(iri)}"
        return f"<{term.value}>"
    return "" if term is None else str(term)
