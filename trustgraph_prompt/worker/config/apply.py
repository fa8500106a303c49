"""Carries out `config apply`; the records of the owners are on `<config topic>-owners`.

They have a topic of their own because workers reject, and report, a key of the config topic that names no
entry. It is compacted and has the keys `<workspace>/<owner>`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from trustgraph_prompt.broker import Broker
from trustgraph_prompt.worker.config import apply_plan, history
from trustgraph_prompt.worker.config.apply_plan import Proposal, Record
from trustgraph_prompt.worker.config.config_topic import push
from trustgraph_prompt.worker.config.history import Author

OWNERS: Final = "-owners"
"""Suffix of the config topic's name."""

Read = Callable[[str], Awaitable[Mapping[str, bytes]]]
"""Reads the entries of one workspace on a topic."""


async def propose(
    read: Read, owner: str, wanted: Mapping[str, str], *, topic: str, force: bool = False
) -> tuple[Proposal, dict[str, str]]:
    """Plan what to publish on the config topic; also returns why the records of some owners are ignored.

    Raises what `read` raises.
    """
    present = await read(topic)
    # Records last: whatever another owner has published by now is then in its record.
    records: dict[str, Record] = {}
    unreadable: dict[str, str] = {}
    for name, data in (await read(topic + OWNERS)).items():
        try:
            records[name] = apply_plan.decode(data)
        except ValueError as error:
            unreadable[name] = str(error)
    return apply_plan.plan(owner, wanted, present, records, force=force), unreadable


async def carry_out(
    broker: Broker, workspace: str, owner: str, plan: Proposal, *, topic: str, author: Author = history.NOBODY
) -> str | None:
    """Publish a plan. Returns the id of the push, if entries change. Raises `BrokerError`.

    It may end at any point: the next apply recognizes what this one has published.
    """
    if plan.before is not None:
        await _publish(broker, workspace, owner, plan.before, topic)
    id = None
    if plan.changes:
        id = await history.push(broker, workspace, plan.changes, author, topic=topic)
    if plan.after is not None:
        await _publish(broker, workspace, owner, plan.after, topic)
    return id


async def _publish(broker: Broker, workspace: str, owner: str, record: Record, topic: str) -> None:
    await push(broker, workspace, {owner: apply_plan.encode(record)}, topic=topic + OWNERS)
