"""`config push --canary`: new versions of prompts that answer a share of the requests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from uuid import uuid4

import typer

from trustgraph_prompt.broker import Broker
from trustgraph_prompt.cli import output
from trustgraph_prompt.cli.broker_options import WorkspaceOptions
from trustgraph_prompt.cli.push_prompts import acknowledgements
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.prompts import PromptSet
from trustgraph_prompt.prompts.pool import pools_in
from trustgraph_prompt.prompts.prompt_set import PREFIX, SYSTEM_KEY
from trustgraph_prompt.worker.canary.record import CANARY, Canary
from trustgraph_prompt.worker.config import config_topic, history
from trustgraph_prompt.worker.config.history import Author

_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*(%?)")


def share(text: str | None) -> float | None:
    """Return the value of `--canary` as a share from 0 to 1. Raises `ConfigError`."""
    if text is None:
        return None
    match = _SHARE.fullmatch(text.strip())
    value = float(match[1]) / (100 if match[2] else 1) if match else 0.0
    if not 0 < value < 1:
        raise ConfigError(
            "the share is not valid",
            where="--canary",
            found=text,
            expected="more than 0 % and less than 100 %, such as 10% or 0.1",
        )
    return value


async def begin(
    broker: Broker,
    at: WorkspaceOptions,
    present: Mapping[str, bytes],
    wanted: Mapping[str, str],
    share: float,
    author: Author,
    wait: float | None,
) -> bool:
    """Publish canaries for the wanted entries; return whether all workers that are awaited serve them.

    Raises `ConfigError` if an entry cannot have a canary.
    """
    workspace, topic = at.workspace, at.topic
    standing = await config_topic.messages(broker, workspace, topic=topic + CANARY)
    pools = {key: text for key, text in pools_in(wanted).items() if key not in present}
    canaries = _proposed(workspace, present, wanted, share, author)
    for id in canaries:
        if (former := standing.get(PREFIX + id)) is not None:
            output.note(f"note: replaces the canary of {id} that began {output.time(former.published)}")

    async with acknowledgements(broker, at, wait) as applied:
        if not canaries:
            typer.echo("nothing differs from what is served")
            return True
        if pools and not await applied(await history.push(broker, workspace, pools, author, topic=topic)):
            return False
        by_key = {PREFIX + id: canary for id, canary in canaries.items()}
        await history.record_canaries(broker, workspace, present, by_key, topic=topic)
        records = {key: canary.encode() for key, canary in by_key.items()}
        pushed = await config_topic.push(broker, workspace, records, topic=topic + CANARY)
        typer.echo(f"{100 * share:g} % of the requests in workspace {workspace}: {', '.join(canaries)}")
        return await applied(pushed)


def _proposed(
    workspace: str, present: Mapping[str, bytes], wanted: Mapping[str, str], share: float, author: Author
) -> dict[str, Canary]:
    """Return canaries, by prompt, of the wanted entries that make another version than the present ones.

    Raises `ConfigError` if an entry cannot have a canary.
    """
    served = PromptSet.build(present)
    if not served.prompts:
        raise ConfigError(
            f"workspace {workspace} has no prompts on the config topic to compare with; those of "
            "TrustGraph's config service cannot have a canary, because its flows keep no answers",
            where="--canary",
        )
    canaries: dict[str, Canary] = {}
    unchanged: list[str] = []
    pools = pools_in(wanted)
    for key, text in sorted(wanted.items() - pools.items()):
        id = key.removeprefix(PREFIX)
        if key == SYSTEM_KEY:
            if present.get(key) == text.encode():
                continue
            raise ConfigError(
                "the system message of a workspace cannot have a canary: push it without --canary, or give "
                "the prompt a `system` of its own",
                where=key,
            )
        if id not in served.prompts:
            raise ConfigError(
                f"workspace {workspace} has no such prompt on the config topic",
                where=key,
                found=id,
                expected="the id of a prompt to compare with; push a new prompt without --canary",
            )
        changed = PromptSet.build({**present, **pools, key: text}, served)
        if (error := changed.refused.get(key)) is not None:
            raise error
        if changed.prompts[id].version == served.prompts[id].version:
            unchanged.append(id)
            continue
        canaries[id] = Canary(uuid4().hex, text, share, author.by, author.why)
    if canaries and unchanged:
        output.note(f"left alone: {output.counted(len(unchanged), 'prompt')} as served")
    return canaries
