"""The commands, put together."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

import trustgraph_prompt
from trustgraph_prompt.cli.lazy_commands import Group, LazyCommand

COMMANDS: Final = {
    "extract": "Ask prompts about text files, and write what is valid to OUT.jsonl.",
    "ask": "Ask one prompt and print the answer.",
    "read": "Read a model's answer and print what in it is valid.",
    "render": "Print the texts that a prompt makes of its terms.",
    "check": "Check flows, prompts and workspace exports, and try examples.",
    "format": "Lay out prompt files in one way.",
    "run": "Serve prompt requests from the topics of flows until SIGTERM.",
    "complete": "Serve TrustGraph's text-completion topics until SIGTERM.",
    "config": "The prompts on the config topic, which workers follow.",
    "dead": "Requests that could not be served, each with its reason.",
    "answers": "What came of requests: which answers gave nothing, and why.",
    "topics": "What workers need on a Pulsar, looked at and prepared.",
}
"""The commands as a list shows them; each has a module of its name."""


class Program(Group):
    """All commands, each loaded when it is called: a list of them takes a moment, not a second."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, help in COMMANDS.items():
            self.add_command(LazyCommand(name, short_help=help))


app = typer.Typer(
    cls=Program,
    help="Asks language models, reads their answers however they come, and gives typed, validated objects.",
    epilog="Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 130 interrupted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
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
