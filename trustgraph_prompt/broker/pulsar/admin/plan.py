"""Compares the topics that a worker needs with those found: findings, and the steps that mend them.

No step deletes, shortens or lowers anything; a finding that would need such a step is reported and left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self
from urllib.parse import quote

from trustgraph_prompt.broker import topics

FOR_EVER: Final = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
MINUTES_OF_TRAFFIC: Final = {"retentionTimeInMinutes": 3, "retentionSizeInMB": -1}

#: Bytes that are published before the broker compacts a table.
COMPACTION_THRESHOLD: Final = 1_048_576


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic by its full name. A `table` is compacted: readers want the last message of each key."""

    name: str
    subscriptions: tuple[str, ...] = ()
    table: bool = False

    @property
    def namespace(self) -> str:
        """`tenant/namespace`."""
        return topics.namespace_of(self.name)

    def united(self, other: Topic) -> Topic:
        """One topic that is used in both ways."""
        subscriptions = dict.fromkeys(self.subscriptions + other.subscriptions)
        return Topic(self.name, tuple(subscriptions), self.table or other.table)


@dataclass(frozen=True, slots=True)
class RequiredTopics:
    """`namespaces` by `tenant/namespace`, with the policies they are made with; persistent `topics`."""

    namespaces: Mapping[str, Mapping[str, Any]]
    topics: tuple[Topic, ...] = ()

    @classmethod
    def of(cls, used: Iterable[Topic]) -> Self:
        """What these topics need, each told as often as it is used; non-persistent ones only a namespace.

        A namespace of nothing but tables keeps them for ever, whoever makes the next one in it.
        """
        used = list(used)
        united: dict[str, Topic] = {}
        for topic in filter(lambda topic: topics.is_persistent(topic.name), used):
            united[topic.name] = united.get(topic.name, topic).united(topic)
        shared = {
            topic.namespace for topic in used if topic.name not in united or not united[topic.name].table
        }
        keeping = {"retention_policies": FOR_EVER, "compaction_threshold": COMPACTION_THRESHOLD}
        namespaces = {topic.namespace: {} if topic.namespace in shared else keeping for topic in used}
        return cls(dict(sorted(namespaces.items())), tuple(united.values()))

    @classmethod
    def of_trustgraph(cls, tenant: str = "tg") -> Self:
        """The namespaces of TrustGraph's classes, as its own `PulsarTopology` makes them (2.11.1)."""
        brief = {"retention_policies": MINUTES_OF_TRAFFIC}
        return cls(
            {
                f"{tenant}/flow": {},
                f"{tenant}/notify": brief,
                f"{tenant}/request": {},
                f"{tenant}/response": brief,
            }
        )


State = Literal["ok", "missing", "differs"]

#: Of a message id: before whatever the topic holds.
_EARLIEST: Final = {"ledgerId": -1, "entryId": -1, "partitionIndex": -1}
_KEPT_WHILE_IDLE: Final = {
    "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
    "maxInactiveDurationSeconds": 60,  # must be there, and is of no consequence
    "deleteWhileInactive": False,
}


@dataclass(frozen=True, slots=True)
class AdminStep:
    """A request of the admin API, below `/admin/v2/`: PUT makes something, POST sets a policy of a topic."""

    what: str
    method: Literal["PUT", "POST"]
    path: str
    body: Any = None


@dataclass(frozen=True, slots=True)
class Finding:
    """About one thing; `of` is the topic or namespace it belongs to. Without a `step` it is as it is."""

    kind: Literal["tenant", "namespace", "topic", "subscription", "policy"]
    name: str
    state: State
    of: str | None = None
    found: str | None = None
    expected: str | None = None
    step: AdminStep | None = None

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name}" + (f" of {self.of}" if self.of else "")


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """`compaction` is from how many bytes on, 0 for never; `kept` whether it stays when nobody uses it."""

    subscriptions: frozenset[str] = frozenset()
    compaction: int = 0
    kept: bool = False

    @classmethod
    def under(cls, policies: Mapping[str, Any], subscriptions: frozenset[str] = frozenset()) -> Self:
        """A topic for which these policies hold; they have the names that those of a namespace have."""
        threshold = policies.get("compaction_threshold")
        retention = policies.get("retention_policies")
        inactivity = policies.get("inactive_topic_policies")
        for_ever = isinstance(retention, dict) and retention.get("retentionTimeInMinutes") == -1
        spared = isinstance(inactivity, dict) and inactivity.get("deleteWhileInactive") is False
        return cls(subscriptions, threshold if isinstance(threshold, int) else 0, for_ever or spared)


@dataclass(frozen=True, slots=True)
class Found:
    """What there is: `namespaces` with their policies, those of `tenants` that exist, topics by name."""

    clusters: tuple[str, ...]
    tenants: frozenset[str] = frozenset()
    namespaces: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    topics: Mapping[str, FoundTopic] = field(default_factory=dict)


def compare(wanted: RequiredTopics, found: Found) -> list[Finding]:
    """A finding for each thing that is wanted; their steps in an order in which they can be done."""
    return [
        *_tenants(wanted, found),
        *_namespaces(wanted, found),
        *(finding for topic in wanted.topics for finding in _topic(topic, wanted, found)),
    ]


def steps(findings: Iterable[Finding]) -> list[AdminStep]:
    """What is to be done."""
    return [finding.step for finding in findings if finding.step is not None]


def topic_path(name: str) -> str:
    """The path of a topic in the admin API."""
    persistence, _, rest = name.partition("://")
    return f"{persistence}/" + "/".join(quote(part, safe=":") for part in rest.split("/", 2))


def namespace_path(name: str) -> str:
    """The path of a `tenant/namespace`."""
    return "namespaces/" + quote(name, safe="/:")


def _tenants(wanted: RequiredTopics, found: Found) -> Iterator[Finding]:
    for tenant in dict.fromkeys(name.partition("/")[0] for name in wanted.namespaces):
        if tenant in found.tenants:
            yield Finding("tenant", tenant, "ok")
            continue
        clusters = list(found.clusters)
        body = {"adminRoles": [], "allowedClusters": clusters}
        what = f"create tenant {tenant}, for {', '.join(clusters)}"
        step = AdminStep(what, "PUT", "tenants/" + quote(tenant, safe=":"), body)
        yield Finding("tenant", tenant, "missing", step=step)


def _namespaces(wanted: RequiredTopics, found: Found) -> Iterator[Finding]:
    waited_in = {topic.namespace for topic in wanted.topics if topic.subscriptions}
    for name, policies in wanted.namespaces.items():
        if name in found.namespaces:
            yield Finding("namespace", name, "ok")
            if name in waited_in:
                yield from _losses(name, found.namespaces[name])
            continue
        what = f"create namespace {name}" + (
            ", which keeps its tables" if "compaction_threshold" in policies else ""
        )
        step = AdminStep(what, "PUT", namespace_path(name), dict(policies))
        yield Finding("namespace", name, "missing", step=step)


def _losses(namespace: str, policies: Mapping[str, Any]) -> Iterator[Finding]:
    """Where somebody has decided that what waits too long is lost: that is theirs to undo."""
    if seconds := policies.get("message_ttl_in_seconds"):
        lost = f"what waits longer than {seconds} s is lost"
        yield Finding("policy", "message-ttl", "differs", namespace, found=lost, expected="none")
    if minutes := policies.get("subscription_expiration_time_minutes"):
        lost = f"a subscription that nobody uses for {minutes} min is lost with what waits in it"
        yield Finding("policy", "subscription-expiration", "differs", namespace, found=lost, expected="none")


def _topic(topic: Topic, wanted: RequiredTopics, found: Found) -> Iterator[Finding]:
    path = topic_path(topic.name)
    there = found.topics.get(topic.name)
    if there is not None:
        yield Finding("topic", topic.name, "ok")
    else:
        yield Finding(
            "topic", topic.name, "missing", step=AdminStep(f"create topic {topic.name}", "PUT", path)
        )
    for name in topic.subscriptions:
        if there is not None and name in there.subscriptions:
            yield Finding("subscription", name, "ok", topic.name)
            continue
        what = f"subscribe {name} to {topic.name}, from its earliest message on"
        step = AdminStep(what, "PUT", f"{path}/subscription/{quote(name, safe=':')}", _EARLIEST)
        yield Finding("subscription", name, "missing", topic.name, step=step)
    # One that is made now is under the policies of its namespace, be that made now or not.
    namespace = topic.namespace
    state = there or FoundTopic.under(found.namespaces.get(namespace, wanted.namespaces[namespace]))
    exists = there is not None
    if topic.table:
        expected = f"from {COMPACTION_THRESHOLD:,} bytes on"
        step = AdminStep(
            f"compact {topic.name} {expected}", "POST", f"{path}/compactionThreshold", COMPACTION_THRESHOLD
        )
        holds = state.compaction > 0
        yield from _policy("compaction", topic.name, step, "never", expected, holds=holds, exists=exists)
    if not topic.subscriptions:
        what = f"keep {topic.name} while nobody uses it"
        step = AdminStep(what, "POST", f"{path}/inactiveTopicPolicies", _KEPT_WHILE_IDLE)
        lost = "deleted when nobody uses it"
        yield from _policy("inactive-topic", topic.name, step, lost, "kept", holds=state.kept, exists=exists)


def _policy(
    name: str, topic: str, step: AdminStep, found: str, expected: str, *, holds: bool, exists: bool
) -> Iterator[Finding]:
    """Nothing is said of a topic that is not there and will get the policy from its namespace."""
    if exists and holds:
        yield Finding("policy", name, "ok", topic)
    elif exists:
        yield Finding("policy", name, "differs", topic, found=found, expected=expected, step=step)
    elif not holds:
        yield Finding("policy", name, "missing", topic, expected=expected, step=step)
