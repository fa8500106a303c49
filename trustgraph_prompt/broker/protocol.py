"""How messages move: what every broker promises. `tests/contract` states it, over all implementations.

A topic is `persistent://tenant/namespace/name` or `non-persistent://…` (`topics.py` knows TrustGraph's
`class:space:name` too). The two lose messages in opposite ways:

- *persistent*: every named subscription keeps what it has not acknowledged, across closes and crashes.
  A consumer holds few messages, so that no replica hoards; what it held and did not acknowledge is
  delivered again, to itself or to another, when it closes or dies.
- *non-persistent*: who is subscribed and has room gets a message, nobody else ever does. A consumer
  takes in eagerly and buffers, so that the broker drops nothing; nothing comes twice.

Whatever is closed says farewell to the broker, and waits a second at most for an answer: one that is away
must not keep a process from ending. (The embedded one is a file, and is waited for where that is locked.)

A message is at most 5,000,000 bytes of payload, key and properties together. Delays are as coarse as a
second, and only shared subscriptions of persistent topics know them: to others a message comes at once.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

#: How long a broker may take to say that a consumer's place still stands.
CHECK_SECONDS: Final = 10.0

#: What messages may take that wait in the buffer of a non-persistent consumer, all together, in bytes.
MAX_BUFFERED: Final = 64_000_000

SubscriptionType = Literal["shared", "exclusive"]


@dataclass(frozen=True, slots=True)
class Message:
    """One message as it was received.

    `data` is empty for a deletion of its key; an empty key is none. `topic` is the full name it was first
    published on, also when it comes back from a retry topic. `id` is the broker's, and stays the same over
    redeliveries and retries. `deliveries` counts how often it was put to the subscription by `publish` or by
    `retry`: 1 at first. `published` is in seconds since the epoch (of the first publication). `receipt` is
    the implementation's own.
    """

    data: bytes
    topic: str
    id: str
    properties: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None
    published: float = 0.0
    deliveries: int = 1
    receipt: object = field(default=None, repr=False, compare=False)


class Consumer(Protocol):
    """A place in a subscription. One task receives; any number settle what was received."""

    topic: str
    subscription: str

    async def receive(self) -> Message | None:
        """The next message; None once the consumer was stopped (and its buffer is empty) or closed.

        Waits without polling. To end a wait, stop the consumer: what a cancelled `receive` was about to
        give may be held until the consumer closes.
        """

    async def acknowledge(self, message: Message) -> None:
        """The subscription is done with the message. On a non-persistent topic there is nothing to do."""

    async def retry(
        self, message: Message, after: float, properties: Mapping[str, str] | None = None
    ) -> None:
        """Deliver the message once more to this subscription, `after` seconds from now, then acknowledge it.

        By way of the subscription's own `<topic>-<subscription>-RETRY`, which every consumer of the
        subscription reads beside the topic; durable before the acknowledgement. Persistent topics only:
        raises `TopicInvalid` on others.
        """

    async def bury(self, message: Message, reason: str, properties: Mapping[str, str] | None = None) -> None:
        """Put the message on the subscription's `<topic>-<subscription>-DLQ` with `reason`, then acknowledge.

        The dead-letter topic is persistent, also for a topic that is not, and keeps its messages for the
        subscription `dead`. Received from there they are as they were (topic, id, deliveries), with
        `reason`, `subscription` and what is given here, cut to 4,096 characters, among the properties.
        """

    async def check(self) -> None:
        """Ask the broker whether this place still stands; being connected does not prove it.

        Raises `BrokerClosed` when it is gone or was given up (open another), `BrokerUnavailable` when there
        is no connection, or no answer within ten seconds (it may come back by itself). For use by any number
        of tasks.
        """

    async def stop(self) -> None:
        """Take in nothing more.

        Non-persistent: closed on the wire, and `receive()` gives what the buffer still holds, then None.
        Persistent: `receive()` gives nothing more (None), what was received can still be acknowledged.
        """

    async def close(self) -> None:
        """Give up the place. Never unsubscribes. What was not acknowledged goes to others. Idempotent."""


class Producer(Protocol):
    """Publishes on one topic. For use by any number of tasks."""

    topic: str

    async def send(
        self,
        data: bytes,
        *,
        key: str | None = None,
        properties: Mapping[str, str] | None = None,
        deliver_after: float | None = None,
    ) -> str:
        """Publish; returns the message id once the broker has it (persistent: durably).

        Empty `data` with a key deletes the key from a compacted topic. `deliver_after` seconds delay it
        for shared subscriptions. Raises `MessageTooLarge` before anything is sent, `BrokerUnavailable`.
        """

    async def close(self) -> None:
        """Flush and end. Idempotent."""


class Reader(Protocol):
    """Follows a topic without a subscription: nothing is kept for it, nothing is acknowledged."""

    async def receive(self) -> Message | None:
        """The next message in the order of publication; None once closed.

        One whose key or properties are no text comes without them.
        """

    async def behind(self) -> bool:
        """Whether there are messages that were published and not yet received."""

    async def check(self) -> None:
        """Ask the broker whether it still knows the reader; raises as a consumer's `check` does."""

    async def close(self) -> None:
        """End. A pending `receive()` gives None. Idempotent."""


class Table(Protocol):
    """A compacted topic as a table: the last message of each key.

    `entries` is what stood on the topic when the table was opened, read through, deletions applied.
    """

    entries: Mapping[str, Message]

    def changes(self) -> AsyncGenerator[Message, None]:
        """What is published from then on, key by key, in order; an empty `data` is a deletion.

        Raises `BrokerClosed` where a change may have been missed (the connection was lost, or, within a
        minute, the broker has forgotten who reads): open another table.
        """

    async def check(self) -> None:
        """Ask the broker whether it still answers here. As `Consumer.check`."""

    async def close(self) -> None:
        """End; `changes()` ends too. Idempotent."""


class Caller(Protocol):
    """Request and response by id: asks over one topic and hears on another (TrustGraph's RPC).

    One for each pair of topics, for any number of calls at a time. Responses of others pass by. Where the
    broker has forgotten who hears, calls raise `BrokerClosed` within a minute: open another caller.
    """

    @property
    def closed(self) -> bool:
        """Whether nobody hears any more, closed or broken: a call would raise `BrokerClosed` unsent."""

    def call(
        self,
        data: bytes,
        *,
        properties: Mapping[str, str] | None = None,
        timeout: float = 600.0,
        again: float | None = None,
        failed: Callable[[bytes], bool] | None = None,
    ) -> AsyncGenerator[Message, None]:
        """Send with a fresh property `id`; gives each response that echoes it, in order.

        The caller decides which response is the last and leaves the iteration (`aclosing`). Where nothing
        came for `again` seconds it is sent once more, under another id: the first may be lost or only be
        slow, and the responses are those of whichever is answered first. One that has `failed`, as its data
        say, leaves the other the rest of the time. Raises `CallTimeout` when nothing came for `timeout`
        seconds.
        """

    async def close(self) -> None:
        """End; calls under way raise `BrokerClosed`. Idempotent."""


class Broker(Protocol):
    """A connection. An asynchronous context manager that closes itself."""

    async def consumer(
        self,
        topic: str,
        subscription: str,
        *,
        type: SubscriptionType = "shared",
        buffer: int = 1000,
    ) -> Consumer:
        """Subscribe, from the earliest message where the subscription is new and the topic persistent.

        `buffer` is how many messages a non-persistent consumer has room for before any is dropped, as long
        as their data are no more than 64 MB; it holds at most twice as many, and of a topic with partitions
        as many again for each further one.
        Raises `SubscriptionBusy` when an exclusive subscription is taken, `TopicInvalid`,
        `BrokerUnavailable`.
        """

    async def producer(self, topic: str, *, batch: bool = False) -> Producer:
        """A producer; `batch` only for topics whose messages are cheap to handle, never towards requests."""

    async def reader(self, topic: str, *, start: Literal["earliest", "latest"] = "earliest") -> Reader:
        """Follow a persistent topic; from the earliest, a compacted topic is read compacted."""

    async def table(self, topic: str) -> Table:
        """Read a compacted topic through, then follow it; raises `BrokerError` where that was cut off."""

    async def caller(self, request: str, response: str) -> Caller:
        """A caller that hears on `response` before this returns."""

    async def bury_unreceivable(
        self, topic: str, subscription: str, consumers: int, properties: Mapping[str, str]
    ) -> Sequence[str]:
        """Bury, by their ids, the first messages of a subscription that kill whoever receives them.

        Nothing is looked for while so many consumers are there, as then none has died. The dead letters have
        `properties` and no payload. Returns the ids. Raises `BrokerError`, and `ConfigError` where there is
        nobody to ask.
        """

    async def close(self) -> None:
        """Close whatever was opened here. Idempotent."""

    async def __aenter__(self) -> Broker: ...

    async def __aexit__(self, *exc: object) -> None: ...
