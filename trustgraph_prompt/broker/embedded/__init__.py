"""A broker without a server: SQLite in memory, or in a file that several processes share."""

from __future__ import annotations

from trustgraph_prompt.broker.embedded.broker import EmbeddedBroker
from trustgraph_prompt.broker.embedded.database_file import MEMORY

__all__ = ["MEMORY", "EmbeddedBroker"]
