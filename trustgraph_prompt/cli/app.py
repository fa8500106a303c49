"""The commands, put together."""

from __future__ import annotations

from typing import Annotated

import typer

import trustgraph_prompt
from trustgraph_prompt.cli import ask, check, complete, config, extract, read, render, run

app = typer.Typer(
    help="Asks language models, reads their answers however they come, and gives typed, validated objects.",
    epilog="Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 130 interrupted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"trustgraph-prompt {trustgraph_prompt.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", metavar="", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Holds the options that come before a command."""


app.command("extract", epilog=extract.EXAMPLE)(extract.command)
app.command("ask", epilog=ask.EXAMPLE)(ask.command)
app.command("read", epilog=read.EXAMPLE)(read.command)
app.command("render", epilog=render.EXAMPLE)(render.command)
app.command("check", epilog=check.EXAMPLE)(check.command)
app.command("run", epilog=run.EXAMPLE)(run.command)
app.command("complete", epilog=complete.EXAMPLE)(complete.command)
app.add_typer(config.app, name="config")
