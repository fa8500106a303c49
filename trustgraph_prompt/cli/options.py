"""How options are declared, and those that many commands share, with what they name: files, a graph store."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self, dataclass_transform

import typer

from trustgraph_prompt.errors import ConfigError

if TYPE_CHECKING:
    from trustgraph_prompt.graph_store.store import GraphStore


@dataclass_transform(kw_only_default=True, frozen_default=True)
class OptionGroup:
    """Options that several commands share: annotated attributes, each with its default.

    Not dataclasses, because each of these would take a millisecond of every start.
    """

    def __init__(self, **given: Any) -> None:
        self.__dict__.update(given)

    def but(self, **changed: Any) -> Self:
        """Return the same options with some of them changed."""
        return type(self)(**{**self.__dict__, **changed})


def option(usage: str, help: str, default: Any = ..., **more: Any) -> Any:
    """Declare an option. The usage has its names, and then what stands for its value in `--help`."""
    words = usage.split()
    names = [word for word in words if word.startswith("-")]
    return typer.Option(default, *names, metavar=" ".join(words[len(names) :]) or None, help=help, **more)


def argument(metavar: str, help: str, default: Any = ..., **more: Any) -> Any:
    """Declare an argument."""
    return typer.Argument(default, metavar=metavar, help=help, **more)


StoreOption = Annotated[Path, option("--store DIR", "The folder of a graph store, from `extract --store`.")]
JsonOption = Annotated[bool, option("--json", "Print JSON, for programs.")]


def typed(option: str) -> bool:
    """Whether an option is on the command line; a value from the environment is a default, not a conflict."""
    return any(word == option or word.startswith(f"{option}=") for word in sys.argv[1:])


def graph_store(path: Path, *, read_only: bool = True) -> GraphStore:
    """Open a graph store that exists, and say so while another process writes to it."""
    from trustgraph_prompt.cli import output
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
