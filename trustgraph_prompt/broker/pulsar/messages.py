"""Converts Pulsar's messages to ours."""

from __future__ import annotations

from itertools import count
from typing import Final
from uuid import uuid4

import pulsar

from trustgraph_prompt.broker.protocol import Message
from trustgraph_prompt.broker.pulsar.subscription import Receipt
from trustgraph_prompt.errors import BrokerError

#: Prefix and numbers of the ids that we give to non-persistent messages.
_ID_PREFIX: Final = uuid4().hex
_NUMBERS: Final = count(1)


def message_of(
    received: pulsar.Message, topic: str, receipt: Receipt | None = None, *, bare: bool = False
) -> Message:
    """Convert a message of a topic or partition; a `bare` one without its key and properties.

    Raises `UnicodeDecodeError`, as other clients can send keys and properties that are not UTF-8.
    """
    return Message(
        data=received.data(),
        topic=topic,
        # Pulsar gives all messages of a non-persistent topic the same id.
        id=id_of(received.message_id())
        if topic.startswith("persistent://")
        else f"{_ID_PREFIX}-{next(_NUMBERS)}",
        properties={} if bare else received.properties(),
        key=None if bare else received.partition_key() or None,
        published=received.publish_timestamp() / 1000,
        receipt=receipt,
    )


def receipt_of(message: Message) -> Receipt:
    if not isinstance(message.receipt, Receipt):
        raise BrokerError(f"{message.topic}: message {message.id} was not received from this broker")
    return message.receipt


def id_of(number: pulsar.MessageId) -> str:
    return f"{number.ledger_id()}:{number.entry_id()}:{number.partition()}:{number.batch_index()}"
