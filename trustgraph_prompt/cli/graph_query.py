"""`graph query`: evaluates a SPARQL query."""

from __future__ import annotations

import signal
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from trustgraph_prompt.cli import options, output
from trustgraph_prompt.cli.child_process import ChildEnded, continue_in_child
from trustgraph_prompt.cli.options import argument, option
from trustgraph_prompt.errors import ConfigError, TrustgraphPromptError
from trustgraph_prompt.terminal import harmless

if TYPE_CHECKING:
    import pyoxigraph as ox

EXAMPLE = "graph query --store graph 'SELECT ?name WHERE { ?thing a e:volcano ; rdfs:label ?name }'"


Format = Literal["table", "csv", "json"]


def command(
    query: str = argument("SPARQL", "The query, @FILE for that in a file, or - for standard input."),
    *,
    store: options.StoreOption,
    format: Format = option("--format", "How to print results of SELECT and ASK.", "table"),
    max_seconds: int = option("--max-seconds N", "How long the query may take.", 60, min=1, max=10**8),
    max_results: int = option("--max-results N", "How many results to print.", 10_000, min=1, max=10**9),
) -> None:
    """Evaluate a SPARQL query, and print its results.

    The default graph has the facts and labels, GRAPH <urn:graph:source> where they come from. These prefixes
    need no declaration: rdf, rdfs, owl, xsd, prov, oa, skos, schema, tg, tp, and e for entities. The graph of
    a CONSTRUCT or DESCRIBE is printed as Turtle. Exits with 1 if there are more results than are printed, or
    if the query takes too long.
    """
    text = _text(query)
    try:
        continue_in_child()  # nothing can cancel a query, and a deep one overflows the stack
    except ChildEnded as ended:
        if ended.number == signal.SIGALRM:
            limit = output.counted(max_seconds, "second")
            why = f"takes longer than {limit}; restrict it, or give --max-seconds"
            raise TrustgraphPromptError(f"query: {why}") from None
        if ended.number in (signal.SIGSEGV, signal.SIGBUS):
            raise ConfigError("nested too deep", where="query") from None
        raise TrustgraphPromptError(f"query: ended by a signal: {ended}") from ended
    _evaluate(text, store, format, max_seconds, max_results)


def _evaluate(query: str, store: Path, format: Format, max_seconds: int, max_results: int) -> None:
    import pyoxigraph as ox

    with options.graph_store(store) as opened:
        signal.setitimer(signal.ITIMER_REAL, max_seconds)
        results = opened.query(query)
        if isinstance(results, ox.QueryTriples) and format != "table":
            raise ConfigError("a graph is printed as Turtle, without --format", where=f"--format {format}")
        found = [] if isinstance(results, ox.QueryBoolean) else [*islice(results, max_results + 1)]
        signal.setitimer(signal.ITIMER_REAL, 0)
        _print(results, found[:max_results], format)
    if len(found) > max_results:
        more = f"more than {max_results:,} results, of which these are printed"
        raise TrustgraphPromptError(f"query: {more}; restrict it, or give --max-results")


def _print(
    results: ox.QuerySolutions | ox.QueryBoolean | ox.QueryTriples, found: list[Any], format: Format
) -> None:
    import pyoxigraph as ox

    from trustgraph_prompt.cli import query_results
    from trustgraph_prompt.graph.vocabulary import PREFIXES

    if isinstance(results, ox.QueryTriples):
        text = ox.serialize(found, format=ox.RdfFormat.TURTLE, prefixes=PREFIXES) or b""
        typer.echo(harmless(text.decode().replace("\t", "    ")), nl=False)
    elif isinstance(results, ox.QuerySolutions):
        printing = {"table": query_results.print_table, "csv": query_results.print_csv}
        names = [variable.value for variable in results.variables]
        printing.get(format, query_results.print_json)(names, found)
    elif format == "table":
        typer.echo("yes" if results else "no")
    else:
        written = {"csv": ox.QueryResultsFormat.CSV, "json": ox.QueryResultsFormat.JSON}[format]
        typer.echo((results.serialize(None, written) or b"").decode())


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
