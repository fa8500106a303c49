"""Pulsar's messages as ours."""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

import pulsar

from trustgraph_prompt.broker.protocol import Message
from trustgraph_prompt.broker.pulsar.partition_consumer import Receipt
from trustgraph_prompt.errors import BrokerError


def message_of(received: pulsar.Message, topic: str, receipt: Receipt | None = None) -> Message:
    """A message of a topic, or of a partition of it.

    Raises `UnicodeDecodeError`: other clients can send keys and properties that are no text.
    """
    return replace(
        bare_message_of(received, topic, receipt),
        properties=received.properties(),
        key=received.partition_key() or None,
    )


def bare_message_of(received: pulsar.Message, topic: str, receipt: Receipt | None = None) -> Message:
    """The message without key and properties, for where these cannot be read."""
    return Message(
        data=received.data(),
        topic=topic,
        # On a non-persistent topic every message has the same id.
        id=id_of(received.message_id()) if topic.startswith("persistent://") else uuid4().hex,
        published=received.publish_timestamp() / 1000,
        receipt=receipt,
    )


def receipt_of(message: Message) -> Receipt:
    if not isinstance(message.receipt, Receipt):
        raise BrokerError(f"message {message.id} was not received from this broker")
    return message.receipt


def id_of(number: pulsar.MessageId) -> str:
    return f"{number.ledger_id()}:{number.entry_id()}:{number.partition()}:{number.batch_index()}"
