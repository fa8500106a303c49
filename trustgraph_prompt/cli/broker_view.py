"""Reads a broker without creating topics: opening a missing topic would create it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trustgraph_prompt.errors import BrokerUnavailable

if TYPE_CHECKING:
    from trustgraph_prompt.broker import Broker, Message
    from trustgraph_prompt.broker.pulsar.admin.client import PulsarAdmin


@dataclass(frozen=True, slots=True)
class BrokerView:
    """A broker and what exists on it. All methods raise `BrokerError` and `ConfigError`."""

    broker: Broker
    url: str
    _admin_url: str | None

    async def has(self, topic: str) -> bool:
        """Whether the persistent topic exists."""
        return topic in await self.subscriptions([topic])

    async def subscriptions(self, topics: Iterable[str]) -> Mapping[str, frozenset[str]]:
        """Return those of the persistent topics that exist, with their subscriptions."""
        from trustgraph_prompt.broker import EmbeddedBroker
        from trustgraph_prompt.broker.pulsar.admin.prepare import subscriptions_of

        if isinstance(self.broker, EmbeddedBroker):
            there = await self.broker.subscriptions()
            return {topic: there[topic] for topic in topics if topic in there}
        async with admin(self.url, self._admin_url) as asked:
            return await subscriptions_of(asked, topics)

    async def topics(self, namespaces: Iterable[str]) -> Collection[str]:
        """Return the persistent topics of these `tenant/namespace`; on an embedded broker, all topics."""
        from trustgraph_prompt.broker import EmbeddedBroker
        from trustgraph_prompt.broker.pulsar.admin.prepare import topics_in

        if isinstance(self.broker, EmbeddedBroker):
            return (await self.broker.subscriptions()).keys()
        async with admin(self.url, self._admin_url) as asked:
            return await topics_in(asked, namespaces)

    async def entries(self, config_topic: str, workspace: str | None) -> dict[str, bytes]:
        """Return the entries of one workspace or of all; none if there is no such topic."""
        found = await self.messages(config_topic, workspace)
        return {key: message.data for key, message in found.items()}

    async def messages(self, config_topic: str, workspace: str | None) -> dict[str, Message]:
        """As `entries`, with the messages that carry them."""
        from trustgraph_prompt.worker.config.config_topic import messages

        if not await self.has(config_topic):
            return {}
        return await messages(self.broker, workspace, topic=config_topic)


@asynccontextmanager
async def admin(broker: str, url: str | None) -> AsyncIterator[PulsarAdmin]:
    """Open the admin API at the URL, or beside the broker. Raises `ConfigError`, `BrokerUnavailable`."""
    from trustgraph_prompt.broker.pulsar.admin.client import admin_of, admin_url
    from trustgraph_prompt.broker.pulsar.credentials import Credentials

    at, access = url or admin_url(broker), Credentials.from_environment()
    try:
        async with await admin_of(at, access) as opened:
            yield opened
    except BrokerUnavailable as error:
        if url is not None:
            raise
        raise BrokerUnavailable(
            f"{error} (this is the default address; set another with --admin-url)"
        ) from error
