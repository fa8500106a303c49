"""The message broker: its protocol, the embedded implementation and Pulsar."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trustgraph_prompt.broker.connect import connect
from trustgraph_prompt.broker.embedded import EmbeddedBroker
from trustgraph_prompt.broker.protocol import Broker, Caller, Consumer, Message, Producer, Reader, Table

if TYPE_CHECKING:
    from trustgraph_prompt.broker.pulsar.broker import PulsarBroker

__all__ = [
    "Broker",
    "Caller",
    "Consumer",
    "EmbeddedBroker",
    "Message",
    "Producer",
    "PulsarBroker",
    "Reader",
    "Table",
    "connect",
]


def __getattr__(name: str) -> object:
    """Import `PulsarBroker` on first use: Pulsar's client is slow to import."""
    if name == "PulsarBroker":
        from trustgraph_prompt.broker.pulsar.broker import PulsarBroker

        return PulsarBroker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
