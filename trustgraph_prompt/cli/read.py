"""`read`: read an answer that is already there, without asking anybody."""

from __future__ import annotations

import codecs
import re
import sys
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trustgraph_prompt.cli import options, output
from trustgraph_prompt.errors import ConfigError

if TYPE_CHECKING:
    from trustgraph_prompt.contract import Contract
    from trustgraph_prompt.reader import Outcome

EXAMPLE = (
    "Example:  trustgraph-prompt read answer.txt --format jsonl --schema definition.schema.json --explain"
)

CHUNK = 65_536  # bytes at most

_NO_UTF8 = re.compile("[\udc80-\udcff]")  # what surrogateescape makes of bytes


class Format(StrEnum):
    """What an answer is to be."""

    json = "json"
    jsonl = "jsonl"
    text = "text"


def command(
    file: Annotated[
        Path, typer.Argument(metavar="FILE|-", help="The answer; - for standard input.", show_default=False)
    ],
    format: Annotated[Format, typer.Option(help="What was asked for: one JSON value, objects, or any text.")],
    schema: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A JSON Schema for the value; with jsonl, for each object."),
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Mend broken JSON where it is plain what was meant.")
    ] = False,
    stream: Annotated[
        bool, typer.Option("--stream", help="Print each object as soon as it is complete.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the place of everything there is to say.")
    ] = False,
    as_json: options.JsonOption = False,
) -> None:
    """Read a model's answer, fenced, chatty, partly broken or cut, and print what in it is valid.

    Broken JSON is refused; with --repair it is mended where that can be done.
    What was refused, why and where goes to standard error, and so does where the answer was cut; with
    --explain, the lines too. With --json all of it is printed, as one value. Exits with 1 where there is
    nothing to use.
    """
    if as_json and stream:
        raise ConfigError("prints objects as they come, and --json one value at the end", where="--stream")
    from trustgraph_prompt.cli.read_report import ReadReport
    from trustgraph_prompt.reader import read

    contract = _contract(format, schema, repair)
    name = "<stdin>" if str(file) == "-" else str(file)
    chunks = _chunks(file, name)
    outcome = _read_as_it_comes(chunks, contract) if stream else read("".join(chunks), contract)
    report = ReadReport(name, outcome)
    if as_json:
        output.print_json(report.as_json())
    else:
        if not (stream and format is Format.jsonl):
            output.print_value(outcome)
        for line in report.lines(at_length=explain):
            typer.echo(line, err=True)  # whose colours are ours
        if format is not Format.text and (not outcome.ok or outcome.rejected):
            _hint(outcome, format, schema, repair)
    if not outcome.ok:
        raise typer.Exit(1)


def _contract(format: Format, schema: Path | None, repair: bool) -> Contract:
    from trustgraph_prompt.contract import Contract

    rules = None if schema is None else options.read_json(schema)
    try:
        return Contract.from_schema(rules, format=format.value, repair=repair)
    except ConfigError as error:
        raise error.at(str(schema)) from error


def _read_as_it_comes(chunks: Iterable[str], contract: Contract) -> Outcome:
    """Print the objects of the chunks as they come."""
    from trustgraph_prompt.reader import StreamReader

    reader = StreamReader(contract)
    given: list[Any] = []
    for chunk in chunks:
        for value in reader.feed(chunk):
            output.print_object(value)
            given.append(value)
    outcome = reader.close()
    for value in outcome.retracted:
        if value in given:
            given.remove(value)
    if contract.format == "jsonl":
        for value in outcome.objects[len(given) :]:  # what only the end of the text has told
            output.print_object(value)
    return outcome


def _hint(outcome: Outcome, format: Format, schema: Path | None, repair: bool) -> None:
    """Say which other options would have read more."""
    from trustgraph_prompt.reader import read

    others = {} if repair else {"--repair": _contract(format, schema, True)}
    if not outcome.ok:
        other = Format.json if format is Format.jsonl else Format.jsonl
        others[f"--format {other}"] = _contract(other, schema, repair)
    for option, contract in others.items():
        more = read(outcome.calls[-1].text, contract)
        if more.ok and len(more.objects) > len(outcome.objects):
            what = output.counted(len(more.objects), "object" if contract.many else "value")
            output.note(f"hint: {option} would read {what}")


def _chunks(file: Path, name: str) -> Iterator[str]:
    """The text of a file, or of standard input, as it comes; what is no UTF-8 reads as U+FFFD."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape")
    replaced = 0
    for data in _bytes(file, name):
        chunk, wrong = _NO_UTF8.subn("\N{REPLACEMENT CHARACTER}", decoder.decode(data, final=not data))
        replaced += wrong
        yield chunk
    if replaced:
        count = output.counted(replaced, "byte")
        output.note(f"warning: {name} is not UTF-8: {count} read as \N{REPLACEMENT CHARACTER}")


def _bytes(file: Path, name: str) -> Iterator[bytes]:
    """What is in a file, or on standard input, as it comes; at last nothing."""
    is_input = str(file) == "-"
    try:
        with open(sys.stdin.fileno() if is_input else file, "rb", closefd=not is_input) as stream:
            while data := stream.read1(CHUNK):
                yield data
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=name) from error
    yield b""
