"""`read`: parses a saved answer, without calling a model."""

from __future__ import annotations

import codecs
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from trustgraph_prompt.cli import options, output
from trustgraph_prompt.cli.options import argument, option
from trustgraph_prompt.errors import ConfigError

if TYPE_CHECKING:
    from trustgraph_prompt.contract import Contract
    from trustgraph_prompt.reader import Outcome

EXAMPLE = "read answer.txt --format jsonl --schema definition.schema.json --explain"

CHUNK = 65_536
"""Maximum number of bytes read at a time."""

_NOT_UTF8 = re.compile("[\udc80-\udcff]")  # `surrogateescape` maps undecodable bytes to these


Format = Literal["json", "jsonl", "text"]


def command(
    file: Path = argument("FILE|-", "The file of the answer; - for standard input.", show_default=False),
    format: Format = option(
        "--format", "What was asked for: one JSON value (json), objects (jsonl) or any text (text)."
    ),
    schema: Path | None = option(
        "--schema FILE",
        "A JSON Schema that the value must satisfy; with jsonl, each object. Default: any JSON.",
        None,
    ),
    repair: bool = option("--repair", "Repair broken JSON if its meaning is clear.", False),
    stream: bool = option("--stream", "Print each object as soon as it is complete.", False),
    explain: bool = option(
        "--explain",
        "Show the line of each remark, with a caret under the position, and the line of the schema "
        "that a refused value breaks.",
        False,
    ),
    as_json: options.JsonOption = False,
) -> None:
    """Parse a saved answer of a model and print what in it is valid.

    The answer may be fenced, mixed with prose, partly broken or truncated. Broken JSON is rejected unless
    --repair can repair it. Rejected values are reported on standard error, with reason and position, and so
    is truncation; --explain shows the lines, too. With --json, everything is printed as one value. Exits with
    1 if there is nothing usable.
    """
    if as_json and stream:
        raise ConfigError(
            "cannot be combined with --json, which prints one value at the end", where="--stream"
        )
    from trustgraph_prompt.cli.read_report import AnswerReport
    from trustgraph_prompt.contract.rule_in_source import SchemaFile
    from trustgraph_prompt.reader import read

    contract = _contract(format, schema, repair)
    name = "<stdin>" if str(file) == "-" else str(file)
    chunks = _chunks(file, name)
    outcome = _read_stream(chunks, contract) if stream else read("".join(chunks), contract)
    written = None if schema is None else SchemaFile(str(schema), options.read_text(schema))
    report = AnswerReport(name, outcome, written)
    if as_json:
        output.print_json(report.as_json())
    else:
        if not (stream and format == "jsonl"):
            output.print_value(outcome)
        for line in report.lines(at_length=explain):
            typer.echo(line, err=True)  # already escaped, and may be coloured
        if format != "text" and (not outcome.ok or outcome.rejected):
            _hint(outcome, format, schema, repair)
    if not outcome.ok:
        raise typer.Exit(1)


def _contract(format: Format, schema: Path | None, repair: bool) -> Contract:
    from trustgraph_prompt.contract import Contract

    rules = None if schema is None else options.read_json(schema)
    try:
        return Contract.from_schema(rules, format=format, repair=repair)
    except ConfigError as error:
        raise error.at(str(schema)) from error


def _read_stream(chunks: Iterable[str], contract: Contract) -> Outcome:
    """Print each object as soon as it is complete; return the outcome at the end."""
    from trustgraph_prompt.reader import StreamReader

    reader = StreamReader(contract)
    printed: list[Any] = []
    for chunk in chunks:
        for value in reader.feed(chunk):
            output.print_object(value)
            printed.append(value)
    outcome = reader.close()
    for value in outcome.retracted:
        if value in printed:
            printed.remove(value)
    if contract.format == "jsonl":
        for value in outcome.objects[len(printed) :]:  # those that were only certain at the end of the text
            output.print_object(value)
    return outcome


def _hint(outcome: Outcome, format: Format, schema: Path | None, repair: bool) -> None:
    """Name the options with which more could be read."""
    from trustgraph_prompt.reader import read

    others = {} if repair else {"--repair": _contract(format, schema, True)}
    if not outcome.ok:
        other: Format = "json" if format == "jsonl" else "jsonl"
        others[f"--format {other}"] = _contract(other, schema, repair)
    for other_option, contract in others.items():
        more = read(outcome.calls[-1].text, contract)
        if more.ok and len(more.objects) > len(outcome.objects):
            what = output.counted(len(more.objects), "object" if contract.many else "value")
            output.note(f"hint: {other_option} would read {what}")


def _chunks(file: Path, name: str) -> Iterator[str]:
    """Decode a file or standard input piece by piece; bytes that are not UTF-8 become U+FFFD."""
    from trustgraph_prompt.documents.text import binary_kind

    decoder = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape")
    replaced, kind = 0, None
    for data in _bytes(file, name):
        kind = kind or binary_kind(data)
        chunk, wrong = _NOT_UTF8.subn("\N{REPLACEMENT CHARACTER}", decoder.decode(data, final=not data))
        replaced += wrong
        yield chunk
    if replaced:
        count = output.counted(replaced, "byte")
        what = f"{kind}, not text" if kind else "not UTF-8"
        output.note(f"warning: {name} is {what}: {count} read as \N{REPLACEMENT CHARACTER}")


def _bytes(file: Path, name: str) -> Iterator[bytes]:
    """Read a file or standard input piece by piece; the last piece is empty."""
    is_input = str(file) == "-"
    try:
        with open(sys.stdin.fileno() if is_input else file, "rb", closefd=not is_input) as stream:
            while data := stream.read1(CHUNK):
                yield data
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=name) from error
    yield b""
