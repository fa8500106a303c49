"""What commands print: results on standard output, remarks about them on standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

import typer

from trustgraph_prompt.terminal import harmless

if TYPE_CHECKING:
    from trustgraph_prompt.errors import Issue
    from trustgraph_prompt.reader import CallReport, Outcome, Rejected


def print_json(value: object) -> None:
    """Print a JSON value on standard output."""
    typer.echo(json_text(value, pretty=True))


def json_text(value: object, *, pretty: bool = False) -> str:
    """Encode JSON for people: not escaped, unless it holds lone surrogates, which cannot be written."""
    import json

    indent = 2 if pretty else None
    text = harmless(json.dumps(value, ensure_ascii=False, indent=indent, default=str))
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, indent=indent, default=str)
    return text


def decoded(entry: str | bytes) -> Any:
    """Decode an entry of the config topic as JSON, or as text if it is not JSON."""
    import json

    try:
        return json.loads(entry)
    except ValueError:
        return entry if isinstance(entry, str) else entry.decode(errors="replace")


def readable(value: object, indent: str = "") -> Iterator[str]:
    """Write a JSON value for people: its members below each other, texts of several lines as they are."""
    members = value.items() if isinstance(value, dict) else ()
    for name, member in members:
        if isinstance(member, dict) and member:
            yield f"{indent}{name}:"
            yield from readable(member, f"{indent}  ")
        elif isinstance(member, str) and "\n" in member:
            yield f"{indent}{name}:"
            yield from (f"{indent}  {line}" for line in member.splitlines())
        else:
            yield f"{indent}{name}: {member if isinstance(member, str) else json_text(member)}"
    if not members:
        text = value if isinstance(value, str) else json_text(value, pretty=True)
        yield from (f"{indent}{line}" for line in text.splitlines())


@contextmanager
def waiting(for_what: str) -> Iterator[Callable[[], None]]:
    """Show a spinner on a terminal until the block ends, or calls the function that it gets."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console

    with Console(stderr=True).status(for_what) as status:
        yield status.stop


def paint(text: str, colour: str, stream: TextIO | None = None) -> str:
    """Colour a text for a stream, by default standard error, if it is a terminal and NO_COLOR is not set."""
    if not (stream or sys.stderr).isatty() or os.environ.get("NO_COLOR"):
        return text
    return typer.style(text, fg=colour, bold=True)


def say(text: str) -> None:
    """Print a result for people on standard output."""
    typer.echo(harmless(text))


def note(text: str) -> None:
    """Print a remark on standard error."""
    typer.echo(harmless(text), err=True)


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: `1 chunk`, `1,000 chunks`."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


LONGEST_REASON = 100
"""Characters."""


def shortened(reason: str) -> str:
    """Return the beginning of a reason's first line, for a list."""
    line = reason.partition("\n")[0][:LONGEST_REASON]
    return line if line == reason else f"{line}…"


def without_advice(reason: str) -> str:
    """Remove the instructions that are meant for the model from a reason."""
    from trustgraph_prompt.contract import grounding

    return grounding.without_advice(reason)


def time(seconds: float) -> str:
    """Format a time, in seconds since the epoch, as ISO 8601."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def duration(seconds: float) -> str:
    """Round a number of seconds for people: `12 s`, `3 min`, `1.5 h`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def issue_as_json(issue: Issue) -> dict[str, Any]:
    """Return an issue for programs, by the names of its fields."""
    return {
        "reason": issue.reason.value,
        "path": issue.path,
        "message": issue.message,
        "keyword": issue.keyword,
    }


def outcome_as_json(
    outcome: Outcome,
    position: Callable[[int], dict[str, int]] = lambda start: {"start": start},
    issue: Callable[[Rejected | None, Issue], dict[str, Any]] = lambda _, issue: issue_as_json(issue),
) -> dict[str, Any]:
    """Return an outcome for programs, by the names of its fields.

    `position` and `issue` render a position in the text and an issue of a rejected value, or of the whole.
    """
    return {
        "value": outcome.value,
        "reason": outcome.reason.value,
        "stage": outcome.stage.name.lower(),
        "truncated": outcome.truncated,
        "escalated": outcome.escalated,
        "issues": [issue(r, found) for r, found in outcome.errors() if found in outcome.issues],
        "rejected": [
            {
                "index": r.index,
                **position(r.start),
                "raw": r.raw,
                "issues": [issue(r, found) for found in r.issues],
            }
            for r in outcome.rejected
        ],
        "repaired": [
            {
                "index": r.index,
                **position(r.start),
                "raw": r.raw,
                "stage": r.stage.name.lower(),
                "edits": [{**position(edit.offset), "what": edit.what} for edit in r.edits],
            }
            for r in outcome.repaired
        ],
        "retracted": list(outcome.retracted),
        **({"remarks": [remark.as_json() for remark in outcome.remarks]} if outcome.remarks else {}),
        "calls": [_call_as_json(call) for call in outcome.calls],
        "usage": asdict(outcome.usage),
        "cost": outcome.cost,
        "cached": outcome.cached,
        **({"examples": list(outcome.examples)} if outcome.examples else {}),
        "cause": None if outcome.cause is None else str(outcome.cause),
    }


def _call_as_json(call: CallReport) -> dict[str, Any]:
    fields = asdict(call)
    if call.read is not None:
        fields["read"]["stage"] = call.read.stage.name.lower()
    return fields


def print_object(value: object) -> None:
    """Print an object as one line, and flush it."""
    typer.echo(json_text(value))


def print_value(outcome: Outcome) -> None:
    """Print the objects of a jsonl answer, one per line, or else the value, if there is one."""
    match outcome.contract.format, outcome.value:
        case "jsonl", list() as objects:
            for value in objects:
                print_object(value)
        case _ if not outcome.ok:
            pass
        case "text", str() as text:
            typer.echo(text, nl=not text.endswith("\n"))
        case _, value:
            print_json(value)
