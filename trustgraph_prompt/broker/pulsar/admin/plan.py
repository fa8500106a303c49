"""Compares the topics that a worker needs with those that exist, and plans the missing steps.

No step deletes data or shortens how long it is kept: a difference that would need that is only reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final, Literal, Self
from urllib.parse import quote

from trustgraph_prompt.broker import topics

FOR_EVER: Final = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
MINUTES_OF_TRAFFIC: Final = {"retentionTimeInMinutes": 3, "retentionSizeInMB": -1}

#: Bytes after which the broker compacts a table.
COMPACTION_THRESHOLD: Final = 1_048_576


@dataclass(frozen=True, slots=True)
class Topic:
    """A required topic, by its URI. A `table` is compacted: its readers need the last message of each key.

    Messages must not be retained for more than `longest_retention` seconds: what their readers need besides
    is deleted then.
    """

    name: str
    subscriptions: tuple[str, ...] = ()
    table: bool = False
    longest_retention: float = inf

    @property
    def namespace(self) -> str:
        """The `tenant/namespace` of the topic."""
        return topics.namespace_of(self.name)

    def united(self, other: Topic) -> Topic:
        """Merge the requirements of two uses of a topic."""
        subscriptions = dict.fromkeys(self.subscriptions + other.subscriptions)
        longest = min(self.longest_retention, other.longest_retention)
        return Topic(self.name, tuple(subscriptions), self.table or other.table, longest)


@dataclass(frozen=True, slots=True)
class RequiredTopics:
    """`namespaces` (`tenant/namespace`) with the policies to create them with, and persistent `topics`."""

    namespaces: Mapping[str, Mapping[str, Any]]
    topics: tuple[Topic, ...] = ()

    @classmethod
    def of(cls, used: Iterable[Topic]) -> Self:
        """Collect the requirements of all uses of topics; a non-persistent topic needs only a namespace.

        A namespace that has only tables retains them for ever, including those that are created later.
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
        """Return the namespaces that TrustGraph's own `PulsarTopology` creates for its topics (2.11.1)."""
        brief = {"retention_policies": MINUTES_OF_TRAFFIC}
        return cls(
            {
                f"{tenant}/flow": {},
                f"{tenant}/notify": brief,
                f"{tenant}/request": {},
                f"{tenant}/response": brief,
            }
        )


Kind = Literal["tenant", "namespace", "topic", "subscription", "policy"]
State = Literal["ok", "missing", "differs"]

#: The message id before all messages.
_EARLIEST: Final = {"ledgerId": -1, "entryId": -1, "partitionIndex": -1}
_KEPT_WHILE_IDLE: Final = {
    "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
    "maxInactiveDurationSeconds": 60,  # required, but without effect
    "deleteWhileInactive": False,
}


@dataclass(frozen=True, slots=True)
class AdminStep:
    """A request to the admin API, below `/admin/v2/`: PUT creates, POST sets a policy of a topic."""

    what: str
    method: Literal["PUT", "POST"]
    path: str
    body: Any = None


@dataclass(frozen=True, slots=True)
class Finding:
    """The state of one item; `of` is its topic or namespace. `step` corrects it, if that is possible."""

    kind: Kind
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
    """An existing topic: its compaction threshold in bytes, 0 for none; whether it is kept while unused.

    `retention` is in seconds, from a message's acknowledgement.
    """

    subscriptions: frozenset[str] = frozenset()
    compaction: int = 0
    kept: bool = False
    retention: float = 0.0

    @classmethod
    def under(cls, policies: Mapping[str, Any], subscriptions: frozenset[str] = frozenset()) -> Self:
        """Make a topic from its policies, which have the names of namespace policies."""
        threshold = policies.get("compaction_threshold")
        retention = policies.get("retention_policies")
        inactivity = policies.get("inactive_topic_policies")
        minutes = retention.get("retentionTimeInMinutes") if isinstance(retention, dict) else 0
        seconds = inf if minutes == -1 else 60.0 * minutes if isinstance(minutes, int) else 0.0
        kept = isinstance(inactivity, dict) and inactivity.get("deleteWhileInactive") is False
        compaction = threshold if isinstance(threshold, int) else 0
        return cls(subscriptions, compaction, kept or seconds == inf, seconds)


@dataclass(frozen=True, slots=True)
class Found:
    """What exists of the required items: `namespaces` with their policies, `tenants`, `topics` by name."""

    clusters: tuple[str, ...]
    tenants: frozenset[str] = frozenset()
    namespaces: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    topics: Mapping[str, FoundTopic] = field(default_factory=dict)


def compare(wanted: RequiredTopics, found: Found) -> list[Finding]:
    """Return a finding for each required item, with steps in an order that works."""
    return [
        *_tenants(wanted, found),
        *_namespaces(wanted, found),
        *(finding for topic in wanted.topics for finding in _topic(topic, wanted, found)),
    ]


def steps(findings: Iterable[Finding]) -> list[AdminStep]:
    """Return the steps of the findings."""
    return [finding.step for finding in findings if finding.step is not None]


def topic_path(name: str) -> str:
    """Return the path of a topic in the admin API."""
    persistence, _, rest = name.partition("://")
    return f"{persistence}/" + "/".join(quote(part, safe=":") for part in rest.split("/", 2))


def namespace_path(name: str) -> str:
    """Return the path of a `tenant/namespace` in the admin API."""
    return "namespaces/" + quote(name, safe="/:")


def _item(kind: Kind, name: str, of: str | None, step: AdminStep, *, exists: bool) -> Finding:
    """Report an item, with the step that makes it if it does not exist."""
    return Finding(kind, name, "ok", of) if exists else Finding(kind, name, "missing", of, step=step)


def _tenants(wanted: RequiredTopics, found: Found) -> Iterator[Finding]:
    clusters = list(found.clusters)
    for tenant in dict.fromkeys(name.partition("/")[0] for name in wanted.namespaces):
        what = f"create tenant {tenant}, for {', '.join(clusters)}"
        body = {"adminRoles": [], "allowedClusters": clusters}
        step = AdminStep(what, "PUT", "tenants/" + quote(tenant, safe=":"), body)
        yield _item("tenant", tenant, None, step, exists=tenant in found.tenants)


def _namespaces(wanted: RequiredTopics, found: Found) -> Iterator[Finding]:
    with_subscriptions = {topic.namespace for topic in wanted.topics if topic.subscriptions}
    for name, policies in wanted.namespaces.items():
        tables = ", which retains its tables" if "compaction_threshold" in policies else ""
        step = AdminStep(f"create namespace {name}{tables}", "PUT", namespace_path(name), dict(policies))
        yield _item("namespace", name, None, step, exists=name in found.namespaces)
        if name in found.namespaces and name in with_subscriptions:
            yield from _expiry(name, found.namespaces[name])


def _expiry(namespace: str, policies: Mapping[str, Any]) -> Iterator[Finding]:
    """Report policies that delete unconsumed messages. An operator has set them, so no step changes them."""
    if seconds := policies.get("message_ttl_in_seconds"):
        lost = f"messages expire after {seconds} s"
        yield Finding("policy", "message-ttl", "differs", namespace, found=lost, expected="none")
    if minutes := policies.get("subscription_expiration_time_minutes"):
        lost = f"unused subscriptions are deleted after {minutes} min, with their messages"
        yield Finding("policy", "subscription-expiration", "differs", namespace, found=lost, expected="none")


def _topic(topic: Topic, wanted: RequiredTopics, found: Found) -> Iterator[Finding]:
    path, existing = topic_path(topic.name), found.topics.get(topic.name)
    step = AdminStep(f"create topic {topic.name}", "PUT", path)
    yield _item("topic", topic.name, None, step, exists=existing is not None)
    for name in topic.subscriptions:
        what = f"subscribe {name} to {topic.name}, from the earliest message"
        step = AdminStep(what, "PUT", f"{path}/subscription/{quote(name, safe=':')}", _EARLIEST)
        subscribed = existing is not None and name in existing.subscriptions
        yield _item("subscription", name, topic.name, step, exists=subscribed)
    # A new topic has the policies of its namespace, which may be new as well.
    namespace = topic.namespace
    state = existing or FoundTopic.under(found.namespaces.get(namespace, wanted.namespaces[namespace]))
    yield from _policies(topic, state, exists=existing is not None)


def _policies(topic: Topic, state: FoundTopic, *, exists: bool) -> Iterator[Finding]:
    path = topic_path(topic.name)
    if topic.table:
        expected = f"from {COMPACTION_THRESHOLD:,} bytes on"
        what = f"compact {topic.name} {expected}"
        step = AdminStep(what, "POST", f"{path}/compactionThreshold", COMPACTION_THRESHOLD)
        holds = state.compaction > 0
        yield from _policy("compaction", topic.name, step, "never", expected, holds=holds, exists=exists)
    if not topic.subscriptions:
        what = f"keep {topic.name} while it is unused"
        step = AdminStep(what, "POST", f"{path}/inactiveTopicPolicies", _KEPT_WHILE_IDLE)
        lost = "deleted when unused"
        yield from _policy("inactive-topic", topic.name, step, lost, "kept", holds=state.kept, exists=exists)
    if topic.longest_retention < inf:
        yield from _retention(topic, state, exists=exists)


def _retention(topic: Topic, state: FoundTopic, *, exists: bool) -> Iterator[Finding]:
    """Report objects that outlive the records that name them; both times are an operator's choice."""
    if state.retention > topic.longest_retention:
        found = "for ever" if state.retention == inf else f"{state.retention / 86_400:g} d"
        expected = f"at most {topic.longest_retention / 86_400:g} d, the flow's `keep-answers`"
        yield Finding("policy", "retention", "differs", topic.name, found=found, expected=expected)
    elif exists:
        yield Finding("policy", "retention", "ok", topic.name)


def _policy(
    name: str, topic: str, step: AdminStep, found: str, expected: str, *, holds: bool, exists: bool
) -> Iterator[Finding]:
    """Report a policy, unless a new topic gets it from its namespace."""
    if exists and holds:
        yield Finding("policy", name, "ok", topic)
    elif exists:
        yield Finding("policy", name, "differs", topic, found=found, expected=expected, step=step)
    elif not holds:
        yield Finding("policy", name, "missing", topic, expected=expected, step=step)
