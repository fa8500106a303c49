"""Inspects a broker over the admin API, and carries out the steps of a plan."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Iterable, Mapping
from math import inf
from typing import Any, Final, TypeVar
from urllib.parse import quote

from trustgraph_prompt.broker import topics as names
from trustgraph_prompt.broker.pulsar.admin.client import PulsarAdmin
from trustgraph_prompt.broker.pulsar.admin.plan import (
    AdminStep,
    Found,
    FoundTopic,
    RequiredTopics,
    Topic,
    namespace_path,
    topic_path,
)
from trustgraph_prompt.errors import BrokerError, BrokerUnavailable

T = TypeVar("T")

_POLICY_SECONDS: Final = 30.0
_POLICY_RETRY_SECONDS: Final = 3.0
_CONFLICT_SECONDS: Final = 0.5
_POLL_SECONDS: Final = 0.05

_PARTITION: Final = re.compile(r"-partition-\d+$")

#: The status if the broker has policies of topics disabled; those of the namespace apply then.
_DISABLED: Final = 405

#: Name and type of the topic policy for each policy of a namespace.
_POLICIES: Final[dict[str, tuple[str, type[Any]]]] = {
    "compaction_threshold": ("compactionThreshold", int),
    "inactive_topic_policies": ("inactiveTopicPolicies", dict),
    "retention_policies": ("retention", dict),
}


async def look(admin: PulsarAdmin, wanted: RequiredTopics) -> Found:
    """Return what exists of the required items. Changes nothing. Raises `BrokerError`, `ConfigError`."""
    clusters = _names(await admin.get("clusters", list)) - {"global"}
    if not clusters:  # even a healthy broker starts without
        raise BrokerUnavailable(f"{admin.url}: no cluster registered yet; try again in a moment")
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


async def topics_in(admin: PulsarAdmin, namespaces: Iterable[str]) -> frozenset[str]:
    """Return the persistent topics of namespaces, without their partitions. Raises as `look` does."""
    paths = [f"persistent/{quote(name, safe='/:')}" for name in dict.fromkeys(namespaces)]
    lists = [f"{path}{suffix}" for path in paths for suffix in ("", "/partitioned")]
    listed = await _together(admin.get(path, list) for path in lists)
    return frozenset(_PARTITION.sub("", name) for names in listed for name in _names(names))


async def subscriptions_of(admin: PulsarAdmin, topics: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return the subscriptions of those topics that exist. Raises as `look` does."""
    names = list(topics)
    found = await _together(admin.get(f"{topic_path(name)}/subscriptions", list) for name in names)
    return {name: _names(values) for name, values in zip(names, found, strict=True) if values is not None}


async def backlogs_of(
    admin: PulsarAdmin, subscriptions: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], int]:
    """Return how many messages wait for each subscription of a persistent topic that exists.

    Leaves out the topics whose numbers the broker refuses; raises as `look` does if it refuses all.
    """
    wanted = [pair for pair in subscriptions if names.is_persistent(pair[0])]
    topics = list(dict.fromkeys(topic for topic, _ in wanted))
    refused: list[BrokerError] = []

    async def stats(topic: str) -> dict[str, Any]:
        try:
            return await _stats(admin, topic)
        except BrokerUnavailable:
            raise
        except BrokerError as error:
            refused.append(error)
            return {}

    found = dict(zip(topics, await _together(map(stats, topics)), strict=True))
    if refused and len(refused) == len(topics):
        raise refused[0]
    backlogs = (
        (pair, found[pair[0]].get("subscriptions", {}).get(pair[1], {}).get("msgBacklog")) for pair in wanted
    )
    return {pair: backlog for pair, backlog in backlogs if isinstance(backlog, int)}


async def _stats(admin: PulsarAdmin, topic: str) -> dict[str, Any]:
    path = topic_path(topic)
    found = await admin.get(f"{path}/stats", dict)
    return found or await admin.get(f"{path}/partitioned-stats?perPartition=false", dict) or {}


async def carry_out(admin: PulsarAdmin, step: AdminStep) -> bool:
    """Carry out a step and wait until it is in force. Returns False if another process was faster.

    Raises as `look` does, and `BrokerUnavailable` if the step does not come into force.
    """
    try:
        done = await admin.send(step.method, step.path, step.body)
    except BrokerError:
        # While another process creates the same item, Pulsar 4.0.6 responds with 500 (tenants: "Version
        # mismatch") or 412 (subscriptions: "Failed to fence"), and with 409 a moment later.
        await asyncio.sleep(_CONFLICT_SECONDS)
        done = await admin.send(step.method, step.path, step.body)
    if step.method == "PUT":
        return done
    # To set one policy of a topic, a broker writes all policies that it knows, and it learns of new ones with
    # a delay. So set one at a time, and again if another process has overwritten it.
    clock = asyncio.get_running_loop().time
    retry, deadline = clock() + _POLICY_RETRY_SECONDS, clock() + _POLICY_SECONDS
    while not _is_set(await admin.get(step.path, type(step.body)), step.body):
        if clock() > deadline:
            raise BrokerUnavailable(f"{admin.url}: {step.path} is not in force after {_POLICY_SECONDS:g} s")
        if clock() > retry:
            await admin.send(step.method, step.path, step.body)
            retry = clock() + _POLICY_RETRY_SECONDS
        await asyncio.sleep(_POLL_SECONDS)
    return done


async def _topic(admin: PulsarAdmin, topic: Topic, namespace: Mapping[str, Any]) -> FoundTopic | None:
    path = topic_path(topic.name)
    subscriptions = await admin.get(f"{path}/subscriptions", list)
    if subscriptions is None:
        return None
    names = _names(subscriptions)
    if topic.subscriptions and not topic.table and topic.longest_retention == inf:
        return FoundTopic(names)
    own = {
        of_namespace: await admin.get(f"{path}/{of_topic}?applied=true", kind, none=(404, _DISABLED))
        for of_namespace, (of_topic, kind) in _POLICIES.items()
    }
    return FoundTopic.under(
        {**namespace, **{name: policy for name, policy in own.items() if policy is not None}}, names
    )


def _is_set(policy: Any, wanted: Any) -> bool:
    """Return whether a policy has the wanted value; it may have further fields."""
    if isinstance(policy, dict):
        return all(policy.get(name) == value for name, value in wanted.items())
    return bool(policy == wanted)


def _names(values: list[Any] | None) -> frozenset[str]:
    return frozenset(value for value in values or () if isinstance(value, str))


async def _together(requests: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run requests at once and return their results. Cancels the rest at the first failure."""
    tasks = [asyncio.ensure_future(request) for request in requests]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
