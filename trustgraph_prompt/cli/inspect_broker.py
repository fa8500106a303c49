"""Looking at a broker without making anything there: whoever opens a topic that is missing creates it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from trustgraph_prompt.cli import options
from trustgraph_prompt.errors import BrokerUnavailable, ConfigError

if TYPE_CHECKING:
    from trustgraph_prompt.broker import Broker
    from trustgraph_prompt.broker.pulsar.admin import PulsarAdmin
    from trustgraph_prompt.worker import Flow

T = TypeVar("T")

WHERE = "Where to look"

FlowsOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--flows",
        metavar="PATH",
        help="A flow file, or a folder of them, instead of the bundled. May be given several times.",
        rich_help_panel=WHERE,
    ),
]
FlowOption = Annotated[
    str | None, typer.Option("--flow", metavar="NAME", help="One of the flows only.", rich_help_panel=WHERE)
]
AdminUrlOption = Annotated[
    str | None,
    typer.Option(
        "--admin-url",
        metavar="URL",
        envvar="TRUSTGRAPH_PROMPT_ADMIN_URL",
        help="Pulsar's admin API; unless given, port 8080 of the broker's host (8443 of pulsar+ssl).",
    ),
]


def known(name: str | None, names: Sequence[str], option: str) -> str | None:
    """The name that an option `--NOUN` has, if any. Raises `ConfigError` where it is none of the known."""
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
    """The flows that the options name, else the bundled ones; and in words whose they are.

    Raises `ConfigError`.
    """
    from trustgraph_prompt import package_data
    from trustgraph_prompt.worker.flow_file import load

    served = [each for path in flows or [package_data.flows()] for each in load(path, processor=processor)]
    chosen = [each for each in served if name in (None, each.name)]
    if not chosen:
        known = ", ".join(sorted(each.name for each in served))
        raise ConfigError("there is no such flow", where="--flow", found=name, expected=f"one of {known}")
    names = ", ".join(dict.fromkeys(each.name for each in chosen))
    given = f" in {', '.join(map(str, flows))}" if flows else ""
    whose = f"of the {'' if flows else 'bundled '}{'flow' if len(chosen) == 1 else 'flows'} {names}{given}"
    return chosen, whose


@dataclass(frozen=True, slots=True)
class BrokerView:
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


def look(url: str, admin_url: str | None, action: Callable[[BrokerView], Awaitable[T]]) -> T:
    """What the action gives on the broker of that URL. Raises `ConfigError`, `BrokerError`."""
    return options.on_broker(
        options.existing(url), lambda connected: action(BrokerView(connected, url, admin_url))
    )


@asynccontextmanager
async def admin(broker: str, url: str | None) -> AsyncIterator[PulsarAdmin]:
    """The admin API beside that broker, or at that URL. Raises `ConfigError`, and `BrokerUnavailable`."""
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
            f"{error} (looked for beside the broker; --admin-url says where the admin API is)"
        ) from error
