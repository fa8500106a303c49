"""What the commands share that publish prompts: checks, warnings, and waiting for the workers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from time import time

import typer

from trustgraph_prompt.ask import try_examples
from trustgraph_prompt.broker import Broker
from trustgraph_prompt.cli import broker_options, output
from trustgraph_prompt.cli.broker_options import WorkspaceOptions
from trustgraph_prompt.errors import ConfigError, raise_first
from trustgraph_prompt.prompts import PromptSet, files
from trustgraph_prompt.terminal import harmless
from trustgraph_prompt.worker.config.report_topic import ANNOUNCEMENT_LIFETIME, ReportListener


def publishes(broker: str, action: Callable[[Broker], Awaitable[bool]]) -> bool:
    """Run the action on the broker, and say if that makes a broker file: its path may be wrong."""
    is_new = broker_options.is_new(broker)
    done = broker_options.on_broker(broker, action)
    if is_new:
        output.note(f"{broker} is a new broker: no such file was there, so no worker follows it yet")
    return done


def compiled(paths: Sequence[Path]) -> Mapping[str, str]:
    """Return the entries in files and folders.

    Raises `ConfigError` if a prompt does not compile or its examples fail, or if there are only schemas.
    """
    read = files.together(map(files.read, paths))
    if not read.entries:
        where = ", ".join(map(str, paths))
        raise ConfigError("there are no prompts", where=where, found="only schemas", expected="prompts")
    prompts = read.build()
    raise_first(try_examples(prompts, read.examples))
    return read.entries


def warn(present: Mapping[str, bytes], pushed: Mapping[str, str]) -> None:
    """Warn of problems that the new entries cause together with those on the topic."""
    before = PromptSet.build(present)
    after = PromptSet.build({**present, **pushed}, before)
    for key, why in after.notes.items():
        if before.notes.get(key) != why:
            output.note(f"warning: {key} {why}")
    for key in sorted(pushed.keys() & after.refused.keys()):
        output.note(f"warning: workers will refuse {after.refused[key]}")


@asynccontextmanager
async def acknowledgements(
    broker: Broker, at: WorkspaceOptions, seconds: float | None
) -> AsyncIterator[Callable[[str], Awaitable[bool]]]:
    """Listen to the workers while the block publishes prompts.

    It gets a function that waits until they have applied the push of an id. That prints what they did, and
    returns whether all of them applied all of it. Without `seconds` it does not wait.
    """
    listener = None if seconds is None else await ReportListener.open(broker, at.topic, at.workspace)

    async def applied(id: str) -> bool:
        if listener is None or seconds is None:
            return True
        place = f"workspace {at.workspace} on {broker.address}"
        return _print_acknowledgements(listener, await listener.answers(id, seconds), place, seconds)

    try:
        yield applied
    finally:
        if listener is not None:
            await listener.close()


def refusal(key: str, report: bytes) -> str:
    """Render the report of a rejected entry as `check` prints errors; anything else as it is."""
    try:
        read = json.loads(report)
    except ValueError:
        read = None
    match read:
        case {"message": str(text), "where": str(where), "path": str(path), **more}:
            expected = None if more.get("expected") is None else str(more["expected"])
            return str(ConfigError(text, where=where, path=path, found=more.get("found"), expected=expected))
        case _:
            return f"{key} {report.decode(errors='replace')}"


def _print_acknowledgements(
    listener: ReportListener, answers: Mapping[str, Collection[str] | None], place: str, seconds: float
) -> bool:
    """Print what the workers did with a push; return whether all of them applied all of it."""
    if not answers:
        served = sorted({name for names in listener.others.values() for name in names})
        which = f"; workers run for: {', '.join(served)}" if served else ""
        output.note(f"error: no running worker is known for {place}{which}")
        return False
    taken = [name for name, refused in answers.items() if refused is not None and not refused]
    if taken:
        typer.echo(f"taken by {', '.join(map(worker_name, taken))}")
    for name, refused in answers.items():
        if refused is None:
            since = _since(listener.workers[name])
            output.note(f"error: no answer from {worker_name(name)} in {seconds:g} s; {since}")
        elif refused:
            output.note(f"error: {worker_name(name)} refused {', '.join(refused)}")
    for key in sorted({key for refused in answers.values() for key in refused or ()}):
        if report := listener.refusals.get(key):
            output.note(refusal(key, report))
    return len(taken) == len(answers)


def _since(announced: float) -> str:
    """How long a worker, which may have been killed, has been silent."""
    ago = max(0, time() - announced)
    until = ANNOUNCEMENT_LIFETIME / 60
    return (
        f"it last announced itself {ago:.0f} s ago; workers count as running for {until:g} minutes after that"
    )


def worker_name(key: str) -> str:
    """Return the name of a worker from its key on the report topic."""
    return harmless(key.partition(":")[2])
