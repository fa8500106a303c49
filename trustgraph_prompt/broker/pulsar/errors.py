"""Every error of Pulsar's client as one of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pulsar
from pulsar.asyncio import PulsarException

from trustgraph_prompt.errors import (
    BrokerClosed,
    BrokerError,
    BrokerUnavailable,
    MessageTooLarge,
    SubscriptionBusy,
    TopicInvalid,
)

#: What waiting or trying elsewhere does not help against; whatever is not listed may pass by itself.
_LASTING: Final[dict[str, type[BrokerError]]] = {
    "InvalidTopicName": TopicInvalid,
    "TopicNotFound": TopicInvalid,
    "TopicTerminated": TopicInvalid,
    "ConsumerBusy": SubscriptionBusy,
    "ConsumerAssignError": SubscriptionBusy,
    "MessageTooBig": MessageTooLarge,
    "AlreadyClosed": BrokerClosed,
    "ConsumerNotInitialized": BrokerClosed,
    "ProducerNotInitialized": BrokerClosed,
    "AuthenticationError": BrokerError,
    "AuthorizationError": BrokerError,
    "ChecksumError": BrokerError,
    "CryptoError": BrokerError,
    "ErrorGettingAuthenticationData": BrokerError,
    "IncompatibleSchema": BrokerError,
    "InvalidConfiguration": BrokerError,
    "InvalidMessage": BrokerError,
    "InvalidUrl": BrokerError,
    "NotAllowedError": BrokerError,
    "OperationNotSupported": BrokerError,
    "SubscriptionNotFound": BrokerError,
    "UnsupportedVersionError": BrokerError,
}

#: What the client's word leaves open.
_MEANINGS: Final = {
    "TopicNotFound": "the topic is not there and may not be made, or its tenant or namespace is not there "
    "(`topics check` says what is missing, `topics create` makes it)",
}


def forgotten(error: PulsarException) -> bool:
    """Whether the broker has answered that it knows of no such consumer or reader."""
    return error.error().name == "BrokerMetadataError"


def translated(result: pulsar.Result, where: str, detail: str = "") -> BrokerError:
    """Pulsar's result code as an error of ours, at a topic or URL."""
    kind = _LASTING.get(result.name, BrokerUnavailable)
    meaning = f"{_MEANINGS[result.name]}: " if result.name in _MEANINGS else ""
    return kind(f"{where}: {meaning}{detail or result.name}")


@contextmanager
def translating(where: str) -> Iterator[None]:
    """Whatever the client raises inside leaves as an error of ours."""
    try:
        yield
    except PulsarException as error:
        raise translated(error.error(), where, str(error)) from error
