"""What goes around a payload: its size limit, and the properties of retry and dead letters.

The names are those of Pulsar's Java client, so that its tools understand our letters. On receipt they are
folded back into the `Message`, which then reads as it did the first time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

from trustgraph_prompt.broker import topics
from trustgraph_prompt.broker.protocol import Message
from trustgraph_prompt.errors import BrokerError, MessageTooLarge

#: Bytes of payload, key and properties together. Pulsar takes 5 MiB with all that it adds itself.
MAX_MESSAGE_SIZE: Final = 5_000_000
#: A message of the largest size must still fit into a letter.
_LETTER_ALLOWANCE: Final = 65_536
_LONGEST_REMARK: Final = 4096
#: Seconds. Ten years; what is longer, or no number, is a mistake.
_LONGEST_DELAY: Final = 315_360_000.0

_DELIVERIES: Final = "RECONSUMETIMES"
_DELAY: Final = "DELAY_TIME"
_TOPIC: Final = "REAL_TOPIC"
_SUBSCRIPTION: Final = "REAL_SUBSCRIPTION"
_ID: Final = "ORIGIN_MESSAGE_ID"
_PUBLISHED: Final = "ORIGIN_PUBLISH_TIME"
_WHY: Final = ("reason", "subscription")
_OURS: Final = frozenset((_DELIVERIES, _DELAY, _TOPIC, _SUBSCRIPTION, _ID, _PUBLISHED))


class ReceivedFrom(Protocol):
    """Where a message was received."""

    @property
    def topic(self) -> str: ...

    @property
    def subscription(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message on its way to a subscription's own topic."""

    topic: str
    data: bytes
    key: str | None
    properties: Mapping[str, str]


def check_size(topic: str, data: bytes, key: str | None, properties: Mapping[str, str]) -> int:
    """The bytes of it all. Raises `MessageTooLarge`, and `BrokerError` for text that is no Unicode."""
    try:
        text = sum(len(name.encode()) + len(value.encode()) for name, value in properties.items())
        size = len(data) + text + len((key or "").encode())
    except AttributeError as error:
        raise BrokerError(f"{topic}: keys and properties must be text: {error}") from error
    except UnicodeEncodeError as error:
        raise BrokerError(f"{topic}: a key or property cannot be encoded as UTF-8: {error}") from error
    limit = MAX_MESSAGE_SIZE + (_LETTER_ALLOWANCE if topics.is_letter_topic(topic) else 0)
    if size > limit:
        raise MessageTooLarge(f"{topic}: a message of {size} bytes, at most {limit} are allowed")
    return size


def check_delay(topic: str, seconds: float | None) -> None:
    """Raise `BrokerError` for a delay that never ends or is no number; below zero means at once."""
    if seconds is not None and not -_LONGEST_DELAY <= seconds <= _LONGEST_DELAY:
        raise BrokerError(f"{topic}: a delay of {seconds} s, at most {_LONGEST_DELAY:.0f} are allowed")


def retry_letter(
    place: ReceivedFrom, message: Message, after: float, properties: Mapping[str, str] | None
) -> Envelope:
    """The message as it goes to the subscription's retry topic."""
    topic = topics.retry_topic(place.topic, place.subscription)
    check_delay(topic, after)
    delay = {_DELAY: str(round(after * 1000))}
    return _letter(topic, place, message, {**(properties or {}), **delay})


def dead_letter(
    place: ReceivedFrom, message: Message, reason: str, properties: Mapping[str, str] | None
) -> Envelope:
    """The message as it goes to the dead-letter topic; `reason` and `subscription` are properties of it."""
    topic = topics.dead_letter_topic(place.topic, place.subscription)
    why = {**(properties or {}), **dict(zip(_WHY, (reason, place.subscription), strict=True))}
    return _letter(topic, place, message, {name: _presentable(text) for name, text in why.items()})


def way_back(place: ReceivedFrom) -> str:
    """Where dead letters of the place go to be served again.

    To its retry topic, where nobody else reads; to the topic itself, and all who are there, where that is not
    persistent.
    """
    if topics.is_persistent(place.topic):
        return topics.retry_topic(place.topic, place.subscription)
    return place.topic


def replayed_letter(place: ReceivedFrom, message: Message) -> Envelope:
    """A dead letter of the place on its way back: as if it came for the first time, and just now."""
    topic = way_back(place)
    asked = {name: text for name, text in message.properties.items() if name not in _WHY}
    if topic == place.topic:
        return Envelope(topic, message.data, message.key, asked)
    anew = replace(message, properties=asked, deliveries=0, published=0.0)
    return _letter(topic, place, anew, {_DELAY: "0"})


def opened(message: Message) -> Message:
    """A letter as the message it was made of; any other message as it is, whatever its properties claim."""
    if not topics.is_letter_topic(message.topic):
        return message
    carried = message.properties
    earlier = _count(carried.get(_DELIVERIES))
    dead = message.topic.endswith("-DLQ")
    return Message(
        data=message.data,
        topic=carried.get(_TOPIC, message.topic),
        id=carried.get(_ID, message.id),
        properties={name: value for name, value in carried.items() if name not in _OURS},
        key=message.key,
        published=_count(carried.get(_PUBLISHED)) / 1000 or message.published,
        deliveries=max(1, earlier) if dead else earlier + 1,
        receipt=message.receipt,
    )


def _letter(topic: str, place: ReceivedFrom, message: Message, added: Mapping[str, str]) -> Envelope:
    origin = {
        _DELIVERIES: str(message.deliveries),
        _TOPIC: message.topic,
        _SUBSCRIPTION: place.subscription,
        _ID: message.id,
        _PUBLISHED: str(round(message.published * 1000)),
    }
    return Envelope(topic, message.data, message.key, {**message.properties, **added, **origin})


def _presentable(text: str) -> str:
    """What explains a dead letter may quote it; it must not be a reason why the letter cannot be sent."""
    return text[:_LONGEST_REMARK].encode(errors="replace").decode()


def _count(text: str | None) -> int:
    """A number that somebody else wrote; 0 where it is none."""
    return int(text) if text is not None and text.isdecimal() and len(text) <= 18 else 0
