"""Names of topics: TrustGraph's `class:space:name`, Pulsar's URIs, and a subscription's own topics.

`flow:tg:x` is `persistent://tg/flow/x`; the classes `request`, `response` and `notify` are non-persistent.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from trustgraph_prompt.errors import TopicInvalid

#: The subscription that keeps dead letters on their topic until somebody has dealt with them.
DEAD_LETTER_SUBSCRIPTION: Final = "dead"

_PERSISTENCE: Final = {
    "flow": "persistent",
    "request": "non-persistent",
    "response": "non-persistent",
    "notify": "non-persistent",
}
_URI: Final = re.compile(
    r"(?P<persistence>persistent|non-persistent)://"
    r"(?P<tenant>[\w=:.-]+)/(?P<namespace>[\w=:.-]+)/(?P<name>[^\s/\x00-\x1f\x7f\ud800-\udfff]+)",
    re.ASCII,
)
_SUBSCRIPTION: Final = re.compile(r"[^\s/\x00-\x1f\x7f\ud800-\udfff]+")
_LONGEST: Final = 512


@lru_cache(1024)
def resolve(topic: str) -> str:
    """The full name: a URI stays as it is, `class:space:name` becomes one. Raises `TopicInvalid`."""
    if "://" not in topic:
        topic = _from_queue_name(topic)
    if len(topic) > _LONGEST:
        raise TopicInvalid(f"the topic name is {len(topic)} characters long, {_LONGEST} are allowed")
    if not _URI.fullmatch(topic):
        raise TopicInvalid(
            f"{topic!r} is no topic: expected persistent://tenant/namespace/name, "
            "non-persistent://tenant/namespace/name or class:space:name"
        )
    return topic


def queue_name(topic: str) -> str:
    """TrustGraph's `class:space:name` of a topic; the URI where its class does not imply the persistence."""
    match = _URI.fullmatch(resolve(topic))
    if match is None or _PERSISTENCE.get(match["namespace"]) != match["persistence"]:
        return topic
    return f"{match['namespace']}:{match['tenant']}:{match['name']}"


def namespace_of(topic: str) -> str:
    """The `tenant/namespace` of a topic's full name."""
    return topic.partition("://")[2].rpartition("/")[0]


def is_persistent(topic: str) -> bool:
    """Whether the topic keeps messages for who is not there."""
    return resolve(topic).startswith("persistent://")


def check_subscription(name: str) -> str:
    """The name, where it may be part of a topic name; raises `TopicInvalid`."""
    if len(name) > _LONGEST or not _SUBSCRIPTION.fullmatch(name):
        raise TopicInvalid(f"{name[:_LONGEST]!r} is no subscription name: no blanks, no slashes, not empty")
    return name


def check_place(topic: str, subscription: str) -> None:
    """Raise `TopicInvalid` where the names of the subscription's own topics are too long."""
    if not is_letter_topic(topic):
        dead_letter_topic(topic, subscription)
    if is_persistent(topic):
        retry_topic(topic, subscription)


def retry_topic(topic: str, subscription: str) -> str:
    """Where a subscription puts what it wants to see again later; for dead letters, where they are."""
    if not is_persistent(topic):
        raise no_retry(topic)
    if topic.endswith("-DLQ") and subscription == DEAD_LETTER_SUBSCRIPTION:
        return resolve(topic)
    return resolve(f"{resolve(topic)}-{check_subscription(subscription)}-RETRY")


def no_retry(topic: str) -> TopicInvalid:
    """Why nothing received from a topic that is not persistent has a retry topic to go to."""
    return TopicInvalid(f"{topic} is not persistent: what was received from it cannot come again later")


def dead_letter_topic(topic: str, subscription: str) -> str:
    """Where a subscription puts what cannot be served; persistent, also beside a topic that is not."""
    persistent = "persistent://" + resolve(topic).partition("://")[2]
    return resolve(f"{persistent}-{check_subscription(subscription)}-DLQ")


def in_work_topic(topic: str, subscription: str) -> str:
    """A table of what the workers of a subscription have in work."""
    return resolve(f"{resolve(topic)}-{check_subscription(subscription)}-WORK")


def is_letter_topic(topic: str) -> bool:
    """Whether the topic holds retry or dead letters, whose properties tell where they came from."""
    return topic.endswith(("-RETRY", "-DLQ"))


def _from_queue_name(name: str) -> str:
    kind, _, rest = name.partition(":")
    space, _, local = rest.partition(":")
    if kind not in _PERSISTENCE or not space or not local:
        raise TopicInvalid(
            f"{name[:_LONGEST]!r} is no topic: expected class:space:name with class {', '.join(_PERSISTENCE)}"
        )
    return f"{_PERSISTENCE[kind]}://{space}/{kind}/{local}"
