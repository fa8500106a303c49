"""`format`: files of the schema language, laid out in one way."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trustgraph_prompt.cli import output
from trustgraph_prompt.errors import ConfigError

EXAMPLE = "Example:  trustgraph-prompt format prompts/ --check"


def command(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH…", help="Files *.prompt, and folders of them.")
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; end with 1 where something would change.")
    ] = False,
) -> None:
    """Lay out prompt files in the one layout; what they say stays the same, and so do their comments.

    All of them are read before the first is written: where one cannot be read, none is changed.
    """
    from trustgraph_prompt import language
    from trustgraph_prompt.config_files import read_text

    laid_out = {}
    files = [file for path in paths for file in _files(path)]
    for file in files:
        source = read_text(file)
        formatted = language.format(source, where=str(file))
        if formatted != source:
            laid_out[file] = formatted
    for file, text in laid_out.items():
        if not check:
            file.write_bytes(text.encode())
        typer.echo(f"{'would change' if check else 'changed'} {file}")
    output.note(f"{output.counted(len(files) - len(laid_out), 'file')} in the one layout already")
    if check and laid_out:
        raise typer.Exit(1)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(path.glob("*.prompt"))
    if not files:
        raise ConfigError(
            "nothing to lay out here", where=str(path), found="no *.prompt file", expected="some"
        )
    return files
