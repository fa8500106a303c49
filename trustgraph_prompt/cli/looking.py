"""Looking at a broker without making anything there: whoever opens a topic that is missing creates it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from trustgraph_prompt.cli import options
from trustgraph_prompt.errors import BrokerUnavailable

if TYPE_CHECKING:
    from trustgraph_prompt.broker import Broker
    from trustgraph_prompt.broker.pulsar.admin import PulsarAdmin

T = TypeVar("T")

AdminUrlOption = Annotated[
    str | None,
    typer.Option(
        "--admin-url",
        metavar="URL",
        envvar="TRUSTGRAPH_PROMPT_ADMIN_URL",
        help="Pulsar's admin API; unless given, port 8080 of the broker's host (8443 of pulsar+ssl).",
    ),
]


@dataclass(frozen=True, slots=True)
class Sight:
    """A broker, and what is on it. All raise `BrokerError` and `ConfigError`."""

    broker: Broker
    url: str
    _admin_url: str | None

    async def has(self, topic: str) -> bool:
        """Whether there is such a persistent topic."""
        return topic in await self.subscriptions([topic])

    async def subscriptions(self, topics: Iterable[str]) -> Mapping[str, frozenset[str]]:
        """Those of the persistent topics that there are, with their subscriptions."""
        from trustgraph_prompt.broker import EmbeddedBroker
        from trustgraph_prompt.broker.pulsar.admin import subscriptions_of

        if isinstance(self.broker, EmbeddedBroker):
            there = await self.broker.subscriptions()
            return {topic: there[topic] for topic in topics if topic in there}
        async with admin(self.url, self._admin_url) as asked:
            return await subscriptions_of(asked, topics)

    async def topics(self, namespaces: Iterable[str]) -> Collection[str]:
        """The persistent topics of these `tenant/namespace`; of a broker in a file, all."""
        from trustgraph_prompt.broker import EmbeddedBroker
        from trustgraph_prompt.broker.pulsar.admin import topics_in

        if isinstance(self.broker, EmbeddedBroker):
            return (await self.broker.subscriptions()).keys()
        async with admin(self.url, self._admin_url) as asked:
            return await topics_in(asked, namespaces)


def look(url: str, admin_url: str | None, action: Callable[[Sight], Awaitable[T]]) -> T:
    """What the action gives on the broker of that URL. Raises `ConfigError`, `BrokerError`."""
    return options.on_broker(
        options.existing(url), lambda connected: action(Sight(connected, url, admin_url))
    )


@asynccontextmanager
async def admin(broker: str, url: str | None) -> AsyncIterator[PulsarAdmin]:
    """The admin API beside that broker, or at that URL. Raises `ConfigError`, and `BrokerUnavailable`."""
    from trustgraph_prompt.broker.pulsar.access import Access
    from trustgraph_prompt.broker.pulsar.admin import admin_of, admin_url

    at, access = url or admin_url(broker), Access.from_environment()
    try:
        async with await admin_of(at, access) as opened:
            yield opened
    except BrokerUnavailable as error:
        if url is not None:
            raise
        raise BrokerUnavailable(
            f"{error} (looked for beside the broker; --admin-url says where the admin API is)"
        ) from error
