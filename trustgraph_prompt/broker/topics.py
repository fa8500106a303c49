"""Topic names: TrustGraph's `class:space:name`, Pulsar's URIs, and the topics that a subscription owns.

`flow:tg:x` is `persistent://tg/flow/x`; the classes `request`, `response` and `notify` are non-persistent.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from trustgraph_prompt.errors import TopicInvalid

#: The subscription that retains dead letters until an operator handles them.
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
_MAX_LENGTH: Final = 512


@lru_cache(1024)
def resolve(topic: str) -> str:
    """Return the URI of a topic given as a URI or as `class:space:name`. Raises `TopicInvalid`."""
    if "://" not in topic:
        topic = _from_queue_name(topic)
    if len(topic) > _MAX_LENGTH:
        raise TopicInvalid(
            f"{topic[:80]}…: found a topic name of {len(topic)} characters, expected at most {_MAX_LENGTH}"
        )
    if not _URI.fullmatch(topic):
        raise TopicInvalid(
            f"not a topic name: found {topic!r}, expected persistent://tenant/namespace/name, "
            "non-persistent://tenant/namespace/name or class:space:name"
        )
    return topic


def queue_name(topic: str) -> str:
    """Return the `class:space:name` of a topic, or its URI if that class has another persistence."""
    match = _URI.fullmatch(resolve(topic))
    if match is None or _PERSISTENCE.get(match["namespace"]) != match["persistence"]:
        return topic
    return f"{match['namespace']}:{match['tenant']}:{match['name']}"


def namespace_of(topic: str) -> str:
    """Return the `tenant/namespace` of a topic's URI."""
    return topic.partition("://")[2].rpartition("/")[0]


def is_persistent(topic: str) -> bool:
    """Return whether the topic keeps messages for subscriptions without consumers."""
    return resolve(topic).startswith("persistent://")


def check_subscription(name: str) -> str:
    """Return the name if it can be part of a topic name, else raise `TopicInvalid`."""
    if len(name) > _MAX_LENGTH or not _SUBSCRIPTION.fullmatch(name):
        raise TopicInvalid(
            f"not a subscription name: found {name[:_MAX_LENGTH]!r}, "
            f"expected 1 to {_MAX_LENGTH} characters without spaces or slashes"
        )
    return name


def check_own_topics(topic: str, subscription: str) -> None:
    """Raise `TopicInvalid` if the names of the subscription's own topics would be too long."""
    if not is_retry_or_dead_letter(topic):
        dead_letter_topic(topic, subscription)
    if is_persistent(topic):
        retry_topic(topic, subscription)


def retry_topic(topic: str, subscription: str) -> str:
    """Return the topic for messages to retry later; for dead letters the dead-letter topic itself."""
    if not is_persistent(topic):
        raise not_retryable(topic)
    if topic.endswith("-DLQ") and subscription == DEAD_LETTER_SUBSCRIPTION:
        return resolve(topic)
    return resolve(f"{resolve(topic)}-{check_subscription(subscription)}-RETRY")


def check_readable(topic: str) -> str:
    """Return the URI of a topic that can have readers, else raise `TopicInvalid`."""
    topic = resolve(topic)
    if not is_persistent(topic):
        raise TopicInvalid(f"{topic} is not persistent: it has consumers, but no readers")
    return topic


def not_retryable(topic: str) -> TopicInvalid:
    """Return the error of a retry on a non-persistent topic."""
    return TopicInvalid(f"{topic}: messages of a topic that is not persistent cannot be retried")


def dead_letter_topic(topic: str, subscription: str) -> str:
    """Return the topic for messages that cannot be handled; persistent even if the topic is not."""
    persistent = "persistent://" + resolve(topic).partition("://")[2]
    return resolve(f"{persistent}-{check_subscription(subscription)}-DLQ")


def in_progress_topic(topic: str, subscription: str) -> str:
    """Return the compacted topic that lists the messages in progress at the workers of a subscription."""
    return resolve(f"{resolve(topic)}-{check_subscription(subscription)}-WORK")


def is_retry_or_dead_letter(topic: str) -> bool:
    """Return whether the topic holds retries or dead letters, whose properties contain their origin."""
    return topic.endswith(("-RETRY", "-DLQ"))


def _from_queue_name(name: str) -> str:
    kind, _, rest = name.partition(":")
    space, _, local = rest.partition(":")
    if kind not in _PERSISTENCE or not space or not local:
        raise TopicInvalid(
            f"not a topic name: found {name[:_MAX_LENGTH]!r}, expected class:space:name, "
            f"where class is one of {', '.join(_PERSISTENCE)}"
        )
    return f"{_PERSISTENCE[kind]}://{space}/{kind}/{local}"
