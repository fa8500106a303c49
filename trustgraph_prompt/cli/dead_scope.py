"""Which subscriptions' dead letters the commands of `dead` look at."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from trustgraph_prompt.cli import inspect_broker, options, output
from trustgraph_prompt.errors import BrokerError, ConfigError, TopicInvalid

if TYPE_CHECKING:
    from trustgraph_prompt.cli.inspect_broker import BrokerView
    from trustgraph_prompt.worker import Flow
    from trustgraph_prompt.worker.dead_letters.browse_and_replay import DeadLetterFilter
    from trustgraph_prompt.worker.dead_letters.record import DeadLetter, LetterSource

TopicOption = Annotated[
    str | None,
    inspect_broker.where_option(
        "--topic",
        metavar="TOPIC",
        help="With --subscription: the request topic of a subscription that no flow file names.",
    ),
]
SubscriptionOption = Annotated[
    str | None,
    inspect_broker.where_option(
        "--subscription", metavar="NAME", help="With --topic: the name of the subscription."
    ),
]
EverywhereOption = Annotated[
    bool,
    inspect_broker.where_option(
        "--all",
        help="Also all other dead-letter topics: on Pulsar in the namespaces of the flows, "
        "on an embedded broker all of them.",
    ),
]


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """The subscriptions that the options name, a description of them, and their flows if files name them."""

    subscriptions: list[LetterSource]
    description: str
    flows: tuple[Flow, ...] = ()
    bundled: bool = False
    everywhere: bool = False

    @property
    def _topics(self) -> set[str]:
        return {place.topic for place in self.subscriptions}

    @property
    def namespaces(self) -> list[str]:
        from trustgraph_prompt.broker.topics import namespace_of

        return sorted(set(map(namespace_of, self._topics)))

    def described(self, broker: str) -> str:
        """Describe what was searched on the broker at the URL."""
        if not self.everywhere:
            others = "; use --flows for others" if self.bundled else ""
            return f"{self.description} on {broker}{others}"
        within = "" if broker.startswith("embedded:") else f" of {', '.join(self.namespaces)}"
        return f"{self.description}, and of all other dead-letter topics{within} on {broker}"

    def described_in_full(self, broker: str) -> str:
        """Describe what was searched, with the subscriptions: a wrong --id shows in their names."""
        names = sorted({place.subscription for place in self.subscriptions})
        return f"{self.described(broker)} (subscription{'s' if len(names) > 1 else ''} {', '.join(names)})"

    async def look(self, view: BrokerView, choice: DeadLetterFilter) -> AsyncGenerator[DeadLetter, None]:
        """Yield the chosen dead letters. Raises `BrokerError`, `ConfigError`.

        Skips topics without the subscription `dead`, which exists as soon as there is a dead letter.
        """
        wanted = [place.dead_letter_topic for place in self.subscriptions]
        if self.everywhere:
            wanted += await self._all_topics(view)
        for topic in await _with_dead_letters(view, wanted):
            async with aclosing(_browse(view, topic, choice)) as letters:
                async for letter in letters:
                    yield letter

    async def elsewhere(self, view: BrokerView, choice: DeadLetterFilter) -> list[LetterSource]:
        """Return other subscriptions of the same topics that have chosen dead letters. Raises as `look`."""
        known = [place.dead_letter_topic for place in self.subscriptions]
        begins = tuple(
            place.dead_letter_topic.removesuffix(f"{place.subscription}-DLQ") for place in self.subscriptions
        )
        others = [
            topic for topic in await self._all_topics(view) if topic.startswith(begins) and topic not in known
        ]
        found: list[LetterSource] = []
        for topic in await _with_dead_letters(view, others):
            async with aclosing(_browse(view, topic, choice)) as letters:
                if (first := await anext(letters, None)) and first.source.topic in self._topics:
                    found.append(first.source)
        return found

    def option_for(self, source: LetterSource) -> str:
        """Return the options that name one of the subscriptions of `elsewhere`."""
        for flow in self.flows:
            own = f"--{flow.workspace}--{flow.name}--request"
            if flow.input.topic == source.topic and source.subscription.endswith(own):
                return f"--id {source.subscription.removesuffix(own)}"
        return f"--topic {source.topic} --subscription {source.subscription}"

    async def _all_topics(self, view: BrokerView) -> list[str]:
        return sorted(topic for topic in await view.topics(self.namespaces) if topic.endswith("-DLQ"))


async def _with_dead_letters(view: BrokerView, topics: Iterable[str]) -> list[str]:
    """Return the topics that have the subscription `dead`: looking at another one would create it."""
    from trustgraph_prompt.broker.topics import DEAD_LETTER_SUBSCRIPTION

    existing = await view.subscriptions(dict.fromkeys(topics))
    return [topic for topic, there in existing.items() if DEAD_LETTER_SUBSCRIPTION in there]


def _browse(view: BrokerView, topic: str, choice: DeadLetterFilter) -> AsyncGenerator[DeadLetter, None]:
    from trustgraph_prompt.worker.dead_letters.browse_and_replay import browse_topic

    return browse_topic(view.broker, topic, choice)


def note_elsewhere(
    broker: str, admin_url: str | None, scope: Subscriptions, choice: DeadLetterFilter
) -> None:
    """Say which other subscriptions of the same topics have chosen dead letters: --id may be missing."""
    if scope.everywhere:
        return
    try:
        found = inspect_broker.look(broker, admin_url, lambda view: scope.elsewhere(view, choice))
    except (BrokerError, ConfigError):  # without the admin API or while others look, there is no hint
        return
    for source in found:
        output.note(
            f"{source.topic} has such dead letters of the subscription {source.subscription}: "
            f"give {scope.option_for(source)}"
        )


def scope(
    flows: list[Path] | None,
    flow: str | None,
    id: str,
    topic: str | None,
    subscription: str | None,
    *,
    everywhere: bool = False,
) -> Subscriptions:
    """Return the subscriptions that the options name. Raises `ConfigError`."""
    from trustgraph_prompt.broker import topics
    from trustgraph_prompt.worker.dead_letters.record import LetterSource

    if everywhere and (flow is not None or topic is not None):
        raise ConfigError("cannot be combined with --flow or --topic", where="--all")
    if topic is not None and subscription is not None:
        if options.typed("--flows") or flow is not None:
            raise ConfigError("cannot be combined with --flows or --flow", where="--topic")
        try:
            place = LetterSource(topics.resolve(topic), topics.check_subscription(subscription))
        except TopicInvalid as error:
            raise ConfigError(str(error), where="--topic, --subscription") from error
        return Subscriptions([place], f"of {place.topic}")
    if topic is not None or subscription is not None:
        raise ConfigError("--topic and --subscription must be given together")
    chosen, description = inspect_broker.flows_of(flows, flow, processor=id)
    places = list(dict.fromkeys(map(LetterSource.of, chosen)))
    return Subscriptions(places, description, tuple(chosen), bundled=not flows, everywhere=everywhere)
