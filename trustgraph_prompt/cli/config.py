"""`config`: publishes, lists and watches the prompts on the config topic."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from trustgraph_prompt.cli import (
    broker_options,
    config_apply,
    config_canary,
    config_history,
    options,
    output,
)
from trustgraph_prompt.cli.broker_options import (
    ChangeOptions,
    ReadTopicOptions,
    ReadWorkspaceOptions,
    WaitOption,
    WorkspaceOptions,
)
from trustgraph_prompt.cli.lazy_commands import group
from trustgraph_prompt.cli.options import argument, option
from trustgraph_prompt.errors import ConfigError, TrustgraphPromptError

if TYPE_CHECKING:
    from trustgraph_prompt.broker import Broker, Message
    from trustgraph_prompt.cli.broker_view import BrokerView
    from trustgraph_prompt.worker.config.report_topic import Announcement

app = group(
    "Publish, list and watch the prompts on the config topic, which workers follow while they run.",
    "config push templates/ --broker embedded:broker.db",
)

SECONDS_BETWEEN_LOOKS = 1.0
"""How often to look whether a missing topic exists."""


@app.subcommand("config push templates/ --broker embedded:broker.db")
def push(
    path: Path = argument("PATH", "A prompt file, or a folder of them."),
    *,
    at: WorkspaceOptions,
    canary: str | None = option(
        "--canary SHARE",
        "Let the new versions answer only this share of the requests, such as 10%.",
        None,
    ),
    wait: WaitOption = None,
    change: ChangeOptions,
) -> None:
    """Publish prompts; workers apply all of them at once.

    Prompts that do not compile or whose examples fail are rejected, and then nothing is published. With
    --canary, the prompts that differ from the served ones answer a share of the requests, and `config canary`
    compares both.
    """
    from trustgraph_prompt.cli import push_canary, push_prompts
    from trustgraph_prompt.worker.config import config_topic as config
    from trustgraph_prompt.worker.config import history

    try:
        entries = push_prompts.compiled([path])
    except ConfigError as error:
        error.add_note("nothing was pushed")
        raise
    share = push_canary.share(canary)
    count = output.counted(len(entries), "entry", "entries")
    pushed = f"pushed {count} to workspace {at.workspace}: {', '.join(sorted(entries))}"

    async def publish(connected: Broker) -> bool:
        present = await config.entries(connected, at.workspace, topic=at.topic)
        if share is not None:
            author = change.author()
            return await push_canary.begin(connected, at, present, entries, share, author, wait)
        config.check_room(at.workspace, present.keys() | entries.keys())
        push_prompts.warn(present, entries)
        async with push_prompts.acknowledgements(connected, at, wait) as applied:
            id = await history.push(connected, at.workspace, entries, change.author(), topic=at.topic)
            typer.echo(pushed)
            return await applied(id)

    if share is not None:
        broker_options.existing(at.broker)  # a new one has nothing to compare with
    if not push_prompts.publishes(at.broker, publish):
        raise typer.Exit(1)


app.add_typer(config_canary.app, name="canary")
app.subcommand(config_apply.EXAMPLE, "apply")(config_apply.command)
app.subcommand("config history extract-definitions --broker embedded:broker.db")(config_history.history)
app.subcommand("config show extract-definitions@3f2a9c81")(config_history.show)
app.subcommand("config diff extract-definitions 3f2a9c81")(config_history.diff)
app.subcommand("config rollback extract-definitions -m 'it loses dates' --wait 10")(config_history.rollback)


@app.subcommand("config list --workspace default --json", "list")
def list_(
    *,
    workspace: str | None = broker_options.workspace_option("Only this workspace. Default: all.", None),
    at: ReadTopicOptions,
    as_json: options.JsonOption = False,
) -> None:
    """Print the keys of the entries on the config topic; with --json, the entries, too.

    With --workspace and --json, the output is an export that `check` and --templates accept.
    """
    entries = at.look(lambda view: view.entries(at.topic, workspace))
    if not entries:
        output.note(
            f"there are no entries on the topic {at.topic} of {at.broker}"
            + (f" for workspace {workspace}" if workspace else "")
        )
    if as_json:
        output.print_json({key: output.decoded(data) for key, data in sorted(entries.items())})
    else:
        prefix = f"{workspace}/" if workspace else ""
        for key in sorted(entries):
            output.say(f"{prefix}{key}")


@app.subcommand("config get template.extract-definitions")
def get(
    key: str = argument("KEY", "`system`, `template.` and the id of a prompt, or `pool.` and a hash."),
    *,
    at: ReadWorkspaceOptions,
) -> None:
    """Print one entry as JSON. Exits with 1 if it does not exist."""
    workspace, key = _split_key(at.workspace, key)
    entries = at.look(lambda view: view.entries(at.topic, workspace))
    data = entries.get(key)
    if data is None:
        raise TrustgraphPromptError(f"workspace {workspace} on {at.broker} has no entry {key}{_hint(key)}")
    output.print_json(output.decoded(data))


@app.subcommand("config delete template.extract-topics")
def delete(
    keys: list[str] = argument(
        "KEY…", "`system`, `template.` and the id of a prompt, or `pool.` and a hash."
    ),
    *,
    at: WorkspaceOptions,
    change: ChangeOptions,
) -> None:
    """Delete entries. A worker that has a prompt of that id in a file uses that one again."""
    from trustgraph_prompt.worker.config import config_topic as config
    from trustgraph_prompt.worker.config import history

    keys = [key.removeprefix(f"{at.workspace}/") for key in keys]  # `list` prints keys with their workspace

    async def delete_known(connected: Broker) -> list[str]:
        entries = await config.entries(connected, at.workspace, topic=at.topic)
        unknown = [key for key in keys if key not in entries]
        if not unknown:
            deleted = dict.fromkeys(keys, "")
            await history.push(connected, at.workspace, deleted, change.author(), topic=at.topic)
        return unknown

    unknown = broker_options.on_broker(broker_options.existing(at.broker), delete_known)
    if unknown:
        names = ", ".join(key + _hint(key) for key in unknown)
        output.note(
            f"error: workspace {at.workspace} on {at.broker} has no entry {names}; nothing was deleted"
        )
        raise typer.Exit(1)
    typer.echo(f"deleted from workspace {at.workspace}: {', '.join(keys)}")


@app.subcommand("config watch --broker embedded:broker.db")
def watch(
    *,
    at: ReadTopicOptions,
    as_json: options.JsonOption = False,
) -> None:
    """Print changes of the config topic, and the reports of workers about them, until Ctrl-C."""
    import asyncio

    async def follow(view: BrokerView) -> None:
        output.note(f"watching {at.topic} on {at.broker}")
        await asyncio.gather(
            _print_changes(view, at.topic, as_json=as_json), _print_reports(view, at.topic, as_json=as_json)
        )

    try:
        at.look(follow)
    except KeyboardInterrupt:
        raise typer.Exit from None


async def _print_changes(view: BrokerView, topic: str, *, as_json: bool) -> None:
    async with aclosing(_changes(view, topic)) as changes:
        async for message in changes:
            line = f"{'changed' if message.data else 'deleted'} {message.key}"
            _print(message, topic, [line], as_json=as_json)


async def _print_reports(view: BrokerView, config_topic: str, *, as_json: bool) -> None:
    """Print what workers reject, and each announcement of a worker that differs from its last one."""
    from trustgraph_prompt.cli.push_prompts import refusal, worker_name
    from trustgraph_prompt.worker.config.report_topic import FILES, REPORT, Announcement

    topic = config_topic + REPORT
    workers: dict[str | None, Announcement] = {}
    async with aclosing(_changes(view, topic)) as changes:
        async for message in changes:
            if (message.key or "").startswith(FILES):
                continue
            if (announcement := Announcement.decode(message)) is None:
                report = refusal(message.key or "", message.data)
                lines = [f"refused {report}" if message.data else f"mended {message.key}"]
            elif announcement == (before := workers.get(message.key)):
                continue
            else:
                workers[message.key] = announcement
                lines = _announcement_changes(worker_name(message.key or ""), announcement, before)
            _print(message, topic, lines, as_json=as_json)


def _announcement_changes(worker: str, now: Announcement, before: Announcement | None) -> list[str]:
    if not now.workspaces:
        return [f"ended {worker}"]
    if before is None:
        return [f"follows {worker}: {', '.join(now.workspaces)}"]
    answers = [refused for id, refused in now.pushes.items() if id not in before.pushes]
    return [f"refused by {worker}: {', '.join(each)}" if each else f"taken by {worker}" for each in answers]


async def _changes(view: BrokerView, topic: str) -> AsyncGenerator[Message, None]:
    """Yield what is published from now on; if the topic does not exist yet, everything published on it."""
    import asyncio

    there = await view.has(topic)
    if not there:
        output.note(f"waiting: the topic {topic} does not exist yet on {view.url}")
        while not await view.has(topic):  # noqa: ASYNC110 - no broker reports new topics
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
    table = await view.broker.table(topic)
    if not there:
        for message in table.entries.values():
            yield message
    async with aclosing(table.changes()) as changes:
        async for message in changes:
            yield message


def _print(message: Message, topic: str, lines: Iterable[str], *, as_json: bool) -> None:
    if as_json:
        entry = output.decoded(message.data) if message.data else None
        typer.echo(output.json_text({"topic": topic, "key": message.key, "value": entry}))
    else:
        for line in lines:
            output.say(line)
    sys.stdout.flush()


def _split_key(workspace: str, key: str) -> tuple[str, str]:
    """Split a key that names its workspace, as `list` prints it."""
    named, _, rest = key.partition("/")
    return (named, rest) if _is_key(rest) else (workspace, key)


def _hint(key: str) -> str:
    return "" if _is_key(key) else f" (a prompt's key is template.{key})"


def _is_key(key: str) -> bool:
    return key == "system" or key.startswith(("template.", "pool."))
