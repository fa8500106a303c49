"""What commands print: results on standard output, everything about them on standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer

from trustgraph_prompt.terminal import harmless

if TYPE_CHECKING:
    from trustgraph_prompt.errors import Issue
    from trustgraph_prompt.reader import CallReport, Outcome


def print_json(value: object) -> None:
    """A JSON value on standard output."""
    typer.echo(json_text(value, pretty=True))


def json_text(value: object, *, pretty: bool = False) -> str:
    """JSON that a person may read, every integer as it is; escaped where it holds what is no Unicode."""
    import json

    indent = 2 if pretty else None
    text = harmless(json.dumps(value, ensure_ascii=False, indent=indent, default=str))
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, indent=indent, default=str)
    return text


@contextmanager
def waiting(for_what: str) -> Iterator[Callable[[], None]]:
    """Something moves on standard error, where a person looks, until the block ends or calls what it got."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console

    with Console(stderr=True).status(for_what) as status:
        yield status.stop


def paint(text: str, colour: str) -> str:
    """A text for standard error: in colour where a person may be looking, and has not said NO_COLOR."""
    if not sys.stderr.isatty() or os.environ.get("NO_COLOR"):
        return text
    return typer.style(text, fg=colour, bold=True)


def note(text: str) -> None:
    """A line about the result."""
    typer.echo(harmless(text), err=True)


def counted(count: int, noun: str, plural: str = "") -> str:
    """`1 chunk`, `1,000 chunks`."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


LONGEST_REASON = 100


def shortened(reason: str) -> str:
    """A reason as it begins, for a list."""
    line = reason.partition("\n")[0][:LONGEST_REASON]
    return line if line == reason else f"{line}…"


def time(seconds: float) -> str:
    """A time of publication, in seconds since the epoch."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def outcome_as_json(outcome: Outcome) -> dict[str, Any]:
    """An outcome for programs, by the names of its fields."""
    return {
        "value": outcome.value,
        "reason": outcome.reason.value,
        "stage": outcome.stage.name.lower(),
        "truncated": outcome.truncated,
        "escalated": outcome.escalated,
        "issues": [issue_as_json(issue) for issue in outcome.issues],
        "rejected": [
            {
                "index": r.index,
                "start": r.start,
                "raw": r.raw,
                "issues": [issue_as_json(issue) for issue in r.issues],
            }
            for r in outcome.rejected
        ],
        "repaired": [
            {
                "index": r.index,
                "start": r.start,
                "raw": r.raw,
                "stage": r.stage.name.lower(),
                "edits": [{"start": edit.offset, "what": edit.what} for edit in r.edits],
            }
            for r in outcome.repaired
        ],
        "retracted": list(outcome.retracted),
        "calls": [_call_as_json(call) for call in outcome.calls],
        "usage": asdict(outcome.usage),
        "cost": outcome.cost,
        "cached": outcome.cached,
        "cause": None if outcome.cause is None else str(outcome.cause),
    }


def _call_as_json(call: CallReport) -> dict[str, Any]:
    told = asdict(call)
    if call.read is not None:
        told["read"] = {**told["read"], "stage": call.read.stage.name.lower()}
    return told


def issue_as_json(issue: Issue) -> dict[str, str]:
    """An issue for programs, by the names of its fields."""
    return {"reason": issue.reason.value, "path": issue.path, "message": issue.message}


def print_object(value: object) -> None:
    """One of several, as a line that is there at once."""
    typer.echo(json_text(value))  # which flushes


def print_value(outcome: Outcome) -> None:
    """The objects of a jsonl answer, one a line; the value of another, if it has one."""
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
