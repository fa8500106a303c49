"""Connects to the broker at a URL."""

from __future__ import annotations

from trustgraph_prompt.broker.embedded import MEMORY, EmbeddedBroker
from trustgraph_prompt.broker.protocol import Broker
from trustgraph_prompt.broker.urls import address, may_hold_a_secret
from trustgraph_prompt.errors import ConfigError, excerpt


async def connect(url: str) -> Broker:
    """Connect to `pulsar://host:port`, `pulsar+ssl://…`, `embedded:` (memory) or `embedded:PATH` (a file).

    Raises `ConfigError` for any other URL, `BrokerUnavailable` if the broker cannot be reached.
    """
    scheme, _, rest = url.partition(":")
    if scheme == "embedded":
        return await EmbeddedBroker.connect(rest or MEMORY)
    if scheme in ("pulsar", "pulsar+ssl"):
        from trustgraph_prompt.broker.pulsar.broker import PulsarBroker  # slow to import

        return await PulsarBroker.connect(url)
    raise ConfigError(
        f"not a broker URL: {f'unknown scheme {excerpt(scheme, 40)!r}' if rest else 'it has no scheme'}",
        found=address(url) if may_hold_a_secret(url) else url,
        expected="pulsar://HOST:PORT, pulsar+ssl://HOST:PORT, embedded: or embedded:PATH",
    )
