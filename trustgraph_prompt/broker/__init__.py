"""How messages move: the protocol, and its implementations."""

from __future__ import annotations

from trustgraph_prompt.broker.protocol import Broker, Caller, Consumer, Message, Producer, Reader, Table

__all__ = ["Broker", "Caller", "Consumer", "Message", "Producer", "Reader", "Table"]
