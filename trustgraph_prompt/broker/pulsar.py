"""Pulsar as a broker."""

from __future__ import annotations

from trustgraph_prompt.broker.protocol import Broker
from trustgraph_prompt.errors import BrokerUnavailable


class PulsarBroker:
    @classmethod
    async def connect(cls, url: str) -> Broker:
        raise BrokerUnavailable(f"{url}: not yet")
