"""Looks at a broker, and does the steps of a plan."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import quote

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

_SECONDS_UNTIL_IN_FORCE: Final = 30.0
_SECONDS_UNTIL_UNDONE: Final = 3.0
_SECONDS_UNTIL_MADE: Final = 0.5
_PAUSE_SECONDS: Final = 0.05

_PARTITION: Final = re.compile(r"-partition-\d+$")

#: Where topics have no policies of their own, those of the namespace count.
_DISABLED: Final = 405

#: What a policy of a namespace is called as one of a topic, and what it is.
_POLICIES: Final[dict[str, tuple[str, type[Any]]]] = {
    "compaction_threshold": ("compactionThreshold", int),
    "inactive_topic_policies": ("inactiveTopicPolicies", dict),
    "retention_policies": ("retention", dict),
}


async def look(admin: PulsarAdmin, wanted: RequiredTopics) -> Found:
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


async def topics_in(admin: PulsarAdmin, namespaces: Iterable[str]) -> frozenset[str]:
    """The persistent topics of these `tenant/namespace`; a partitioned one once. Raises as `look` does."""
    paths = [f"persistent/{quote(name, safe='/:')}" for name in dict.fromkeys(namespaces)]
    asked = [f"{path}{kind}" for path in paths for kind in ("", "/partitioned")]
    listed = await _together(admin.get(path, list) for path in asked)
    return frozenset(_PARTITION.sub("", name) for names in listed for name in _names(names))


async def subscriptions_of(admin: PulsarAdmin, topics: Iterable[str]) -> dict[str, frozenset[str]]:
    """Those of the topics that there are, with their subscriptions. Raises as `look` does."""
    names = list(topics)
    found = await _together(admin.get(f"{topic_path(name)}/subscriptions", list) for name in names)
    return {name: _names(each) for name, each in zip(names, found, strict=True) if each is not None}


async def carry_out(admin: PulsarAdmin, step: AdminStep) -> bool:
    """Do it and see it in force; False where somebody had done it in the meantime.

    Raises as `look` does, also `BrokerUnavailable` where it does not come into force.
    """
    try:
        done = await admin.send(step.method, step.path, step.body)
    except BrokerError:
        # Who makes what another is making is told 409 a moment later, but now HTTP 500 (a tenant: "Version
        # mismatch") or 412 (a subscription: "Failed to fence"), says 4.0.6.
        await asyncio.sleep(_SECONDS_UNTIL_MADE)
        done = await admin.send(step.method, step.path, step.body)
    if step.method == "PUT":
        return done
    # A broker sets one policy of a topic by writing down all of them, as it knows them, and it knows what it
    # has written only a little later. So one at a time; and who sets another at the same time undoes ours.
    clock = asyncio.get_running_loop().time
    again, deadline = clock() + _SECONDS_UNTIL_UNDONE, clock() + _SECONDS_UNTIL_IN_FORCE
    while not _says(await admin.get(step.path, type(step.body)), step.body):
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
    own = {
        of_namespace: await admin.get(f"{path}/{of_topic}?applied=true", kind, none=(404, _DISABLED))
        for of_namespace, (of_topic, kind) in _POLICIES.items()
    }
    return FoundTopic.under(
        {**namespace, **{name: policy for name, policy in own.items() if policy is not None}}, names
    )


def _says(policy: Any, wanted: Any) -> bool:
    """Whether a policy is as it was set; it may have fields that nobody here knows."""
    if isinstance(policy, dict):
        return all(policy.get(name) == value for name, value in wanted.items())
    return bool(policy == wanted)


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
