"""`config history`, `show`, `diff` and `rollback`: what has changed, and the versions of prompts."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trustgraph_prompt.cli import broker_options, flow_options, options, output, prompt_options
from trustgraph_prompt.cli.broker_options import (
    ChangeOptions,
    ReadWorkspaceOptions,
    WaitOption,
    WorkspaceOptions,
)
from trustgraph_prompt.cli.options import argument, option
from trustgraph_prompt.errors import ConfigError, raise_first
from trustgraph_prompt.terminal import harmless

if TYPE_CHECKING:
    from trustgraph_prompt.broker import Broker
    from trustgraph_prompt.worker.config.history import Change
    from trustgraph_prompt.worker.config.versions import EntryVersions, Text

VERSION = re.compile("[0-9a-f]+")
PLAIN_KEY = re.compile("[a-z]+(-[a-z]+)*")

_SAME_VERSION = "only parts that affect no answer differ, such as aliases"

IdArgument = Annotated[str, argument("ID", "The id of a prompt, or `system`.")]


class HistoryOptions(ReadWorkspaceOptions):
    """A workspace whose history is read, or TrustGraph's config service, and the prompt files of workers."""

    templates: prompt_options.TemplatesOption = None
    trustgraph: bool = option(
        "--trustgraph", "Look at the prompts of TrustGraph's config service instead.", False
    )
    space: flow_options.SpaceOption = "tg"


def history(
    id: str | None = argument("[ID]", "The id of a prompt, or `system`. Default: all.", None),
    *,
    at: HistoryOptions,
    as_json: options.JsonOption = False,
) -> None:
    """List the changes of the prompts, newest first: when, version, what, who, why.

    `*` marks what the config topic has now. A new system message changes the version of the prompts that use
    it, and is listed with them.
    """
    found = _look(at)
    key = id and entry_key(id)
    with broker_options.naming(at.broker):
        changes = found.of_entry(key) if key else found.changes
    current = found.in_force(key) if key else None
    for change in reversed(changes):
        is_current = change is (current if key else found.on_topic.get(change.key))
        if as_json:
            output.print_object({**_facts(change, key or change.key), "current": is_current})
        else:
            output.say(f"{'*' if is_current else ' '} {_line(change, key or change.key)}")
    if not changes:
        output.note(f"there is no history of workspace {at.workspace} on {at.broker}")
    for unpublished in found.unpublished:
        output.note(
            f"warning: {unpublished}: the config topic does not have the newest change: that push died "
            "before it was published, or is under way, or a program that keeps no history has published since"
        )


def show(
    id: str = argument(
        "ID[@VERSION]",
        "The id of a prompt, or `system`; and a version, which may be abbreviated. Default: the present one.",
    ),
    *,
    at: HistoryOptions,
    as_json: options.JsonOption = False,
) -> None:
    """Print a version of a prompt as a prompt file in YAML, and its system message as a comment.

    VERSION is the `version` in objects, answers, logs and metrics. Versions of prompt files are found, too:
    of the bundled ones, or of --templates.
    """
    found = _look(at)
    name, is_given, version = id.rpartition("@")
    if not is_given or not VERSION.fullmatch(version):
        name, version = id, ""
    key = entry_key(name)
    with broker_options.naming(at.broker):
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
    output.say(f"# {key} {text.version}")
    for change in made:
        output.say(f"# {_line(change, key)}")
    for line in _lines(text):
        typer.echo(line)


def diff(
    id: IdArgument,
    a: str | None = argument("[A]", "A version. Default: the one before B.", None),
    b: str | None = argument("[B]", "A version. Default: the present one.", None),
    *,
    at: ReadWorkspaceOptions,
    templates: prompt_options.TemplatesOption = None,
) -> None:
    """Compare two versions of a prompt: its text, its contract, its settings and its system message."""
    from difflib import unified_diff

    found = look(at, templates)
    key = entry_key(id)
    with broker_options.naming(at.broker):
        new = found.find(key, b) if b else found.text(key)
        old = found.find(key, a) if a else found.previous(key)
    name, other = (f"{id}@{text.version[:12]}" for text in (old, new))
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for line in unified_diff([*_lines(old)], [*_lines(new)], name, other, lineterm=""):
        colour = colours.get(line[0])
        typer.echo(output.paint(line, colour, sys.stdout) if colour else line)
    if old.version == new.version:
        output.note(f"both are version {new.version}: {_SAME_VERSION}")


def rollback(
    id: IdArgument,
    *,
    to: str | None = option(
        "--to VERSION", "The version to return to, which may be abbreviated. Default: the one before.", None
    ),
    at: WorkspaceOptions,
    templates: prompt_options.TemplatesOption = None,
    wait: WaitOption = None,
    change: ChangeOptions,
) -> None:
    """Publish an earlier version of a prompt again, also of a deleted one."""
    from trustgraph_prompt.cli import push_prompts
    from trustgraph_prompt.prompts import PromptSet
    from trustgraph_prompt.prompts.pool import pools_in
    from trustgraph_prompt.worker.config import config_topic, history, versions

    key = entry_key(id)

    async def publish(connected: Broker) -> bool:
        found = await versions.read(
            lambda topic, workspace: config_topic.messages(connected, workspace, topic=topic),
            at.workspace,
            files(templates),
            topic=at.topic,
        )
        warn_of_skipped(found)
        text = found.find(key, to) if to else found.previous(key)
        _check_another(found, key, text)
        raise_first(PromptSet.build({**pools_in(found.present), key: text.entry}).refused.values())
        config_topic.check_room(at.workspace, found.present.keys() | {key})
        entries = {key: text.entry}
        push_prompts.warn({name: data.encode() for name, data in found.present.items()}, entries)
        author = change.author(f"back to {text.version[:12]}")
        async with push_prompts.acknowledgements(connected, at, wait) as applied:
            id = await history.push(
                connected, at.workspace, entries, author, action=history.ROLLBACK, topic=at.topic
            )
            output.say(f"rolled back {key} in workspace {at.workspace} to {text.version}")
            is_applied = await applied(id)
        if (version := versions.version_of(key, text.entry, found.system)) != text.version:
            output.note(
                f"warning: its version is now {version}: the text is that of {text.version[:12]}, but the "
                "system message is another one"
            )
        return is_applied

    if not broker_options.on_broker(broker_options.existing(at.broker), publish):
        raise typer.Exit(1)


def _check_another(found: EntryVersions, key: str, text: Text) -> None:
    """Raise `ConfigError` if the text of an entry is what the config topic has."""
    if key not in found.present or not text.same_entry(now := found.text(key)):
        return
    if text.same(now):
        raise ConfigError("the config topic has this version", where=key, found=text.version)
    raise ConfigError(
        "the text of this version is the present one; only the system message was another",
        where=key,
        found=text.version,
        expected="`config rollback system`, which changes all prompts that use it",
    )


def entry_key(id: str) -> str:
    """Return the key of the entry that a command is about."""
    return id if id == "system" or id.startswith("template.") else f"template.{id}"


def files(templates: Path | None) -> dict[str, str] | None:
    """Return the entries of the prompt files of workers, if these are given."""
    from trustgraph_prompt.prompts.files import load

    return None if templates is None else load(templates)


def look(at: ReadWorkspaceOptions, templates: Path | None = None) -> EntryVersions:
    """Read the history of a workspace."""
    from trustgraph_prompt.worker.config import versions

    found = at.look(lambda view: versions.read(view.messages, at.workspace, files(templates), topic=at.topic))
    warn_of_skipped(found)
    return found


def _look(at: HistoryOptions) -> EntryVersions:
    """As `look`; of TrustGraph's config service, the present entries."""
    if not at.trustgraph:
        return look(at, at.templates)
    return at.look(lambda view: _of_trustgraph(view.broker, at.workspace, at.space, at.templates))


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
