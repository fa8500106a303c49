"""What must be there before a worker starts: namespaces, and persistent topics with their subscriptions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

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
class Layout:
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
