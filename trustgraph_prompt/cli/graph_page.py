"""`graph page`: writes the page of a graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trustgraph_prompt.cli import options, output
from trustgraph_prompt.cli.options import option
from trustgraph_prompt.errors import ConfigError

EXAMPLE = "graph page --store graph -o graph.html"


def command(
    store: options.StoreOption,
    file: Annotated[Path, option("--output -o FILE", "The HTML file to write.")],
    title: Annotated[
        str | None, option("--title TEXT", "The heading; by default the name of the file, if there is one.")
    ] = None,
    overwrite: Annotated[bool, option("--overwrite", "Replace the file if it exists.")] = False,
) -> None:
    """Write the graph as one HTML file to open in a browser: the drawing beside the texts.

    The file contains the graph, the whole texts of its documents, and all that it takes to show them.
    """
    from trustgraph_prompt.graph_store.page import write_page
    from trustgraph_prompt.graph_store.read_view import read_view

    if file.exists() and not (overwrite and file.is_file()):
        raise ConfigError("exists; give --overwrite to replace it, or another name", where=str(file))
    with options.graph_store(store) as opened:
        view = read_view(opened, by_rule=True)
    write_page(view, file, title)
    facts = output.counted(len(view.facts), "fact")
    typer.echo(f"{output.counted(len(view.things), 'thing')}, {facts} -> {file}")
