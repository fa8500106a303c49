"""The commands, put together."""

from __future__ import annotations

from typing import Annotated

import typer

import trustgraph_prompt
from trustgraph_prompt.cli import ask, check, complete, config, dead, extract, read, render, run, topics
from trustgraph_prompt.cli.commands import Command, Group

app = typer.Typer(
    cls=Group,
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
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Holds the options that come before a command."""


for name, module in {
    "extract": extract,
    "ask": ask,
    "read": read,
    "render": render,
    "check": check,
    "run": run,
    "complete": complete,
}.items():
    app.command(name, cls=Command, epilog=module.EXAMPLE)(module.command)
app.add_typer(config.app, name="config")
app.add_typer(dead.app, name="dead")
app.add_typer(topics.app, name="topics")
