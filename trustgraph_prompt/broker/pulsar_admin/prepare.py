"""Looks at a broker, and does the steps of a plan."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, Final, TypeVar

from trustgraph_prompt.broker.pulsar_admin.client import PulsarAdmin
from trustgraph_prompt.broker.pulsar_admin.layout import Layout, Topic
from trustgraph_prompt.broker.pulsar_admin.plan import (
    Finding,
    Found,
    FoundTopic,
    Step,
    compare,
    namespace_path,
    topic_path,
)
from trustgraph_prompt.errors import BrokerUnavailable

T = TypeVar("T")

#: A broker answers before the policy of a topic is in force.
_SECONDS_UNTIL_IN_FORCE: Final = 30.0
_PAUSE_SECONDS: Final = 0.2

_DISABLED: Final = 405


async def look(admin: PulsarAdmin, wanted: Layout) -> Found:
    """What there is of what is wanted. Changes nothing. Raises `BrokerError`, `ConfigError`."""
    # There are none at first, even of a broker that is healthy.
    clusters = [name for name in await admin.get("clusters", list) or () if name != "global"]
    if not clusters:
        raise BrokerUnavailable(f"{admin.url}: no cluster is registered yet; try again in a moment")
    tenants = sorted({name.partition("/")[0] for name in wanted.namespaces})
    of_tenants = dict(
        zip(tenants, await _together(admin.get(namespace_path(name), list) for name in tenants), strict=True)
    )
    there = {name for names in of_tenants.values() for name in names or ()} & wanted.namespaces.keys()
    namespaces = {name: await admin.get(namespace_path(name), dict) or {} for name in sorted(there)}
    topics = [topic for topic in wanted.topics if topic.namespace in namespaces]
    found = await _together(_topic(admin, topic, namespaces[topic.namespace]) for topic in topics)
    return Found(
        clusters=tuple(clusters),
        tenants=frozenset(name for name, names in of_tenants.items() if names is not None),
        namespaces=namespaces,
        topics={topic.name: state for topic, state in zip(topics, found, strict=True) if state is not None},
    )


async def carry_out(admin: PulsarAdmin, step: Step) -> bool:
    """Do it; False where it had been done in the meantime. Raises as `look` does."""
    return await admin.send(step.method, step.path, step.body)


async def see_it_in_force(admin: PulsarAdmin, wanted: Layout) -> list[Finding]:
    """What is still to be mended after all steps: nothing, soon. Raises as `look` does."""
    deadline = asyncio.get_running_loop().time() + _SECONDS_UNTIL_IN_FORCE
    while True:
        left = [finding for finding in compare(wanted, await look(admin, wanted)) if finding.step]
        if not left or asyncio.get_running_loop().time() > deadline:
            return left
        await asyncio.sleep(_PAUSE_SECONDS)


async def _topic(admin: PulsarAdmin, topic: Topic, namespace: Mapping[str, Any]) -> FoundTopic | None:
    path = topic_path(topic.name)
    subscriptions = await admin.get(f"{path}/subscriptions", list)
    if subscriptions is None:
        return None
    names = frozenset(name for name in subscriptions if isinstance(name, str))
    if topic.subscriptions and not topic.table:
        return FoundTopic(names)

    async def policy(kind: type[T], name: str, of_namespace: str) -> T | None:
        """What holds for the topic; where topics have no policies of their own, what its namespace says."""
        in_force = await admin.get(f"{path}/{name}?applied=true", kind, none=(404, _DISABLED))
        of_all = namespace.get(of_namespace)
        return in_force if in_force is not None else of_all if isinstance(of_all, kind) else None

    inactivity = await policy(dict, "inactiveTopicPolicies", "inactive_topic_policies") or {}
    retention = await policy(dict, "retention", "retention_policies") or {}
    return FoundTopic(
        names,
        compaction=await policy(int, "compactionThreshold", "compaction_threshold") or 0,
        kept=inactivity.get("deleteWhileInactive") is False or retention.get("retentionTimeInMinutes") == -1,
    )


async def _together(asked: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """All results; at the first failure the others are given up."""
    tasks = [asyncio.ensure_future(each) for each in asked]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
