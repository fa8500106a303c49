"""Maps the errors of Pulsar's client to ours, and checks whether a Pulsar URL can be reached."""

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

#: Permanent errors. All others are `BrokerUnavailable`, as they may pass.
_PERMANENT: Final[dict[str, type[BrokerError]]] = {
    **dict.fromkeys(("InvalidTopicName", "TopicNotFound", "TopicTerminated"), TopicInvalid),
    **dict.fromkeys(("ConsumerBusy", "ConsumerAssignError"), SubscriptionBusy),
    "MessageTooBig": MessageTooLarge,
    **dict.fromkeys(("AlreadyClosed", "ConsumerNotInitialized", "ProducerNotInitialized"), BrokerClosed),
    **dict.fromkeys(
        (
            *("AuthenticationError", "AuthorizationError", "ErrorGettingAuthenticationData"),
            *("ChecksumError", "CryptoError", "IncompatibleSchema", "InvalidMessage"),
            *("InvalidConfiguration", "InvalidUrl", "NotAllowedError", "SubscriptionNotFound"),
            *("OperationNotSupported", "UnsupportedVersionError"),
        ),
        BrokerError,
    ),
}

#: Explanations of errors whose name alone does not help.
_MEANINGS: Final = {
    "TopicNotFound": "the topic, its tenant or its namespace does not exist "
    "(`topics check` shows what is missing, `topics create` creates it)",
}


def is_forgotten(error: PulsarException) -> bool:
    """Return whether the broker no longer knows the consumer or reader."""
    return error.error().name == "BrokerMetadataError"


def translated(result: pulsar.Result, where: str, detail: str = "") -> BrokerError:
    """Return our error for a result code of Pulsar. `where` is a topic or URL."""
    kind = _PERMANENT.get(result.name, BrokerUnavailable)
    meaning = f"{_MEANINGS[result.name]}: " if result.name in _MEANINGS else ""
    return kind(f"{where}: {meaning}{detail or result.name}")


@contextmanager
def translating(where: str) -> Iterator[None]:
    """Convert errors of the client that are raised inside."""
    try:
        yield
    except PulsarException as error:
        raise translated(error.error(), where, str(error)) from error


E = TypeVar("E", bound=Exception)


async def check_reachable(url: str) -> None:
    """Return once a host of the URL accepts a connection. Raises `BrokerUnavailable` if all refuse.

    The client itself retries a host that refuses, and reports nothing for half a minute.
    """
    refusals = await failures(OSError, (_try_to_connect(host, port) for host, port in pulsar_hosts(url)))
    if refusals:
        raise BrokerUnavailable(f"{address(url)}: {'; '.join(map(refusal, refusals))}")


async def failures(expected: type[E], attempts: Iterable[Coroutine[Any, Any, None]]) -> list[E]:
    """Run the attempts at once. Returns no errors once one succeeds, else those of all."""
    tasks = [asyncio.create_task(coroutine) for coroutine in attempts]
    errors = []
    try:
        for attempt in asyncio.as_completed(tasks):
            try:
                await attempt
            except expected as error:
                errors.append(error)
            else:
                return []
    finally:
        for task in tasks:
            task.add_done_callback(has_failed)
            task.cancel()
    return errors


async def _try_to_connect(host: str, port: int) -> None:
    _, writer = await asyncio.open_connection(host, port)
    writer.close()


def refusal(error: OSError) -> str:
    """Return the system's text for an error, without the name of the failed call."""
    number = error.errno or 0
    return os.strerror(number) if number > 0 else str(error)
