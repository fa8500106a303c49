"""The program: its commands and global options."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

import trustgraph_prompt
from trustgraph_prompt.cli.lazy_commands import Group, LazyCommand

COMMANDS: Final = {
    "extract": "Run prompts on text files and write the valid objects as JSON lines.",
    "eval": "Score the answers of prompts against objects that should come.",
    "graph": "Query, export and correct the graph in a store.",
    "ask": "Send one prompt to the model and print the answer.",
    "read": "Parse a saved answer of a model and print what in it is valid.",
    "render": "Render a prompt with the given terms and print it.",
    "check": "Validate flows, prompts, exports, gold files and recordings, and test the examples of prompts.",
    "format": "Format prompt files in place.",
    "run": "Run a worker that serves prompt requests from the topics of flows.",
    "complete": "Run a worker that serves TrustGraph's text-completion topics.",
    "send": "Send a request to the workers of a flow and print the response, or send them documents.",
    "top": "Show what all workers behind some addresses do, in the terminal.",
    "config": "Publish, list and watch the prompts on the config topic.",
    "dead": "List, show, replay and discard dead letters: requests that could not be served.",
    "answers": "List answers without objects, each with the reason, and show what an answer got refused.",
    "topics": "Check and create the namespaces, topics and subscriptions that workers need on Pulsar.",
}
"""One line of help for each command; a module of the same name implements it."""


class Program(Group):
    """Lists all commands without importing them, which takes a second."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, help in COMMANDS.items():
            self.add_command(LazyCommand(name, short_help=help))


app = typer.Typer(
    cls=Program,
    help="Call language models, parse their answers, and return validated, typed objects.",
    epilog="Exit codes: 0 success, 1 failure, 2 wrong usage or configuration, "
    "3 the limit of cost is reached, 130 interrupted.\n\n"
    "Example:  trustgraph-prompt extract report.txt --base-url http://localhost:11434/v1 --model qwen3",
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
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Declare the options that come before a command."""
