"""`config rollback`: publishes an earlier version of a prompt again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from trustgraph_prompt.cli import broker_options, output, prompt_options, push_prompts
from trustgraph_prompt.cli.broker_options import WorkspaceOptions
from trustgraph_prompt.cli.config_history import (
    IdArgument,
    entry_key,
    files,
    warn_of_skipped,
)
from trustgraph_prompt.cli.options import option
from trustgraph_prompt.errors import ConfigError, raise_first
from trustgraph_prompt.terminal import harmless

if TYPE_CHECKING:
    from trustgraph_prompt.broker import Broker
    from trustgraph_prompt.worker.config.versions import History, Text

EXAMPLE = "config rollback extract-definitions -m 'it loses dates' --wait 10"


def command(
    id: IdArgument,
    *,
    to: Annotated[
        str | None,
        option(
            "--to VERSION", "The version to return to, which may be abbreviated. Default: the one before."
        ),
    ] = None,
    at: WorkspaceOptions,
    templates: prompt_options.TemplatesOption = None,
    wait: push_prompts.WaitOption = None,
    change: push_prompts.ChangeOptions,
) -> None:
    """Publish an earlier version of a prompt again, also of a deleted one."""
    from trustgraph_prompt.prompts import PromptSet
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
        raise_first(PromptSet.build({key: text.entry}).refused.values())
        config_topic.check_room(at.workspace, found.present.keys() | {key})
        entries = {key: text.entry}
        push_prompts.warn({name: data.encode() for name, data in found.present.items()}, entries)
        author = change.author(f"back to {text.version[:12]}")

        async def send() -> str:
            id = await history.push(
                connected, at.workspace, entries, author, action=history.ROLLBACK, topic=at.topic
            )
            typer.echo(harmless(f"rolled back {key} in workspace {at.workspace} to {text.version}"))
            return id

        applied = await push_prompts.acknowledged(send, connected, at, wait)
        if (version := versions.version_of(key, text.entry, found.system)) != text.version:
            output.note(
                f"warning: its version is now {version}: the text is that of {text.version[:12]}, but the "
                "system message is another one"
            )
        return applied

    if not broker_options.on_broker(broker_options.existing(at.broker), publish):
        raise typer.Exit(1)


def _check_another(found: History, key: str, text: Text) -> None:
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
