"""The protocol that every broker implements; `tests/contract` tests it over all implementations.

A topic is `persistent://tenant/namespace/name` or `non-persistent://…`; `topics.py` also accepts TrustGraph's
`class:space:name`. The two lose messages in opposite ways:

- *persistent*: every named subscription keeps its unacknowledged messages, across closes and crashes. A
  consumer prefetches few messages, so that no replica hoards them. Its unacknowledged messages are
  redelivered, to any consumer, when it closes or dies.
- *non-persistent*: only subscriptions with a consumer that has room receive a message. A consumer prefetches
  eagerly into a buffer, so that the broker drops nothing. Nothing is delivered twice.

Closing waits at most a second for the broker to confirm: a broker that is away must not keep a process from
ending. (The embedded broker waits for as long as its file is locked.)

A message has at most 5,000,000 bytes of payload, key and properties together. Delays are accurate to about a
second and apply to shared subscriptions of persistent topics only; others get the message at once.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

#: Seconds that a broker may take to answer the check of a consumer or reader.
CHECK_SECONDS: Final = 10.0

#: Bytes of payload that the buffer of a non-persistent consumer may hold.
MAX_BUFFERED: Final = 64_000_000

SubscriptionType = Literal["shared", "exclusive"]


@dataclass(frozen=True, slots=True)
class Message:
    """A received message.

    Empty `data` deletes the key. An empty key counts as None. `topic` is the URI of the topic that the
    message was first published on, also if it was received from a retry topic. `id` is assigned by the broker
    and stays the same over redeliveries and retries. `deliveries` counts publications and retries, starting
    at 1; redeliveries do not count. `published` is the time of the first publication in seconds since the
    epoch. `receipt` is for the broker.
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
    """A consumer of a subscription. One task receives; any number acknowledge, retry or bury."""

    topic: str
    subscription: str

    async def receive(self) -> Message | None:
        """Wait for the next message. Returns None after `close`, or after `stop` once the buffer is empty.

        To end a wait, stop the consumer: the message of a cancelled `receive` may be held until the consumer
        closes.
        """

    async def acknowledge(self, message: Message) -> None:
        """Remove the message from the subscription. Does nothing on a non-persistent topic."""

    async def retry(
        self, message: Message, after: float, properties: Mapping[str, str] | None = None
    ) -> None:
        """Publish the message again for this subscription, delayed by `after` seconds, then acknowledge it.

        It goes to the subscription's own `<topic>-<subscription>-RETRY`, which all its consumers read as
        well; it is durable before the acknowledgement. Raises `TopicInvalid` on non-persistent topics.
        """

    async def bury(self, message: Message, reason: str, properties: Mapping[str, str] | None = None) -> None:
        """Publish the message on the dead-letter topic `<topic>-<subscription>-DLQ`, then acknowledge it.

        That topic is persistent even if `topic` is not, and retains its messages for the subscription `dead`.
        A dead letter has the topic, id and deliveries of the message. Its properties include `reason`,
        `subscription` and the given ones, each truncated to 4,096 characters.
        """

    async def check(self) -> None:
        """Ask the broker whether it still knows this consumer; a live connection does not prove it.

        Raises `BrokerClosed` if not, or after `close` (open another consumer). Raises `BrokerUnavailable`
        without a connection, or without an answer in ten seconds (the client reconnects by itself). Any
        number of tasks may call it.
        """

    async def stop(self) -> None:
        """Stop receiving; received messages can still be acknowledged.

        Non-persistent: leaves the subscription; `receive()` returns the rest of the buffer, then None.
        Persistent: `receive()` returns None.
        """

    async def close(self) -> None:
        """Leave the subscription, which goes on. Unacknowledged messages go to others. Idempotent."""


class Producer(Protocol):
    """Publishes on one topic. Any number of tasks may use it."""

    topic: str

    async def send(
        self,
        data: bytes,
        *,
        key: str | None = None,
        properties: Mapping[str, str] | None = None,
        deliver_after: float | None = None,
    ) -> str:
        """Publish; returns the message id once the broker has the message (durably if persistent).

        Empty `data` with a key deletes the key from a compacted topic. `deliver_after` is a delay in seconds
        for shared subscriptions. Raises `MessageTooLarge` before anything is sent, `BrokerUnavailable`.
        """

    async def close(self) -> None:
        """Flush and close. Idempotent."""


class Reader(Protocol):
    """Reads a topic without a subscription: nothing is kept for it, nothing is acknowledged."""

    async def receive(self) -> Message | None:
        """Wait for the next message in the order of publication. Returns None after `close`.

        A key or properties that are not text are left out.
        """

    async def behind(self) -> bool:
        """Return whether published messages have not been received yet."""

    async def check(self) -> None:
        """Ask the broker whether it still knows this reader. As `Consumer.check`."""

    async def close(self) -> None:
        """Close; a pending `receive()` returns None. Idempotent."""


class Table(Protocol):
    """A compacted topic as a table. `entries` has the last message of each key when the table was opened."""

    entries: Mapping[str, Message]

    def changes(self) -> AsyncGenerator[Message, None]:
        """Yield later messages in order; one with empty `data` deletes its key.

        Raises `BrokerClosed` if a change may have been missed, because the connection was lost or the broker
        has forgotten the reader (noticed within a minute): open another table.
        """

    async def check(self) -> None:
        """Ask the broker whether it still knows this table. As `Consumer.check`."""

    async def close(self) -> None:
        """Close; `changes()` ends. Idempotent."""


class Resending(Protocol):
    """Decides when the request of one call is sent again, and takes the responses that come too late."""

    def sent(self, id: str) -> None:
        """Note that the request is sent under this id."""

    def wait(self, silent: float) -> float | None:
        """Seconds to go on waiting after so many without a response; 0 to send again, None to give up."""

    def late(self, response: Message) -> None:
        """Take a response that came after the call had ended. Raises nothing."""


class Caller(Protocol):
    """Sends requests on one topic and receives the responses on another, matched by id (TrustGraph's RPC).

    Any number of calls may run at once. Responses to other callers are ignored. If the broker forgets the
    caller, calls raise `BrokerClosed` within a minute: open another caller.
    """

    @property
    def closed(self) -> bool:
        """Whether the caller was closed or has failed, so that calls raise `BrokerClosed` without sending."""

    def call(
        self,
        data: bytes,
        *,
        properties: Mapping[str, str] | None = None,
        timeout: float = 600.0,
        resending: Resending | None = None,
    ) -> AsyncGenerator[Message, None]:
        """Send `data` with a new property `id`; yields the responses with the same `id`, in order.

        The caller decides which response is the last and leaves the iteration (`aclosing`). `resending` may
        have the request sent again, each time under another id; the responses to all of them are yielded. If
        it was sent again or no response came, it takes those of the next `timeout` seconds, too. Raises
        `CallTimeout` after `timeout` seconds without a response.
        """

    async def close(self) -> None:
        """Close; calls in progress raise `BrokerClosed`. Idempotent."""


class Broker(Protocol):
    """A connection to a broker, and an asynchronous context manager that closes it."""

    address: str
    """The URL of the broker without secrets, for messages."""

    async def consumer(
        self,
        topic: str,
        subscription: str,
        *,
        type: SubscriptionType = "shared",
        buffer: int = 1000,
    ) -> Consumer:
        """Subscribe. A new subscription of a persistent topic starts at the earliest message.

        A non-persistent consumer has room for `buffer` messages of at most 64 MB together before messages are
        dropped. It holds at most twice as many, and as many again for each further partition.
        Raises `SubscriptionBusy` if an exclusive subscription is taken, `TopicInvalid`, `BrokerUnavailable`.
        """

    async def producer(self, topic: str, *, batch: bool = False) -> Producer:
        """Open a producer. Use `batch` only if messages are cheap to handle, never for requests."""

    async def reader(self, topic: str, *, start: Literal["earliest", "latest"] = "earliest") -> Reader:
        """Open a reader of a persistent topic. With "earliest", it reads a compacted topic compacted."""

    async def table(self, topic: str) -> Table:
        """Read a compacted topic to its end, then follow it. Raises `BrokerError` if that is interrupted."""

    async def compact(self, topic: str) -> None:
        """Have a topic keep only the last message of each key, as `table` does.

        Does nothing on Pulsar, where a policy of the topic has to say so. Raises `BrokerError`.
        """

    async def caller(self, request: str, response: str) -> Caller:
        """Open a caller, subscribed to `response` before this returns."""

    async def bury_unreceivable(
        self, topic: str, subscription: str, consumers: int, properties: Mapping[str, str]
    ) -> Sequence[str]:
        """Bury, by id, the first messages of a subscription that kill every process that receives them.

        Does nothing while the subscription has so many `consumers`, as none has died then. The dead letters
        have `properties` and no payload. Returns the ids. Raises `BrokerError`, and `ConfigError` without an
        admin API.
        """

    async def close(self) -> None:
        """Close the connection and all that was opened on it. Idempotent."""

    async def __aenter__(self) -> Broker: ...

    async def __aexit__(self, *exc: object) -> None: ...
