"""Maps every error of Pulsar's client to one of ours, and checks whether a Pulsar URL can be reached."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import pulsar
from pulsar.asyncio import PulsarException

from trustgraph_prompt.broker.shutdown import has_failed
from trustgraph_prompt.broker.urls import address, pulsar_hosts
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


E = TypeVar("E", bound=Exception)


async def check_reachable(url: str) -> None:
    """Returns when one of the URL's hosts lets us connect. Raises `BrokerUnavailable` when all refuse.

    The client would go on trying a host that refuses, and say nothing for half a minute.
    """
    refusals = await failures(OSError, (_knock(host, port) for host, port in pulsar_hosts(url)))
    if refusals:
        raise BrokerUnavailable(f"{address(url)}: {'; '.join(map(refusal, refusals))}")


async def failures(expected: type[E], attempts: Iterable[Coroutine[Any, Any, None]]) -> list[E]:
    """What all of these attempts, made at once, failed with; nothing, as soon as one has succeeded."""
    tasks = [asyncio.create_task(attempt) for attempt in attempts]
    errors = []
    try:
        for ended in asyncio.as_completed(tasks):
            try:
                await ended
            except expected as error:
                errors.append(error)
            else:
                return []
    finally:
        for task in tasks:
            task.add_done_callback(has_failed)
            task.cancel()
    return errors


async def _knock(host: str, port: int) -> None:
    _, writer = await asyncio.open_connection(host, port)
    writer.close()


def refusal(error: OSError) -> str:
    """What the system says, without the call that heard it."""
    number = error.errno or 0
    return os.strerror(number) if number > 0 else str(error)
