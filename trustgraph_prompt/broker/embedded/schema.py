"""The tables of the embedded broker, and the header that identifies its files."""

from __future__ import annotations

import sqlite3
from typing import Final

from trustgraph_prompt.errors import BrokerUnavailable

_APPLICATION: Final = 0x7467_7062  # "tgpb", in the file's header
_VERSION: Final = 1

_SCHEMA: Final = """
CREATE TABLE topics (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    compacted INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    topic INTEGER NOT NULL REFERENCES topics,
    key TEXT,
    data BLOB NOT NULL,
    properties BLOB NOT NULL,
    published REAL NOT NULL
);
CREATE INDEX messages_of_topic ON messages (topic, id);
CREATE INDEX messages_of_key ON messages (topic, key, id) WHERE key IS NOT NULL;
CREATE TABLE subscriptions (
    id INTEGER PRIMARY KEY,
    topic INTEGER NOT NULL REFERENCES topics,
    name TEXT NOT NULL,
    exclusive INTEGER NOT NULL,
    UNIQUE (topic, name)
);
-- A subscription is fed by its topic and, where that is persistent, by its own retry topic.
CREATE TABLE feeds (
    topic INTEGER NOT NULL REFERENCES topics,
    subscription INTEGER NOT NULL REFERENCES subscriptions ON DELETE CASCADE,
    PRIMARY KEY (topic, subscription)
) WITHOUT ROWID;
CREATE TABLE connections (id INTEGER PRIMARY KEY AUTOINCREMENT);
-- One row for each consumer (with a subscription) or reader (without).
-- `room` is free space in the buffer of a consumer, or the last message that a reader has reported as read.
CREATE TABLE listeners (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    connection INTEGER NOT NULL REFERENCES connections,
    topic INTEGER NOT NULL REFERENCES topics,
    subscription INTEGER REFERENCES subscriptions,
    room INTEGER NOT NULL
);
CREATE INDEX listeners_of_topic ON listeners (topic);
CREATE INDEX listeners_of_subscription ON listeners (subscription);
CREATE TABLE deliveries (
    subscription INTEGER NOT NULL REFERENCES subscriptions ON DELETE CASCADE,
    message INTEGER NOT NULL REFERENCES messages,
    holder INTEGER,
    due REAL,
    PRIMARY KEY (subscription, message)
) WITHOUT ROWID;
CREATE INDEX deliveries_of_message ON deliveries (message);
CREATE INDEX deliveries_ready ON deliveries (subscription, message) WHERE holder IS NULL AND due IS NULL;
CREATE INDEX deliveries_delayed ON deliveries (subscription, due) WHERE due IS NOT NULL;
CREATE INDEX deliveries_held ON deliveries (holder, message) WHERE holder IS NOT NULL;
"""


def check(database: sqlite3.Connection) -> bool:
    """Return whether the tables exist. Raises `BrokerUnavailable` for the files of other programs."""
    (application,) = database.execute("PRAGMA application_id").fetchone()
    (version,) = database.execute("PRAGMA user_version").fetchone()
    (tables,) = database.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if application == _APPLICATION and version != _VERSION:
        raise BrokerUnavailable(f"found a broker file of version {version}, expected version {_VERSION}")
    if application != _APPLICATION and (tables or application):
        raise BrokerUnavailable("found a database of another program, expected a broker file")
    return bool(tables)


def prepare(database: sqlite3.Connection) -> None:
    """Create the tables in a new file."""
    if not check(database):
        for statement in _SCHEMA.split(";\n"):
            database.execute(statement)
        database.execute(f"PRAGMA application_id = {_APPLICATION}")
        database.execute(f"PRAGMA user_version = {_VERSION}")
