"""Options that many commands share, and what they name: files, and a graph store."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trustgraph_prompt.cli import output
from trustgraph_prompt.errors import ConfigError

if TYPE_CHECKING:
    from trustgraph_prompt.graph_store.store import GraphStore

StoreOption = Annotated[
    Path, typer.Option("--store", metavar="DIR", help="The folder of a graph store, from `extract --store`.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def typed(option: str) -> bool:
    """Whether an option is on the command line; a value from the environment is a default, not a conflict."""
    return any(word == option or word.startswith(f"{option}=") for word in sys.argv[1:])


def graph_store(path: Path, *, read_only: bool = True) -> GraphStore:
    """Open a graph store that exists, and say so while another process writes to it."""
    from trustgraph_prompt.graph_store.store import GraphStore

    return GraphStore.open(path, read_only=read_only, create=False, waiting=output.note)


def read_text(path: Path) -> str:
    """Return the text of a file. Raises `ConfigError`."""
    from trustgraph_prompt.documents.text import decode

    try:
        return decode(path.read_bytes(), str(path))
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path)) from error


def read_json(path: Path) -> Any:
    """Return the JSON value in a file. Raises `ConfigError`."""
    return as_json(read_text(path), str(path))


def as_json(text: str, where: str) -> Any:
    """Return the JSON value that a text is. Raises `ConfigError`."""
    import orjson

    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"is not JSON: {error}", where=where) from error
