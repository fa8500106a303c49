"""Limits of messages, and the properties that retry and dead letters carry.

The property names are those of Pulsar's Java client, so its tools understand our letters. On receipt they are
removed again: the `Message` has the topic, id and time of its first publication.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

from trustgraph_prompt.broker import topics
from trustgraph_prompt.broker.protocol import Message
from trustgraph_prompt.errors import BrokerError, MessageTooLarge

#: Bytes of payload, key and properties together. Pulsar accepts 5 MiB including its own metadata.
MAX_MESSAGE_SIZE: Final = 5_000_000
#: Bytes added to the limit for letters, so that a message of the maximum size still fits into one.
_LETTER_ALLOWANCE: Final = 65_536
_LONGEST_REASON: Final = 4096
#: Seconds, ten years; guards against mistakes such as infinity.
_LONGEST_DELAY: Final = 315_360_000.0

_DELIVERIES: Final = "RECONSUMETIMES"
_DELAY: Final = "DELAY_TIME"
_TOPIC: Final = "REAL_TOPIC"
_SUBSCRIPTION: Final = "REAL_SUBSCRIPTION"
_ID: Final = "ORIGIN_MESSAGE_ID"
_PUBLISHED: Final = "ORIGIN_PUBLISH_TIME"
_ORIGIN: Final = frozenset((_DELIVERIES, _DELAY, _TOPIC, _SUBSCRIPTION, _ID, _PUBLISHED))


class ReceivedFrom(Protocol):
    """The topic and the subscription that a message was received from."""

    @property
    def topic(self) -> str: ...

    @property
    def subscription(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message to publish on one of a subscription's own topics."""

    topic: str
    data: bytes
    key: str | None
    properties: Mapping[str, str]


def check_size(topic: str, data: bytes, key: str | None, properties: Mapping[str, str]) -> int:
    """Return the size in bytes. Raises `MessageTooLarge`, or `BrokerError` for an invalid key or property."""
    try:
        text = sum([len(name.encode()) + len(value.encode()) for name, value in properties.items()])
        size = len(data) + text + len((key or "").encode())
    except AttributeError as error:
        raise BrokerError(f"{topic}: keys and properties must be strings: {error}") from error
    except UnicodeEncodeError as error:
        raise BrokerError(f"{topic}: a key or property cannot be encoded as UTF-8: {error}") from error
    limit = MAX_MESSAGE_SIZE
    if size > limit and topics.is_retry_or_dead_letter(topic):
        limit += _LETTER_ALLOWANCE
    if size > limit:
        raise MessageTooLarge(f"{topic}: found a message of {size:,} bytes, expected at most {limit:,}")
    return size


def check_delay(topic: str, seconds: float | None) -> None:
    """Raise `BrokerError` for a delay that is not finite or too long; a negative one means no delay."""
    if seconds is not None and not -_LONGEST_DELAY <= seconds <= _LONGEST_DELAY:
        raise BrokerError(f"{topic}: found a delay of {seconds} s, expected at most {_LONGEST_DELAY:.0f} s")


def retry_letter(
    source: ReceivedFrom, message: Message, after: float, properties: Mapping[str, str] | None
) -> Envelope:
    """Wrap a message for the retry topic of the subscription."""
    topic = topics.retry_topic(source.topic, source.subscription)
    check_delay(topic, after)
    delay = {_DELAY: str(round(after * 1000))}
    return _letter(topic, source, message, {**(properties or {}), **delay})


def dead_letter(
    source: ReceivedFrom, message: Message, reason: str, properties: Mapping[str, str] | None
) -> Envelope:
    """Wrap a message for the dead-letter topic, with the properties `reason` and `subscription`."""
    topic = topics.dead_letter_topic(source.topic, source.subscription)
    why = {**(properties or {}), "reason": reason, "subscription": source.subscription}
    return _letter(topic, source, message, {name: _sendable(text) for name, text in why.items()})


def replay_topic(source: ReceivedFrom) -> str:
    """Return the topic on which dead letters are replayed.

    This is the retry topic, which no other subscription reads. A non-persistent topic has none, so replays go
    to the topic itself and reach all its subscriptions.
    """
    if topics.is_persistent(source.topic):
        return topics.retry_topic(source.topic, source.subscription)
    return source.topic


def replay_letter(source: ReceivedFrom, message: Message) -> Envelope:
    """Wrap a dead letter for its replay: as if it were published for the first time, and now."""
    topic = replay_topic(source)
    original = {
        name: text for name, text in message.properties.items() if name not in ("reason", "subscription")
    }
    if topic == source.topic:
        return Envelope(topic, message.data, message.key, original)
    first = replace(message, properties=original, deliveries=0, published=0.0)
    return _letter(topic, source, first, {_DELAY: "0"})


def restore(message: Message) -> Message:
    """Return the original message of a letter. Trusts properties only on topics for letters."""
    if not topics.is_retry_or_dead_letter(message.topic):
        return message
    carried = message.properties
    earlier = _number(carried.get(_DELIVERIES))
    dead = message.topic.endswith("-DLQ")
    return Message(
        data=message.data,
        topic=carried.get(_TOPIC, message.topic),
        id=carried.get(_ID, message.id),
        properties={name: value for name, value in carried.items() if name not in _ORIGIN},
        key=message.key,
        published=_number(carried.get(_PUBLISHED)) / 1000 or message.published,
        deliveries=max(1, earlier) if dead else earlier + 1,
        receipt=message.receipt,
    )


def _letter(topic: str, source: ReceivedFrom, message: Message, added: Mapping[str, str]) -> Envelope:
    origin = {
        _DELIVERIES: str(message.deliveries),
        _TOPIC: message.topic,
        _SUBSCRIPTION: source.subscription,
        _ID: message.id,
        _PUBLISHED: str(round(message.published * 1000)),
    }
    return Envelope(topic, message.data, message.key, {**message.properties, **added, **origin})


def _sendable(text: str) -> str:
    """Truncate and clean a text that may quote the message: it must not make the letter unsendable."""
    return text[:_LONGEST_REASON].encode(errors="replace").decode()


def _number(text: str | None) -> int:
    """Parse a property that any client may have written; 0 for anything but a number."""
    return int(text) if text is not None and text.isdecimal() and len(text) <= 18 else 0
