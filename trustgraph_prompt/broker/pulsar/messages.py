"""Pulsar's messages as ours."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Final
from uuid import uuid4

import pulsar

from trustgraph_prompt.broker.protocol import Message
from trustgraph_prompt.broker.pulsar.subscription import Receipt
from trustgraph_prompt.errors import BrokerError

#: What the ids of messages that have none of their own begin with, and go on with.
_HERE: Final = uuid4().hex
_NUMBERS: Final = count(1)


def message_of(received: pulsar.Message, topic: str, receipt: Receipt | None = None) -> Message:
    """A message of a topic, or of a partition of it.

    Raises `UnicodeDecodeError`: other clients can send keys and properties that are no text.
    """
    return _message(received, topic, receipt, received.properties(), received.partition_key() or None)


def bare_message_of(received: pulsar.Message, topic: str, receipt: Receipt | None = None) -> Message:
    """The message without key and properties, for where these cannot be read."""
    return _message(received, topic, receipt, {}, None)


def _message(
    received: pulsar.Message,
    topic: str,
    receipt: Receipt | None,
    properties: Mapping[str, str],
    key: str | None,
) -> Message:
    return Message(
        data=received.data(),
        topic=topic,
        # On a non-persistent topic every message has the same id.
        id=id_of(received.message_id()) if topic.startswith("persistent://") else f"{_HERE}-{next(_NUMBERS)}",
        properties=properties,
        key=key,
        published=received.publish_timestamp() / 1000,
        receipt=receipt,
    )


def receipt_of(message: Message) -> Receipt:
    if not isinstance(message.receipt, Receipt):
        raise BrokerError(f"message {message.id} was not received from this broker")
    return message.receipt


def id_of(number: pulsar.MessageId) -> str:
    return f"{number.ledger_id()}:{number.entry_id()}:{number.partition()}:{number.batch_index()}"
