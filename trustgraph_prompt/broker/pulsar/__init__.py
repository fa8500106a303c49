"""Apache Pulsar as a broker, over `pulsar.asyncio` (pulsar-client 3.13 or newer)."""

from __future__ import annotations

from trustgraph_prompt.broker.pulsar.broker import PulsarBroker

__all__ = ["PulsarBroker"]
