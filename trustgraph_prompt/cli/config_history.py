"""`config history`, `show` and `diff`: what has changed, and the versions of prompts."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trustgraph_prompt.cli import inspect_broker, options, output, push_prompts
from trustgraph_prompt.cli.lazy_commands import Command
from trustgraph_prompt.terminal import harmless

if TYPE_CHECKING:
    from trustgraph_prompt.broker import Broker
    from trustgraph_prompt.cli.inspect_broker import BrokerView
    from trustgraph_prompt.worker.config.history import Change
    from trustgraph_prompt.worker.config.versions import EntryVersions, Text

VERSION = re.compile("[0-9a-f]+")
PLAIN_KEY = re.compile("[a-z]+(-[a-z]+)*")

_SAME_VERSION = "only parts that affect no answer differ, such as aliases"

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The id of a prompt, or `system`.")]
TrustGraphOption = Annotated[
    bool,
    typer.Option("--trustgraph", help="Look at the prompts of TrustGraph's config service instead."),
]


def history(
    id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="The id of a prompt, or `system`. Default: all.")
    ] = None,
    workspace: push_prompts.WorkspaceOption = "default",
    broker: options.BrokerOption = options.DEFAULT_BROKER,
    topic: options.ConfigTopicOption = options.DEFAULT_CONFIG_TOPIC,
    admin_url: inspect_broker.AdminUrlOption = None,
    templates: options.TemplatesOption = None,
    trustgraph: TrustGraphOption = False,
    space: options.SpaceOption = "tg",
    as_json: options.JsonOption = False,
) -> None:
    """List the changes of the prompts, newest first: when, version, what, who, why.

    `*` marks what the config topic has now. A new system message changes the version of the prompts that use
    it, and is listed with them.
    """
    found = look(broker, admin_url, workspace, topic, templates, trustgraph=trustgraph, space=space)
    key = id and entry_key(id)
    with options.naming(broker):
        changes = found.of_entry(key) if key else found.changes
    current = found.in_force(key) if key else None
    for change in reversed(changes):
        is_current = change is (current if key else found.on_topic.get(change.key))
        if as_json:
            output.print_object({**_facts(change, key or change.key), "current": is_current})
        else:
            typer.echo(harmless(f"{'*' if is_current else ' '} {_line(change, key or change.key)}"))
    if not changes:
        output.note(f"there is no history of workspace {workspace} on {broker}")
    for unpublished in found.unpublished:
        output.note(
            f"warning: {unpublished}: the config topic does not have the newest change: that push died "
            "before it was published, or is under way, or a program that keeps no history has published since"
        )


def show(
    id: Annotated[
        str,
        typer.Argument(
            metavar="ID[@VERSION]",
            help="The id of a prompt, or `system`; and a version, which may be abbreviated. "
            "Default: the present one.",
        ),
    ],
    workspace: push_prompts.WorkspaceOption = "default",
    broker: options.BrokerOption = options.DEFAULT_BROKER,
    topic: options.ConfigTopicOption = options.DEFAULT_CONFIG_TOPIC,
    admin_url: inspect_broker.AdminUrlOption = None,
    templates: options.TemplatesOption = None,
    trustgraph: TrustGraphOption = False,
    space: options.SpaceOption = "tg",
    as_json: options.JsonOption = False,
) -> None:
    """Print a version of a prompt as a prompt file in YAML, and its system message as a comment.

    VERSION is the `version` in objects, answers, logs and metrics. Versions of prompt files are found, too:
    of the bundled ones, or of --templates.
    """
    found = look(broker, admin_url, workspace, topic, templates, trustgraph=trustgraph, space=space)
    name, at, version = id.rpartition("@")
    if not at or not VERSION.fullmatch(version):
        name, version = id, ""
    key = entry_key(name)
    with options.naming(broker):
        text = found.find(key, version) if version else found.text(key)
    made = [change for change in found.changes if change.version_of(key) == text.version]
    if as_json:
        output.print_json(
            {
                "key": key,
                "version": text.version,
                "entry": output.decoded(text.entry),
                "system": text.system and output.decoded(text.system),
                "changes": [_facts(change, key) for change in made],
            }
        )
        return
    typer.echo(harmless(f"# {key} {text.version}"))
    for change in made:
        typer.echo(harmless(f"# {_line(change, key)}"))
    for line in _lines(text):
        typer.echo(line)


def diff(
    id: IdArgument,
    a: Annotated[
        str | None, typer.Argument(metavar="[A]", help="A version. Default: the one before B.")
    ] = None,
    b: Annotated[
        str | None, typer.Argument(metavar="[B]", help="A version. Default: the present one.")
    ] = None,
    workspace: push_prompts.WorkspaceOption = "default",
    broker: options.BrokerOption = options.DEFAULT_BROKER,
    topic: options.ConfigTopicOption = options.DEFAULT_CONFIG_TOPIC,
    admin_url: inspect_broker.AdminUrlOption = None,
    templates: options.TemplatesOption = None,
) -> None:
    """Compare two versions of a prompt: its text, its contract, its settings and its system message."""
    from difflib import unified_diff

    found = look(broker, admin_url, workspace, topic, templates)
    key = entry_key(id)
    with options.naming(broker):
        new = found.find(key, b) if b else found.text(key)
        old = found.find(key, a) if a else found.previous(key)
    name, other = (f"{id}@{text.version[:12]}" for text in (old, new))
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for line in unified_diff([*_lines(old)], [*_lines(new)], name, other, lineterm=""):
        colour = colours.get(line[0])
        typer.echo(output.paint(line, colour, sys.stdout) if colour else line)
    if old.version == new.version:
        output.note(f"both are version {new.version}: {_SAME_VERSION}")


def register(app: typer.Typer) -> None:
    """Add the commands to a group."""
    examples: dict[Callable[..., None], str] = {
        history: "history extract-definitions --broker embedded:broker.db",
        show: "show extract-definitions@3f2a9c81",
        diff: "diff extract-definitions 3f2a9c81",
    }
    for command, example in examples.items():
        app.command(cls=Command, epilog=f"Example:  trustgraph-prompt config {example}")(command)


def entry_key(id: str) -> str:
    """Return the key of the entry that a command is about."""
    return id if id == "system" or id.startswith("template.") else f"template.{id}"


def files(templates: Path | None) -> dict[str, str] | None:
    """Return the entries of the prompt files of workers, if these are given."""
    from trustgraph_prompt.prompts.files import load

    return None if templates is None else load(templates)


def look(
    broker: str,
    admin_url: str | None,
    workspace: str,
    topic: str,
    templates: Path | None,
    *,
    trustgraph: bool = False,
    space: str = "tg",
) -> EntryVersions:
    """Read the history of a workspace; of TrustGraph's config service, the present entries."""
    from trustgraph_prompt.worker.config import versions

    async def read(view: BrokerView) -> EntryVersions:
        if trustgraph:
            return await _of_trustgraph(view.broker, workspace, space, templates)
        return await versions.read(view.messages, workspace, files(templates), topic=topic)

    found = inspect_broker.look(broker, admin_url, read)
    warn_of_skipped(found)
    return found


async def _of_trustgraph(broker: Broker, workspace: str, space: str, templates: Path | None) -> EntryVersions:
    from trustgraph_prompt.broker import Message
    from trustgraph_prompt.trustgraph.config_client import ConfigClient
    from trustgraph_prompt.worker.config.versions import EntryVersions

    client = ConfigClient(broker, space)
    try:
        values = await client.values(workspace, "prompt")
    finally:
        await client.close()
    output.note("TrustGraph's config service keeps no history: these are its present prompts")
    present = {
        key: Message(value.encode(errors="replace"), topic="", id="")
        for key, value in values.items()
        if key == "system" or key.startswith("template.")
    }
    return EntryVersions.of({}, present, files(templates) or {})


def warn_of_skipped(found: EntryVersions) -> None:
    """Warn of records that are not valid."""
    if found.skipped:
        key, why = next(iter(found.skipped.items()))
        count = output.counted(len(found.skipped), "record")
        output.note(f"warning: skipped {count} of the history that cannot be read, such as {key:.100}: {why}")


def _line(change: Change, key: str) -> str:
    columns = (
        output.time(change.published) if change.published else "-",
        f"{change.version_of(key) or '-':12.12}",
        f"{change.action:8}",
        change.key,
        change.by or "-",
        change.why,
        f"(same version: {_SAME_VERSION})" if change.version and change.version == change.replaced else "",
    )
    return "  ".join(columns).rstrip()


def _facts(change: Change, key: str) -> dict[str, Any]:
    return {
        "published": output.time(change.published) if change.published else None,
        "key": change.key,
        "version": change.version_of(key),
        "replaced": change.replaced,
        "action": change.action,
        "by": change.by,
        "why": change.why,
        "entry": output.decoded(change.entry) if change.entry else None,
    }


def _lines(text: Text) -> Iterator[str]:
    """Write a version as a prompt file in YAML, with the system message of the workspace as a comment."""
    value = output.decoded(text.entry)
    entry = value if isinstance(value, dict) else {"dialect": "ibis", "prompt": value}
    for key, part in entry.items():
        yield from _part(key, part)
    if text.system is not None:
        value = output.decoded(text.system)
        system = value.get("prompt", value) if isinstance(value, dict) else value
        yield "# The system message of the workspace:"
        yield from (f"#   {harmless(line)}" for line in str(system).rstrip("\n").split("\n"))


def _part(key: str, value: object) -> Iterator[str]:
    """Write a key: a text of several lines as a block, anything else as JSON, which is YAML."""
    name = key if PLAIN_KEY.fullmatch(key) else output.json_text(key)
    if isinstance(value, str) and "\n" in value and harmless(value) == value:
        yield f"{name}: |2" + ("+" if value.endswith("\n") else "-")
        yield from (f"  {line}" if line else "" for line in value.removesuffix("\n").split("\n"))
    else:
        yield from f"{name}: {output.json_text(value, pretty=True)}".split("\n")
