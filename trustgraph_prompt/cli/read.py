"""`read`: read an answer that is already there, without asking anybody."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from trustgraph_prompt.cli import options, output
from trustgraph_prompt.errors import ConfigError

EXAMPLE = "Example:  trustgraph-prompt read answer.txt --format jsonl --schema definition.schema.json"


class Format(StrEnum):
    """What an answer is to be."""

    json = "json"
    jsonl = "jsonl"
    text = "text"


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE|-", help="The answer; - for standard input.")],
    format: Annotated[Format, typer.Option(help="What was asked for: one JSON value, or one object a line.")],
    schema: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A JSON Schema for the value; with jsonl, for each object."),
    ] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Read a model's answer, fenced, chatty or cut as it may be, and print what in it is valid.

    What was refused, and why, goes to standard error. With --json all of it is printed, as one value.
    """
    from trustgraph_prompt.contract import Contract
    from trustgraph_prompt.reader import read

    rules = None if schema is None else options.read_json(schema)
    try:
        contract = Contract.from_schema(rules, format=format.value)
    except ConfigError as error:
        raise error.at(str(schema)) from error
    if str(file) == "-":
        text = options.decode(sys.stdin.buffer.read(), "standard input")
    else:
        text = options.read_text(file)
    output.print_outcome(read(text, contract), as_json=as_json)
