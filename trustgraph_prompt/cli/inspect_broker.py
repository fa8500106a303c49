"""Reads a broker without creating topics: opening a missing topic would create it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from trustgraph_prompt.cli import options
from trustgraph_prompt.errors import BrokerUnavailable, ConfigError

if TYPE_CHECKING:
    from trustgraph_prompt.broker import Broker, Message
    from trustgraph_prompt.broker.pulsar.admin import PulsarAdmin
    from trustgraph_prompt.worker import Flow

T = TypeVar("T")

where_option = partial(typer.Option, rich_help_panel="Flows and subscriptions")
"""Declares an option that says where to look."""

FlowsOption = Annotated[
    list[Path] | None,
    where_option(
        "--flows",
        metavar="PATH",
        envvar="TRUSTGRAPH_PROMPT_FLOWS",
        help="A flow file, or a folder of them, instead of the bundled ones. May be given several times.",
    ),
]
FlowOption = Annotated[str | None, where_option("--flow", metavar="NAME", help="Only this flow.")]
AdminUrlOption = Annotated[
    str | None,
    typer.Option(
        "--admin-url",
        metavar="URL",
        envvar="TRUSTGRAPH_PROMPT_ADMIN_URL",
        help="URL of Pulsar's admin API. Default: port 8080 of the broker's host, 8443 with pulsar+ssl://.",
    ),
]


def known(name: str | None, names: Sequence[str], option: str) -> str | None:
    """Return the value of an option `--NOUN`. Raises `ConfigError` if it is not one of `names`."""
    from trustgraph_prompt.errors import suggestion

    if name is None or name in names:
        return name
    what = f"there is no such {option.removeprefix('--')}"
    if near := suggestion(name, names):
        raise ConfigError(f"{what}{near}", where=option)
    raise ConfigError(what, where=option, found=name, expected=f"one of {', '.join(names)}")


def flows_of(
    flows: list[Path] | None, name: str | None, *, processor: str = "prompt"
) -> tuple[list[Flow], str]:
    """Load the flows that the options name, else the bundled ones; also describe them for a message.

    Raises `ConfigError`.
    """
    from trustgraph_prompt import package_data
    from trustgraph_prompt.worker.flow_file import load

    served = [flow for path in flows or [package_data.flows()] for flow in load(path, processor=processor)]
    try:
        known(name, sorted(flow.name for flow in served), "--flow")
    except ConfigError as error:
        if not flows:
            error.add_note("flows of your own are in the files that --flows names")
        raise
    chosen = [flow for flow in served if name in (None, flow.name)]
    names = ", ".join(dict.fromkeys(flow.name for flow in chosen))
    given = f" in {', '.join(map(str, flows))}" if flows else ""
    description = (
        f"of the {'' if flows else 'bundled '}{'flow' if len(chosen) == 1 else 'flows'} {names}{given}"
    )
    return chosen, description


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
        from trustgraph_prompt.broker.pulsar.admin import subscriptions_of

        if isinstance(self.broker, EmbeddedBroker):
            there = await self.broker.subscriptions()
            return {topic: there[topic] for topic in topics if topic in there}
        async with admin(self.url, self._admin_url) as asked:
            return await subscriptions_of(asked, topics)

    async def topics(self, namespaces: Iterable[str]) -> Collection[str]:
        """Return the persistent topics of these `tenant/namespace`; on an embedded broker, all topics."""
        from trustgraph_prompt.broker import EmbeddedBroker
        from trustgraph_prompt.broker.pulsar.admin import topics_in

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


def look(url: str, admin_url: str | None, action: Callable[[BrokerView], Awaitable[T]]) -> T:
    """Run the action on the broker at the URL and return its result. Raises `ConfigError`, `BrokerError`."""
    return options.on_broker(
        options.existing(url), lambda connected: action(BrokerView(connected, url, admin_url))
    )


@asynccontextmanager
async def admin(broker: str, url: str | None) -> AsyncIterator[PulsarAdmin]:
    """Open the admin API at the URL, or beside the broker. Raises `ConfigError`, `BrokerUnavailable`."""
    from trustgraph_prompt.broker.pulsar.admin import admin_of, admin_url
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
