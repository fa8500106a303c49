"""`graph`: queries, exports and corrects the graph in a store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from trustgraph_prompt.cli import graph_query, graph_resolve, graph_show, options, output
from trustgraph_prompt.cli.lazy_commands import group
from trustgraph_prompt.cli.options import argument, option
from trustgraph_prompt.errors import ConfigError

if TYPE_CHECKING:
    from trustgraph_prompt.graph_store.view import GraphView

_MOST_LISTED = 20

app = group(
    "Query, export and correct the graph in a store, which `extract --store` makes.",
    "graph stats --store graph",
)

app.subcommand(graph_query.EXAMPLE, "query")(graph_query.command)
app.subcommand(graph_show.EXAMPLE, "show")(graph_show.command)


@app.subcommand("graph page --store graph -o graph.html")
def page(
    store: options.StoreOption,
    file: Path = option("--output -o FILE", "The HTML file to write."),
    title: str | None = option(
        "--title TEXT", "The heading; by default the name of the file, if there is one.", None
    ),
    overwrite: bool = option("--overwrite", "Replace the file if it exists.", False),
) -> None:
    """Write the graph as one HTML file to open in a browser: the drawing beside the texts.

    The file contains the graph, the whole texts of its documents, and all that it takes to show them.
    """
    from trustgraph_prompt.graph_store.page import write_page
    from trustgraph_prompt.graph_store.read_view import read_view

    _check_replaceable([file], overwrite)
    with options.graph_store(store) as opened:
        view = read_view(opened, by_rule=True)
    write_page(view, file, title)
    facts = output.counted(len(view.facts), "fact")
    typer.echo(f"{output.counted(len(view.things), 'thing')}, {facts} -> {file}")


app.subcommand(graph_resolve.EXAMPLE, "resolve")(graph_resolve.command)


@app.subcommand("graph stats --store graph")
def stats(store: options.StoreOption, as_json: options.JsonOption = False) -> None:
    """Print how much is in a store: documents, things, facts, and what was refused or truncated."""
    from trustgraph_prompt.graph_store.read_view import read_view

    with options.graph_store(store) as opened:
        counted = _stats(read_view(opened))
    if as_json:
        output.print_json(counted)
        return
    for name, value in counted.items():
        if isinstance(value, int):
            noun, _, rest = name.partition("-")
            noun = noun.removesuffix("s") if value == 1 else noun
            typer.echo(f"{value:>9,} {noun} {rest.replace('-', ' ')}".rstrip())
            continue
        typer.echo(f"{'':10}{name.replace('-', ' ')}:")
        for each, count in [*value.items()][:_MOST_LISTED]:
            output.say(f"{count:>13,} {each}")
        if len(value) > _MOST_LISTED:
            typer.echo(f"{'':13} and {len(value) - _MOST_LISTED:,} more; --json prints all")


def _stats(view: GraphView) -> dict[str, Any]:
    """The counts of a graph, each followed by its parts."""
    return {
        "documents": len(view.documents),
        "things": len(view.things),
        "things-by-type": _counts(
            type for thing in view.things.values() for type in thing.types or ["no type"]
        ),
        "facts": len(view.facts),
        "facts-by-predicate": _counts(fact.predicate for fact in view.facts),
        "facts-by-prompt": _counts(id for fact in view.facts for id in fact.prompts),
        "facts-with-names-found-in-the-text": sum(
            fact.is_looked_up and not (fact.is_weak or fact.is_ungrounded) for fact in view.facts
        ),
        "facts-with-a-name-found-only-in-part": sum(fact.is_weak for fact in view.facts),
        "facts-with-a-name-not-found-in-the-text": sum(fact.is_ungrounded for fact in view.facts),
        "facts-not-looked-up": sum(not fact.is_looked_up for fact in view.facts),
        "refused": len(view.refusals),
        "truncated": len(view.cuts),
    }


def _counts(names: Iterable[str]) -> dict[str, int]:
    return dict(Counter(names).most_common())


@app.subcommand("graph export --store graph graph.ttl")
def export(
    store: options.StoreOption,
    file: Path | None = argument("[FILE]", "A file of RDF: .nq, .trig, .nt, .ttl, .jsonld or .rdf.", None),
    neo4j: Path | None = option("--neo4j DIR", "A folder for the CSV files of Neo4j's import.", None),
    overwrite: bool = option("--overwrite", "Replace files that exist.", False),
) -> None:
    """Write the graph to a file of RDF, or to the files of Neo4j's import.

    N-Quads and TriG hold the graph as it is in the store. N-Triples, Turtle and RDF/XML have no named graphs:
    facts and where they come from are in one graph. JSON-LD has no triple terms: an rdf:Statement takes the
    place of each.
    """
    from trustgraph_prompt.graph_store import neo4j as neo4j_files
    from trustgraph_prompt.graph_store.rdf import file_format, write_rdf
    from trustgraph_prompt.graph_store.read_view import read_view

    if file is None and neo4j is None:
        raise ConfigError("nothing to write to: give FILE or --neo4j DIR", where="graph export")
    written = [] if file is None else [file]
    written += [] if neo4j is None else [neo4j / neo4j_files.NODES, neo4j / neo4j_files.RELATIONSHIPS]
    _check_replaceable(written, overwrite)
    if file is not None:
        file_format(file)
    with options.graph_store(store) as opened:
        if file is not None:
            write_rdf(opened.dataset, file)
            typer.echo(f"{output.counted(len(opened.dataset), 'statement')} -> {file}")
        if neo4j is not None:
            neo4j_files.write_neo4j(read_view(opened), neo4j)
            typer.echo(f"-> {neo4j}; to make a database of it, while Neo4j is stopped:")
            typer.echo(f"  {neo4j_files.import_command(neo4j)}")


@app.subcommand("graph forget --store graph report.pdf")
def forget(
    store: options.StoreOption,
    document: str = argument("DOCUMENT", "The name of a file, or the beginning of a document's hash."),
) -> None:
    """Remove a document from a store, with everything that only this document states."""
    from trustgraph_prompt.graph_store import forget as forgetting

    with options.graph_store(store, read_only=False) as opened:
        found = forgetting.find_document(opened, document)
        gone = forgetting.forget(opened, found.iri)
    what = ", ".join(found.files) or found.iri
    output.say(f"removed {what}: {output.counted(gone, 'statement')}")


def _check_replaceable(files: Iterable[Path], overwrite: bool) -> None:
    for each in files:
        if each.exists() and not (overwrite and each.is_file()):
            raise ConfigError("exists; give --overwrite to replace it, or another name", where=str(each))
