"""The embedded broker's state: what a topic, a subscription and a consumer are, as rows of SQLite.

Every method is one short step inside a transaction that `engine.py` opens and commits. A message has one
`deliveries` row for each subscription that has yet to deal with it. Consumers live in the rows of the
connection that opened them, and go with it; what they held is free again.
"""

from __future__ import annotations

import sqlite3
import time
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
    """A consumer or reader as it is known here: its row, and the topics whose news concern it."""

    id: int
    subscription: int
    topics: tuple[int, ...]


class Store:
    """The rows, and what may be done with them. `touched` gathers the topics that have news for a waiter."""

    def __init__(self, database: sqlite3.Connection, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock
        self._delays = Delays(database, clock)
        self.touched: set[int] = set()

    def prepare(self) -> None:
        """Make sure of the tables; the clock may have been put back since they were used."""
        schema.prepare(self._database)
        self._delays.put_forward()

    def rewrite(self) -> None:
        """Write something that is there already."""
        (version,) = self._one("PRAGMA user_version")
        self._database.execute(f"PRAGMA user_version = {version}")

    # Connections

    def connect(self) -> int:
        """A row for this connection; whatever it opens is tied to it."""
        return self._insert("INSERT INTO connections DEFAULT VALUES")

    def version(self) -> int:
        """A number that changes whenever another process has committed something."""
        return int(self._one("PRAGMA data_version")[0])

    def connections(self) -> list[int]:
        return [number for (number,) in self._database.execute("SELECT id FROM connections")]

    def disconnect(self, connection: int) -> None:
        """The connection has closed or died: what its consumers held goes to others."""
        for (listener,) in self._database.execute(
            "SELECT id FROM listeners WHERE connection = ?", (connection,)
        ).fetchall():
            self.leave(listener)
        self._database.execute("DELETE FROM connections WHERE id = ?", (connection,))

    def listening(self, topics: set[int]) -> set[int]:
        """The connections on which somebody waits for one of the topics."""
        marks = ",".join("?" * len(topics))
        rows = self._database.execute(
            "SELECT DISTINCT connection FROM listeners LEFT JOIN feeds USING (subscription) "
            f"WHERE coalesce(feeds.topic, listeners.topic) IN ({marks})",
            tuple(topics),
        )
        return {connection for (connection,) in rows}

    # Topics

    def topic(self, name: str) -> int:
        """The number of the topic, created where it is new."""
        row = self._database.execute("SELECT id FROM topics WHERE name = ?", (name,)).fetchone()
        return int(row[0]) if row else self._insert("INSERT INTO topics (name) VALUES (?)", name)

    def subscriptions(self) -> dict[str, frozenset[str]]:
        """All topics with the names of their subscriptions."""
        found: dict[str, frozenset[str]] = {}
        for topic, name in self._database.execute(
            "SELECT topics.name, subscriptions.name FROM topics "
            "LEFT JOIN subscriptions ON subscriptions.topic = topics.id"
        ):
            found[topic] = found.get(topic, frozenset()) | ({name} if name else set())
        return found

    def compact(self, topic: int) -> None:
        """From now on the last message of each key is kept whatever subscriptions do; no other need be.

        Who is reading meanwhile still sees every change: then nothing is dropped this time.
        """
        self._database.execute("UPDATE topics SET compacted = 1 WHERE id = ?", (topic,))
        if self._is_read(topic):
            return
        # Without a key it waits for the first subscription, as on any topic.
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
        """Keep the message for every subscription of a persistent topic."""
        now = self._clock()
        message = self._message(topic, data, key, properties, now)
        # An exclusive subscription knows no delays, as in Pulsar.
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
        """Hand the message to one consumer with room of each subscription of a non-persistent topic."""
        most = MAX_BUFFERED - len(data)
        takers = self._database.execute(
            "SELECT subscription, id, max(room) FROM listeners WHERE topic = ?1 AND room > 0 AND (?2 OR ("
            " SELECT coalesce(sum(length(data)), 0) FROM deliveries JOIN messages ON messages.id = message"
            " WHERE holder = listeners.id) <= ?3) GROUP BY subscription",
            (topic, self._used() <= most, most),  # summing up takes long where many wait
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

    def subscribe(self, connection: int, topic: int, name: str, exclusive: bool, retry: int) -> Listener:
        """A consumer on a durable subscription; a new one begins with the earliest message kept."""
        subscription = self._subscription(topic, name, exclusive)
        if subscription is None:
            subscription = self._found(topic, name, exclusive, feeds=(topic, retry))
        else:
            self._feed(subscription, retry)
        listener = self._listen(connection, topic, subscription, room=0)
        return Listener(listener, subscription, (topic, retry))

    def attend(self, connection: int, topic: int, name: str, exclusive: bool, room: int) -> Listener:
        """A consumer of a non-persistent topic: it gets what is published from now on while it has room."""
        subscription = self._subscription(topic, name, exclusive)
        if subscription is None:
            subscription = self._found(topic, name, exclusive, feeds=())
        return Listener(self._listen(connection, topic, subscription, room), subscription, (topic,))

    def take(self, listener: Listener) -> Message | float | None:
        """Hold the next message of the subscription; or when one falls due; or None for neither."""
        self.check_present(listener)
        self._delays.look_at_clock()
        self._database.execute(
            "UPDATE deliveries SET due = NULL WHERE subscription = ? AND due <= ?",
            (listener.subscription, self._clock()),
        )
        row = self._database.execute(
            "UPDATE deliveries SET holder = ?1 WHERE subscription = ?2 AND message = ("
            " SELECT message FROM deliveries INDEXED BY deliveries_ready"
            " WHERE subscription = ?2 AND holder IS NULL AND due IS NULL"
            " ORDER BY message LIMIT 1) RETURNING message",
            (listener.id, listener.subscription),
        ).fetchall()
        if row:
            return self._read(row[0][0])
        (due,) = self._one(
            "SELECT min(due) FROM deliveries WHERE subscription = ? AND due IS NOT NULL",
            listener.subscription,
        )
        return float(due) if due is not None else None

    def draw(self, listener: Listener) -> Message | None:
        """Take the next message out of the consumer's own buffer."""
        self.check_present(listener)
        row = self._database.execute(
            "SELECT message FROM deliveries WHERE holder = ? ORDER BY message LIMIT 1", (listener.id,)
        ).fetchone()
        if row is None:
            return None
        message = self._read(row[0])
        self.acknowledge(listener.subscription, row[0])
        self._database.execute(
            "UPDATE listeners SET room = room + 1 WHERE id = ? AND room >= 0", (listener.id,)
        )
        return message

    def check_present(self, listener: Listener) -> None:
        """Raise `BrokerClosed` where the listener has left, or was taken for dead."""
        if not self._database.execute("SELECT 1 FROM listeners WHERE id = ?", (listener.id,)).fetchone():
            raise BrokerClosed("what was opened here has been closed, or its process was taken for dead")

    def acknowledge(self, subscription: int, message: int) -> None:
        """The subscription is done with the message; nobody else waiting for it, it is dropped."""
        self._database.execute(
            "DELETE FROM deliveries WHERE subscription = ? AND message = ?", (subscription, message)
        )
        self._drop(message)

    def stop(self, listener: Listener) -> None:
        """A non-persistent consumer takes in nothing more, its place in the subscription is free."""
        self._database.execute("UPDATE listeners SET room = -1 WHERE id = ?", (listener.id,))

    def retain(self, topic: int, name: str) -> None:
        """A subscription that keeps the topic's messages until somebody consumes them by that name."""
        known = "SELECT 1 FROM subscriptions WHERE topic = ? AND name = ?"
        if not self._database.execute(known, (topic, name)).fetchone():
            self._found(topic, name, exclusive=False, feeds=(topic,))

    def release(self, listener: int, message: int | None = None) -> None:
        """What the consumer holds, or one message of it, is delivered again."""
        self._database.execute(
            "UPDATE deliveries SET holder = NULL WHERE holder = ?1 AND (?2 IS NULL OR message = ?2)",
            (listener, message),
        )
        self.touched.update(
            topic
            for (topic,) in self._database.execute(
                "SELECT feeds.topic FROM feeds JOIN listeners USING (subscription) WHERE listeners.id = ?",
                (listener,),
            )
        )

    def leave(self, listener: int) -> None:
        """The consumer or reader is gone, and what waited for it alone goes too."""
        row = self._database.execute(
            "SELECT listeners.topic, subscription, name LIKE 'non-persistent://%' "
            "FROM listeners JOIN topics ON topics.id = listeners.topic WHERE listeners.id = ?",
            (listener,),
        ).fetchone()
        if row is None:
            return
        topic, subscription, volatile = row
        if volatile:
            self._forget(listener)
        else:
            self.release(listener)
        self._database.execute("DELETE FROM listeners WHERE id = ?", (listener,))
        if subscription is None:
            self._drop_read(topic)
        elif volatile:
            self._database.execute(
                "DELETE FROM subscriptions WHERE id = ?1 "
                "AND NOT EXISTS (SELECT 1 FROM listeners WHERE subscription = ?1)",
                (subscription,),
            )

    # Reading without a subscription

    def follow(self, connection: int, topic: int) -> Listener:
        """A reader: it is told of news, and what it has not read yet is not dropped meanwhile."""
        return Listener(self._listen(connection, topic, None, room=0), 0, (topic,))

    def last(self, topic: int) -> int:
        """The number of the last message of the topic, 0 for none."""
        (last,) = self._one("SELECT coalesce(max(id), 0) FROM messages WHERE topic = ?", topic)
        return int(last)

    def reached(self, listener: Listener, position: int) -> None:
        """The reader needs nothing up to this position; of a table, what no reader needs is deleted."""
        (topic,) = listener.topics
        (since,) = self._one("SELECT room FROM listeners WHERE id = ?", listener.id)
        self._database.execute("UPDATE listeners SET room = ? WHERE id = ?", (position, listener.id))
        (needed,) = self._one(
            "SELECT min(room) FROM listeners WHERE topic = ? AND subscription IS NULL", topic
        )
        self._drop_stale(topic, since, min(position, needed))

    def after(self, listener: Listener, position: int, limit: int) -> list[Message]:
        """The messages that follow a position, oldest first."""
        self.check_present(listener)
        (topic,) = listener.topics
        rows = self._database.execute(
            "SELECT id FROM messages WHERE topic = ? AND id > ? ORDER BY id LIMIT ?", (topic, position, limit)
        )
        return [self._read(number) for (number,) in rows.fetchall()]

    # Rows

    def _subscription(self, topic: int, name: str, exclusive: bool) -> int | None:
        """The subscription as it stands, when there is a place in it."""
        row = self._database.execute(
            "SELECT id, exclusive, EXISTS ("
            " SELECT 1 FROM listeners WHERE subscription = subscriptions.id AND room >= 0"
            ") FROM subscriptions WHERE topic = ? AND name = ?",
            (topic, name),
        ).fetchone()
        if row is None:
            return None
        subscription, was_exclusive, taken = row
        if taken and (exclusive or was_exclusive):
            raise SubscriptionBusy(
                f"subscription {name!r} has a consumer already, and one of them is exclusive"
            )
        if exclusive != was_exclusive:
            self._database.execute(
                "UPDATE subscriptions SET exclusive = ? WHERE id = ?", (exclusive, subscription)
            )
        return int(subscription)

    def _found(self, topic: int, name: str, exclusive: bool, feeds: tuple[int, ...]) -> int:
        subscription = self._insert(
            "INSERT INTO subscriptions (topic, name, exclusive) VALUES (?, ?, ?)", topic, name, exclusive
        )
        for feed in feeds:
            self._feed(subscription, feed)
        return subscription

    def _feed(self, subscription: int, topic: int) -> None:
        """From now on what is published on the topic is delivered to the subscription, and what it keeps."""
        fed = self._database.execute(
            "INSERT OR IGNORE INTO feeds (topic, subscription) VALUES (?, ?)", (topic, subscription)
        )
        if fed.rowcount:
            self._database.execute(
                "INSERT INTO deliveries (subscription, message) SELECT ?, id FROM messages WHERE topic = ?",
                (subscription, topic),
            )

    def _listen(self, connection: int, topic: int, subscription: int | None, room: int) -> int:
        if not self._database.execute("SELECT 1 FROM connections WHERE id = ?", (connection,)).fetchone():
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
        return Message(data, name, str(number), orjson.loads(properties), key, published, receipt=number)

    def _drop(self, message: int) -> None:
        """Delete a message nobody waits for any more: no subscription, no reader, no table."""
        self._database.execute(
            "DELETE FROM messages WHERE id = ?1 "
            "AND NOT EXISTS (SELECT 1 FROM deliveries WHERE message = ?1) "
            "AND NOT EXISTS (SELECT 1 FROM topics WHERE topics.id = messages.topic AND compacted) "
            "AND NOT EXISTS (SELECT 1 FROM listeners WHERE topic = messages.topic AND subscription IS NULL)",
            (message,),
        )

    def _drop_superseded(self, topic: int, key: str, message: int) -> None:
        """Delete what a table had for the key before, except what a reader has still to see."""
        self._database.execute(
            "DELETE FROM messages WHERE topic = ?1 AND key = ?2 AND id < ?3 "
            "AND EXISTS (SELECT 1 FROM topics WHERE id = ?1 AND compacted) "
            "AND NOT EXISTS (SELECT 1 FROM listeners"
            " WHERE topic = ?1 AND subscription IS NULL AND room < messages.id) "
            "AND NOT EXISTS (SELECT 1 FROM deliveries WHERE message = messages.id)",
            (topic, key, message),
        )

    def _drop_stale(self, topic: int, since: int, until: int) -> None:
        """Delete what a table of the topic does not need of the messages in between."""
        for needless in (
            "EXISTS (SELECT 1 FROM messages AS later"
            " WHERE later.topic = ?1 AND later.key = messages.key AND later.id > messages.id)",
            # A deletion may go once there is nothing left that it deletes.
            "data = x'' AND NOT EXISTS (SELECT 1 FROM messages AS earlier"
            " WHERE earlier.topic = ?1 AND earlier.key = messages.key AND earlier.id < messages.id)",
        ):
            self._database.execute(
                "DELETE FROM messages WHERE topic = ?1 AND id > ?2 AND id <= ?3 AND key IS NOT NULL "
                "AND EXISTS (SELECT 1 FROM topics WHERE id = ?1 AND compacted) "
                "AND NOT EXISTS (SELECT 1 FROM deliveries WHERE message = messages.id) "
                f"AND {needless}",
                (topic, since, until),
            )

    def _drop_read(self, topic: int) -> None:
        """A reader has left: delete what only it kept from being dropped."""
        self._database.execute(
            "DELETE FROM messages WHERE topic = ?1 AND id NOT IN (SELECT message FROM deliveries) "
            "AND EXISTS (SELECT 1 FROM feeds WHERE topic = ?1) "
            "AND NOT EXISTS (SELECT 1 FROM topics WHERE id = ?1 AND compacted) "
            "AND NOT EXISTS (SELECT 1 FROM listeners WHERE topic = ?1 AND subscription IS NULL)",
            (topic,),
        )

    def _forget(self, listener: int) -> None:
        """What a non-persistent consumer had not drawn yet is lost with it."""
        held = self._database.execute(
            "DELETE FROM deliveries WHERE holder = ? RETURNING message", (listener,)
        ).fetchall()
        for (message,) in held:
            self._drop(message)

    def _used(self) -> int:
        """Bytes in use in the whole file: no buffer has more."""
        (used,) = self._one(
            "SELECT (page_count - freelist_count) * page_size"
            " FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
        )
        return int(used)

    def _is_read(self, topic: int) -> bool:
        query = "SELECT 1 FROM listeners WHERE topic = ? AND subscription IS NULL"
        return self._database.execute(query, (topic,)).fetchone() is not None

    def _insert(self, statement: str, *values: object) -> int:
        number = self._database.execute(statement, values).lastrowid
        assert number is not None
        return number

    def _one(self, query: str, *values: object) -> tuple[Any, ...]:
        row: tuple[Any, ...] = self._database.execute(query, values).fetchone()
        return row
