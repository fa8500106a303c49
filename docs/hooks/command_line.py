"""Writes the page of the command line from the program itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer.main
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from trustgraph_prompt.cli.app import app
from trustgraph_prompt.cli.lazy_commands import LazyCommand

PAGE = "reference/command-line.md"
INTRODUCTION = """# Command line

Every command with its arguments and options, as `--help` prints them. [Configuration](configuration.md) has
the options by subject, with environment variables and files.
"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page."""
    program: Any = typer.main.get_command(app)
    text = "\n".join(
        [INTRODUCTION, *sections(program, typer.Context(program, info_name="trustgraph-prompt"))]
    )
    files.append(File.generated(config, PAGE, content=text))
    return files


def sections(command: Any, context: Any) -> Iterator[str]:
    """The help of a command, then that of each command below it."""
    yield f"## {context.command_path}\n\n```text\n{command.get_help(context)}\n```\n"
    for name, below in getattr(command, "commands", {}).items():
        below = below.load() if isinstance(below, LazyCommand) else below
        yield from sections(below, typer.Context(below, info_name=name, parent=context))
