"""Stores topics, subscriptions, messages and consumers as rows of SQLite.

Each method is a short step inside a transaction that `engine.py` opens and commits. A message has one
`deliveries` row for each subscription that has not acknowledged it. Consumers belong to the connection that
opened them; when it ends, their messages are delivered to others.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from trustgraph_prompt.broker.embedded import schema
from trustgraph_prompt.broker.embedded.delays import Delays
from trustgraph_prompt.broker.protocol import MAX_BUFFERED, Message
from trustgraph_prompt.errors import BrokerClosed, BrokerUnavailable, SubscriptionBusy


@dataclass(frozen=True, slots=True)
class Listener:
    """The row of a consumer or reader, and the topics it waits for."""

    id: int
    subscription: int
    topics: tuple[int, ...]


class Store:
    """The steps. `touched` collects the topics that have news for listeners."""

    def __init__(self, database: sqlite3.Connection, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock
        self._delays = Delays(database, clock)
        self.touched: set[int] = set()

    def prepare(self) -> None:
        """Create missing tables, and adjust delays if the clock was set back since the last use."""
        schema.prepare(self._database)
        self._delays.advance()

    def rewrite(self) -> None:
        """Write a value that is already there, to see whether the file is writable."""
        (version,) = self._one("PRAGMA user_version")
        self._database.execute(f"PRAGMA user_version = {version}")

    # Connections

    def connect(self) -> int:
        """Create the row of a connection, to which everything it opens belongs."""
        return self._insert("INSERT INTO connections DEFAULT VALUES")

    def version(self) -> int:
        """Return a number that changes whenever another process commits."""
        return int(self._one("PRAGMA data_version")[0])

    def connections(self) -> list[int]:
        return self._numbers("SELECT id FROM connections")

    def disconnect(self, connection: int) -> None:
        """Remove a connection that was closed or is dead; the messages of its consumers go to others."""
        for listener in self._numbers("SELECT id FROM listeners WHERE connection = ?", connection):
            self.leave(listener)
        self._database.execute("DELETE FROM connections WHERE id = ?", (connection,))

    def listening(self, topics: set[int]) -> set[int]:
        """Return the connections that have listeners on one of the topics."""
        marks = ",".join("?" * len(topics))
        found = self._numbers(
            "SELECT DISTINCT connection FROM listeners LEFT JOIN feeds USING (subscription) "
            f"WHERE coalesce(feeds.topic, listeners.topic) IN ({marks})",
            *topics,
        )
        return set(found)

    # Topics

    def topic(self, name: str) -> int:
        """Return the id of a topic, created if it is new."""
        found = self._numbers("SELECT id FROM topics WHERE name = ?", name)
        return found[0] if found else self._insert("INSERT INTO topics (name) VALUES (?)", name)

    def subscriptions(self) -> dict[str, frozenset[str]]:
        """Return all topics with the names of their subscriptions."""
        found: dict[str, frozenset[str]] = {}
        for topic, name in self._database.execute(
            "SELECT topics.name, subscriptions.name FROM topics "
            "LEFT JOIN subscriptions ON subscriptions.topic = topics.id"
        ):
            found[topic] = found.get(topic, frozenset()) | ({name} if name else set())
        return found

    def compact(self, topic: int) -> None:
        """Make a topic compacted: it keeps the last message of each key, whatever subscriptions do.

        Drops nothing now if the topic has readers, as they must see every change.
        """
        self._database.execute("UPDATE topics SET compacted = 1 WHERE id = ?", (topic,))
        if self._is_read(topic):
            return
        # As on any topic, messages without a key are kept for the first subscription.
        self._database.execute(
            "DELETE FROM messages WHERE topic = ?1 AND key IS NULL "
            "AND (data = x'' OR EXISTS (SELECT 1 FROM feeds WHERE topic = ?1)) "
            "AND NOT EXISTS (SELECT 1 FROM deliveries WHERE message = messages.id)",
            (topic,),
        )
        self._drop_stale(topic, 0, self.last(topic))

    # Publishing

    def publish(
        self,
        topic: int,
        data: bytes,
        key: str | None,
        properties: Mapping[str, str],
        delay: float | None,
    ) -> int:
        """Store a message on a persistent topic, for all its subscriptions."""
        now = self._clock()
        message = self._message(topic, data, key, properties, now)
        # Exclusive subscriptions ignore delays, as in Pulsar.
        self._database.execute(
            "INSERT INTO deliveries (subscription, message, due) "
            "SELECT id, ?1, CASE WHEN exclusive THEN NULL ELSE ?3 END "
            "FROM feeds JOIN subscriptions ON id = subscription WHERE feeds.topic = ?2",
            (message, topic, now + delay if delay and delay > 0 else None),
        )
        if key is not None:
            self._drop_superseded(topic, key, message)
        self.touched.add(topic)
        return message

    def offer(self, topic: int, data: bytes, key: str | None, properties: Mapping[str, str]) -> int:
        """Publish on a non-persistent topic: to one consumer with room of each subscription."""
        most = MAX_BUFFERED - len(data)
        takers = self._database.execute(
            "SELECT subscription, id, max(room) FROM listeners WHERE topic = ?1 AND room > 0 AND (?2 OR ("
            " SELECT coalesce(sum(length(data)), 0) FROM deliveries JOIN messages ON messages.id = message"
            " WHERE holder = listeners.id) <= ?3) GROUP BY subscription",
            (topic, self._used() <= most, most),  # adding up sizes is slow for a large backlog
        ).fetchall()
        message = self._message(topic, data, key, properties, self._clock())
        for subscription, listener, _ in takers:
            self._database.execute(
                "INSERT INTO deliveries (subscription, message, holder) VALUES (?, ?, ?)",
                (subscription, message, listener),
            )
            self._database.execute("UPDATE listeners SET room = room - 1 WHERE id = ?", (listener,))
        if takers:
            self.touched.add(topic)
        else:
            self._database.execute("DELETE FROM messages WHERE id = ?", (message,))
        return message

    # Subscriptions

    def subscribe(
        self,
        connection: int,
        topic: int,
        name: str,
        exclusive: bool,
        *,
        retry: int | None = None,
        room: int = 0,
    ) -> Listener:
        """Open a consumer: of a persistent topic with its `retry` topic, or of another with some `room`.

        A new subscription of a persistent topic starts at the earliest message.
        """
        subscription = self._subscription(topic, name, exclusive)
        feeds = () if retry is None else (topic, retry)
        for feed in feeds:
            self._feed(subscription, feed)
        listener = self._listen(connection, topic, subscription, room)
        return Listener(listener, subscription, feeds or (topic,))

    def take(self, listener: Listener) -> Message | float | None:
        """Take the next message and hold it. Otherwise returns when the next one is due, or None."""
        self.check_present(listener)
        self._delays.check_clock()
        self._database.execute(
            "UPDATE deliveries SET due = NULL WHERE subscription = ? AND due <= ?",
            (listener.subscription, self._clock()),
        )
        taken = self._numbers(
            "UPDATE deliveries SET holder = ?1 WHERE subscription = ?2 AND message = ("
            " SELECT message FROM deliveries INDEXED BY deliveries_ready"
            " WHERE subscription = ?2 AND holder IS NULL AND due IS NULL"
            " ORDER BY message LIMIT 1) RETURNING message",
            *(listener.id, listener.subscription),
        )
        if taken:
            return self._read(taken[0])
        (due,) = self._one(
            "SELECT min(due) FROM deliveries WHERE subscription = ? AND due IS NOT NULL",
            listener.subscription,
        )
        return float(due) if due is not None else None

    def draw(self, listener: Listener) -> Message | None:
        """Take the next message out of the buffer of a non-persistent consumer."""
        self.check_present(listener)
        held = "SELECT message FROM deliveries WHERE holder = ? ORDER BY message LIMIT 1"
        if not (first := self._numbers(held, listener.id)):
            return None
        message = self._read(first[0])
        self.acknowledge(listener.subscription, first[0])
        self._database.execute(
            "UPDATE listeners SET room = room + 1 WHERE id = ? AND room >= 0", (listener.id,)
        )
        return message

    def check_present(self, listener: Listener) -> None:
        """Raise `BrokerClosed` if the listener is gone."""
        if not self._numbers("SELECT 1 FROM listeners WHERE id = ?", listener.id):
            raise BrokerClosed(
                "the consumer or reader has been closed, or other processes considered this one dead"
            )

    def acknowledge(self, subscription: int, message: int) -> None:
        """Remove a message from a subscription, and drop it after the last one."""
        self._database.execute(
            "DELETE FROM deliveries WHERE subscription = ? AND message = ?", (subscription, message)
        )
        self._drop(message)

    def stop(self, listener: Listener) -> None:
        """Make a non-persistent consumer receive nothing more, and free its place in the subscription."""
        self._database.execute("UPDATE listeners SET room = -1 WHERE id = ?", (listener.id,))

    def retain(self, topic: int, name: str) -> None:
        """Make sure of a subscription, so that messages of the topic are kept until they are consumed."""
        if not self._numbers("SELECT 1 FROM subscriptions WHERE topic = ? AND name = ?", topic, name):
            self._feed(self._subscription(topic, name, exclusive=False), topic)

    def release(self, listener: int, message: int | None = None) -> None:
        """Make the messages that a consumer holds, or one of them, available again."""
        self._database.execute(
            "UPDATE deliveries SET holder = NULL WHERE holder = ?1 AND (?2 IS NULL OR message = ?2)",
            (listener, message),
        )
        fed = "SELECT feeds.topic FROM feeds JOIN listeners USING (subscription) WHERE listeners.id = ?"
        self.touched.update(self._numbers(fed, listener))

    def leave(self, listener: int) -> None:
        """Remove a consumer or reader, and the messages that were kept for it alone."""
        row = self._database.execute(
            "SELECT listeners.topic, subscription, name LIKE 'non-persistent://%' "
            "FROM listeners JOIN topics ON topics.id = listeners.topic WHERE listeners.id = ?",
            (listener,),
        ).fetchone()
        if row is None:
            return
        topic, subscription, volatile = row
        if volatile:
            self._drop_held(listener)
        else:
            self.release(listener)
        self._database.execute("DELETE FROM listeners WHERE id = ?", (listener,))
        if subscription is None:
            self._drop_unneeded(topic)
        elif volatile:
            self._database.execute(
                "DELETE FROM subscriptions WHERE id = ?1 "
                "AND NOT EXISTS (SELECT 1 FROM listeners WHERE subscription = ?1)",
                (subscription,),
            )

    # Reading without a subscription

    def follow(self, connection: int, topic: int) -> Listener:
        """Open a reader. Messages that it has not read are not dropped."""
        return Listener(self._listen(connection, topic, None, room=0), 0, (topic,))

    def last(self, topic: int) -> int:
        """Return the id of the last message of a topic, 0 for none."""
        (last,) = self._one("SELECT coalesce(max(id), 0) FROM messages WHERE topic = ?", topic)
        return int(last)

    def report_position(self, listener: Listener, position: int) -> None:
        """Record how far a reader has read, and drop superseded messages that no reader of a table needs."""
        (topic,) = listener.topics
        (since,) = self._one("SELECT room FROM listeners WHERE id = ?", listener.id)
        self._database.execute("UPDATE listeners SET room = ? WHERE id = ?", (position, listener.id))
        (needed,) = self._one(
            "SELECT min(room) FROM listeners WHERE topic = ? AND subscription IS NULL", topic
        )
        self._drop_stale(topic, since, min(position, needed))

    def after(self, listener: Listener, position: int, limit: int) -> list[Message]:
        """Return the messages after a position, oldest first."""
        self.check_present(listener)
        (topic,) = listener.topics
        later = "SELECT id FROM messages WHERE topic = ? AND id > ? ORDER BY id LIMIT ?"
        return [self._read(number) for number in self._numbers(later, topic, position, limit)]

    # Rows

    def _subscription(self, topic: int, name: str, exclusive: bool) -> int:
        """Return the id of a subscription that can be joined, created if new. Raises `SubscriptionBusy`."""
        row = self._database.execute(
            "SELECT id, exclusive, EXISTS ("
            " SELECT 1 FROM listeners WHERE subscription = subscriptions.id AND room >= 0"
            ") FROM subscriptions WHERE topic = ? AND name = ?",
            (topic, name),
        ).fetchone()
        if row is None:
            return self._insert(
                "INSERT INTO subscriptions (topic, name, exclusive) VALUES (?, ?, ?)", topic, name, exclusive
            )
        subscription, was_exclusive, taken = row
        if taken and (exclusive or was_exclusive):
            raise SubscriptionBusy(
                f"subscription {name!r} already has a consumer, and one of the two is exclusive"
            )
        if exclusive != was_exclusive:
            self._database.execute(
                "UPDATE subscriptions SET exclusive = ? WHERE id = ?", (exclusive, subscription)
            )
        return int(subscription)

    def _feed(self, subscription: int, topic: int) -> None:
        """Deliver the messages of a topic to a subscription, those it keeps and those published later."""
        fed = self._database.execute(
            "INSERT OR IGNORE INTO feeds (topic, subscription) VALUES (?, ?)", (topic, subscription)
        )
        if fed.rowcount:
            self._database.execute(
                "INSERT INTO deliveries (subscription, message) SELECT ?, id FROM messages WHERE topic = ?",
                (subscription, topic),
            )

    def _listen(self, connection: int, topic: int, subscription: int | None, room: int) -> int:
        if not self._numbers("SELECT 1 FROM connections WHERE id = ?", connection):
            raise BrokerUnavailable("another process took this one for dead; it joins again within a second")
        return self._insert(
            "INSERT INTO listeners (connection, topic, subscription, room) VALUES (?, ?, ?, ?)",
            connection,
            topic,
            subscription,
            room,
        )

    def _message(
        self, topic: int, data: bytes, key: str | None, properties: Mapping[str, str], now: float
    ) -> int:
        return self._insert(
            "INSERT INTO messages (topic, key, data, properties, published) VALUES (?, ?, ?, ?, ?)",
            topic,
            key,
            data,
            orjson.dumps({str.__str__(name): str.__str__(value) for name, value in properties.items()}),
            now,
        )

    def _read(self, number: int) -> Message:
        name, key, data, properties, published = self._one(
            "SELECT name, key, data, properties, published FROM messages "
            "JOIN topics ON topics.id = topic WHERE messages.id = ?",
            number,
        )
        at = round(published, 3)  # as the letters of retries have it
        return Message(data, name, str(number), orjson.loads(properties), key, at, receipt=number)

    def _drop(self, message: int) -> None:
        """Delete a message that no subscription, reader or table needs."""
        self._database.execute(
            "DELETE FROM messages WHERE id = ?1 "
            "AND NOT EXISTS (SELECT 1 FROM deliveries WHERE message = ?1) "
            "AND NOT EXISTS (SELECT 1 FROM topics WHERE topics.id = messages.topic AND compacted) "
            "AND NOT EXISTS (SELECT 1 FROM listeners WHERE topic = messages.topic AND subscription IS NULL)",
            (message,),
        )

    def _drop_superseded(self, topic: int, key: str, message: int) -> None:
        """Delete earlier messages of a key from a table, except those that a reader has not read."""
        self._database.execute(
            "DELETE FROM messages WHERE topic = ?1 AND key = ?2 AND id < ?3 "
            "AND EXISTS (SELECT 1 FROM topics WHERE id = ?1 AND compacted) "
            "AND NOT EXISTS (SELECT 1 FROM listeners"
            " WHERE topic = ?1 AND subscription IS NULL AND room < messages.id) "
            "AND NOT EXISTS (SELECT 1 FROM deliveries WHERE message = messages.id)",
            (topic, key, message),
        )

    def _drop_stale(self, topic: int, since: int, until: int) -> None:
        """Delete superseded messages of a table within a range of ids."""
        for superseded in (
            "EXISTS (SELECT 1 FROM messages AS later"
            " WHERE later.topic = ?1 AND later.key = messages.key AND later.id > messages.id)",
            # A deletion can go once there is no earlier message of its key.
            "data = x'' AND NOT EXISTS (SELECT 1 FROM messages AS earlier"
            " WHERE earlier.topic = ?1 AND earlier.key = messages.key AND earlier.id < messages.id)",
        ):
            self._database.execute(
                "DELETE FROM messages WHERE topic = ?1 AND id > ?2 AND id <= ?3 AND key IS NOT NULL "
                "AND EXISTS (SELECT 1 FROM topics WHERE id = ?1 AND compacted) "
                "AND NOT EXISTS (SELECT 1 FROM deliveries WHERE message = messages.id) "
                f"AND {superseded}",
                (topic, since, until),
            )

    def _drop_unneeded(self, topic: int) -> None:
        """Delete the messages that were kept only for a reader that is gone."""
        self._database.execute(
            "DELETE FROM messages WHERE topic = ?1 AND id NOT IN (SELECT message FROM deliveries) "
            "AND EXISTS (SELECT 1 FROM feeds WHERE topic = ?1) "
            "AND NOT EXISTS (SELECT 1 FROM topics WHERE id = ?1 AND compacted) "
            "AND NOT EXISTS (SELECT 1 FROM listeners WHERE topic = ?1 AND subscription IS NULL)",
            (topic,),
        )

    def _drop_held(self, listener: int) -> None:
        """Delete the messages in the buffer of a non-persistent consumer."""
        held = "DELETE FROM deliveries WHERE holder = ? RETURNING message"
        for message in self._numbers(held, listener):
            self._drop(message)

    def _used(self) -> int:
        """Return the bytes in use in the file, an upper bound for any buffer."""
        (used,) = self._one(
            "SELECT (page_count - freelist_count) * page_size"
            " FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
        )
        return int(used)

    def _is_read(self, topic: int) -> bool:
        readers = "SELECT id FROM listeners WHERE topic = ? AND subscription IS NULL LIMIT 1"
        return bool(self._numbers(readers, topic))

    def _insert(self, statement: str, *values: object) -> int:
        number = self._database.execute(statement, values).lastrowid
        assert number is not None
        return number

    def _numbers(self, statement: str, *values: object) -> list[int]:
        """Run a statement, and return the one column of its rows."""
        return [number for (number,) in self._database.execute(statement, values).fetchall()]

    def _one(self, query: str, *values: object) -> tuple[Any, ...]:
        row: tuple[Any, ...] = self._database.execute(query, values).fetchone()
        return row
