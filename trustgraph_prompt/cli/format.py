"""`format`: formats prompt files."""

from __future__ import annotations

from pathlib import Path

import typer

from trustgraph_prompt.cli import output
from trustgraph_prompt.cli.options import argument, option
from trustgraph_prompt.errors import ConfigError

EXAMPLE = "format prompts/ --check"


def command(
    paths: list[Path] = argument("PATH…", "*.prompt files, and folders of them."),
    check: bool = option("--check", "Change nothing; exit with 1 if a file would change.", False),
) -> None:
    """Format prompt files in place.

    Only the layout changes; comments stay. If one of the files cannot be parsed, none is changed.
    """
    from trustgraph_prompt import language
    from trustgraph_prompt.config_files import read_text

    formatted = {}
    files = [file for path in paths for file in _files(path)]
    for file in files:
        source = read_text(file)
        text = language.format(source, where=str(file))
        if text != source:
            formatted[file] = text
    for file, text in formatted.items():
        if not check:
            file.write_bytes(text.encode())
        typer.echo(f"{'would change' if check else 'changed'} {file}")
    output.note(f"{output.counted(len(files) - len(formatted), 'file')} already formatted")
    if check and formatted:
        raise typer.Exit(1)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(path.glob("*.prompt"))
    if not files:
        raise ConfigError(
            "no files to format", where=str(path), found="no *.prompt file", expected="at least one"
        )
    return files
