"""Looks at a broker, and does the steps of a plan."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, Final, TypeVar

from trustgraph_prompt.broker.pulsar_admin.client import PulsarAdmin
from trustgraph_prompt.broker.pulsar_admin.layout import Layout, Topic
from trustgraph_prompt.broker.pulsar_admin.plan import (
    Found,
    FoundTopic,
    Step,
    compare,
    namespace_path,
    steps,
    topic_path,
)
from trustgraph_prompt.errors import BrokerUnavailable

T = TypeVar("T")

_SECONDS_UNTIL_IN_FORCE: Final = 30.0
_SECONDS_UNTIL_UNDONE: Final = 3.0
_PAUSE_SECONDS: Final = 0.05

_DISABLED: Final = 405


async def look(admin: PulsarAdmin, wanted: Layout) -> Found:
    """What there is of what is wanted. Changes nothing. Raises `BrokerError`, `ConfigError`."""
    clusters = _names(await admin.get("clusters", list)) - {"global"}
    if not clusters:  # there are none at first, even of a broker that is healthy
        raise BrokerUnavailable(f"{admin.url}: no cluster is registered yet; try again in a moment")
    tenants = sorted({name.partition("/")[0] for name in wanted.namespaces})
    in_tenants = await _together(admin.get(namespace_path(tenant), list) for tenant in tenants)
    there = wanted.namespaces.keys() & {name for names in in_tenants for name in _names(names)}
    policies = await _together(admin.get(namespace_path(name), dict) for name in there)
    namespaces = {name: found or {} for name, found in zip(there, policies, strict=True)}
    topics = [topic for topic in wanted.topics if topic.namespace in namespaces]
    found = await _together(_topic(admin, topic, namespaces[topic.namespace]) for topic in topics)
    return Found(
        clusters=tuple(sorted(clusters)),
        tenants=frozenset(name for name, names in zip(tenants, in_tenants, strict=True) if names is not None),
        namespaces=namespaces,
        topics={topic.name: state for topic, state in zip(topics, found, strict=True) if state is not None},
    )


async def carry_out(admin: PulsarAdmin, wanted: Layout, step: Step) -> bool:
    """Do it and see it in force; False where somebody had done it in the meantime.

    Raises as `look` does, also `BrokerUnavailable` where it does not come into force.
    """
    done = await admin.send(step.method, step.path, step.body)
    if step.policy_of is None:
        return done
    # A broker sets one policy of a topic by writing down all of them, as it knows them, and it knows what it
    # has written only a little later. So one at a time; and who sets another at the same time undoes ours.
    clock = asyncio.get_running_loop().time
    ours = wanted.only(step.policy_of)
    again, deadline = clock() + _SECONDS_UNTIL_UNDONE, clock() + _SECONDS_UNTIL_IN_FORCE
    while step in steps(compare(ours, await look(admin, ours))):
        if clock() > deadline:
            raise BrokerUnavailable(f"{admin.url}: not in force after {_SECONDS_UNTIL_IN_FORCE:g} s")
        if clock() > again:
            await admin.send(step.method, step.path, step.body)
            again = clock() + _SECONDS_UNTIL_UNDONE
        await asyncio.sleep(_PAUSE_SECONDS)
    return done


async def _topic(admin: PulsarAdmin, topic: Topic, namespace: Mapping[str, Any]) -> FoundTopic | None:
    path = topic_path(topic.name)
    subscriptions = await admin.get(f"{path}/subscriptions", list)
    if subscriptions is None:
        return None
    names = _names(subscriptions)
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


def _names(values: list[Any] | None) -> frozenset[str]:
    return frozenset(value for value in values or () if isinstance(value, str))


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
