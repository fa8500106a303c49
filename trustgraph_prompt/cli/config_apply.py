"""`config apply`: makes the prompts that one owner has on the config topic what its files say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from trustgraph_prompt.cli import broker_options, output
from trustgraph_prompt.cli.broker_options import (
    ChangeOptions,
    ReadTopicOptions,
    ReadWorkspaceOptions,
    WaitOption,
)
from trustgraph_prompt.cli.options import argument, option
from trustgraph_prompt.errors import ConfigError

if TYPE_CHECKING:
    from trustgraph_prompt.broker import Broker
    from trustgraph_prompt.cli.broker_view import BrokerView
    from trustgraph_prompt.worker.config.apply_plan import Proposal

EXAMPLE = "config apply prompts/ --owner me --broker embedded:broker.db"

MAX_OWNER = 200
"""Characters of an owner's name."""


def _owner(name: str) -> str:
    if not name.strip() or not name.isprintable() or len(name) > MAX_OWNER:
        raise ConfigError(
            "the name is not valid",
            where="--owner",
            found=name,
            expected=f"1 to {MAX_OWNER} printable characters, such as NAMESPACE/RELEASE",
        )
    return name


def command(
    paths: list[Path] = argument(
        "PATH…", "Prompt files, and folders of them. An empty folder: no prompts any more."
    ),
    *,
    owner: str = option(
        "--owner NAME",
        "Whose prompts these are. Each owner changes and deletes only its own.",
        callback=_owner,
    ),
    workspace: broker_options.WorkspaceOption = "default",
    force: bool = option(
        "--force", "Also overwrite and delete entries that others have changed or own.", False
    ),
    dry_run: bool = option("--dry-run", "Print the plan and change nothing.", False),
    place: ReadTopicOptions,
    wait: WaitOption = None,
    change: ChangeOptions,
) -> None:
    """Publish what has changed in these files since the owner applied them last, and delete what is gone.

    An entry that another client has changed or deleted since then is left alone, with a warning. Prompts that
    do not compile or whose examples fail are rejected, and then nothing is published.
    """
    from trustgraph_prompt.cli import push_prompts
    from trustgraph_prompt.worker.config import apply, config_topic

    at = ReadWorkspaceOptions(
        workspace=workspace, broker=place.broker, topic=place.topic, admin_url=place.admin_url
    )
    try:
        filled = [path for path in paths if not _is_empty(path)]
        wanted = push_prompts.compiled(filled) if filled else {}
    except ConfigError as error:
        error.add_note("nothing was published")
        raise

    async def propose(read: apply.Read) -> Proposal:
        plan, ignored = await apply.propose(read, owner, wanted, topic=at.topic, force=force)
        if any(plan.changes.values()):
            after = {**plan.present, **plan.changes}
            config_topic.check_room(workspace, [key for key, data in after.items() if data])
        for name, why in ignored.items():
            output.note(f"warning: {at.topic}{apply.OWNERS}: ignored the record of owner {name}: {why}")
        for key, why in plan.left.items():
            no_longer = "" if key in wanted else ", which the owner no longer wants"
            output.note(f"warning: left alone {key}{no_longer}: {why}")
        push_prompts.warn(plan.present, plan.changes)
        return plan

    async def look(view: BrokerView) -> None:
        _print(workspace, await propose(lambda topic: view.entries(topic, workspace)), dry_run=True)

    async def publish(connected: Broker) -> bool:
        plan = await propose(lambda topic: config_topic.entries(connected, workspace, topic=topic))
        author = change.author()
        async with push_prompts.acknowledgements(connected, at, wait) as applied:
            id = await apply.carry_out(connected, workspace, owner, plan, topic=at.topic, author=author)
            _print(workspace, plan)
            return id is None or await applied(id)

    if dry_run:
        at.look(look)
    elif not push_prompts.publishes(at.broker, publish):
        raise typer.Exit(1)


def _is_empty(path: Path) -> bool:
    """Whether a folder has only hidden files, as that of an empty ConfigMap."""
    return path.is_dir() and all(file.name.startswith(".") for file in path.iterdir())


def _print(workspace: str, plan: Proposal, *, dry_run: bool = False) -> None:
    published = [key for key, data in plan.changes.items() if data]
    deleted = [key for key, data in plan.changes.items() if not data]
    if published:
        count = output.counted(len(published), "entry", "entries")
        done = f"would publish {count} to" if dry_run else f"published {count} to"
        output.say(f"{done} workspace {workspace}: {', '.join(published)}")
    if deleted:
        done = "would delete" if dry_run else "deleted"
        output.say(f"{done} from workspace {workspace}: {', '.join(deleted)}")
    if not plan.changes:
        typer.echo(f"nothing to change in workspace {workspace}")
