"""Which subscriptions' dead letters the commands of `dead` look at."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trustgraph_prompt.cli import broker_options, flow_options, options, output, prompt_options
from trustgraph_prompt.cli.options import Options
from trustgraph_prompt.cli.refused_objects import RuleOptions
from trustgraph_prompt.errors import BrokerError, ConfigError, TopicInvalid

if TYPE_CHECKING:
    from trustgraph_prompt.cli.broker_options import Readable
    from trustgraph_prompt.cli.broker_view import BrokerView
    from trustgraph_prompt.worker import Flow
    from trustgraph_prompt.worker.dead_letters.browse_and_replay import DeadLetterFilter
    from trustgraph_prompt.worker.dead_letters.letters import DeadLetter, LetterSource


class ScopeOptions(Options):
    """Flows or a subscription, whose dead letters are meant."""

    flows: flow_options.SeveralFlowsOption = None
    flow: flow_options.FlowOption = None
    id: flow_options.IdOption = "prompt"
    topic: str | None = flow_options.where_option(
        "--topic TOPIC",
        "With --subscription: the request topic of a subscription that no flow file names.",
        None,
    )
    subscription: str | None = flow_options.where_option(
        "--subscription NAME", "With --topic: the name of the subscription.", None
    )
    everywhere = False

    def scope(self) -> Subscriptions:
        """Return the subscriptions that are meant. Raises `ConfigError`."""
        from trustgraph_prompt.broker import topics
        from trustgraph_prompt.worker.dead_letters.letters import LetterSource

        topic, subscription = self.topic, self.subscription
        if self.everywhere and (self.flow is not None or topic is not None):
            raise ConfigError("cannot be combined with --flow or --topic", where="--all")
        if topic is not None and subscription is not None:
            if options.typed("--flows") or self.flow is not None:
                raise ConfigError("cannot be combined with --flows or --flow", where="--topic")
            try:
                place = LetterSource(topics.resolve(topic), topics.check_subscription(subscription))
            except TopicInvalid as error:
                raise ConfigError(str(error), where="--topic, --subscription") from error
            return Subscriptions([place], f"of {place.topic}")
        if topic is not None or subscription is not None:
            raise ConfigError("--topic and --subscription must be given together")
        chosen, description = flow_options.flows_of(self.flows, self.flow, processor=self.id)
        places = list(dict.fromkeys(map(LetterSource.of, chosen)))
        bundled = not self.flows
        return Subscriptions(places, description, tuple(chosen), bundled, self.everywhere)


class WideScopeOptions(ScopeOptions):
    """Flows, a subscription, or all dead letters that there are."""

    everywhere: bool = flow_options.where_option(
        "--all",
        "Also all other dead-letter topics: on Pulsar in the namespaces of the flows, "
        "on an embedded broker all of them.",
        False,
    )


class TermOptions(RuleOptions):
    """A broker that is read, and where the prompts are whose terms are changed."""

    config_topic: str = broker_options.config_topic_option(
        "--config-topic TOPIC",
        "The config topic, on which the terms of the prompts are looked up.",
        broker_options.DEFAULT_CONFIG_TOPIC,
    )


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


def note_elsewhere(at: Readable, scope: Subscriptions, choice: DeadLetterFilter) -> None:
    """Say which other subscriptions of the same topics have chosen dead letters: --id may be missing."""
    if scope.everywhere:
        return
    try:
        found = at.look(lambda view: scope.elsewhere(view, choice))
    except (BrokerError, ConfigError):  # without the admin API or while others look, there is no hint
        return
    for source in found:
        output.note(
            f"{source.topic} has such dead letters of the subscription {source.subscription}: "
            f"give {scope.option_for(source)}"
        )


def check_terms(
    at: TermOptions, scope: Subscriptions, choice: DeadLetterFilter, terms: Iterable[str]
) -> None:
    """Raise `ConfigError` for a term that the prompt of a chosen letter does not have, where it is known.

    A prompt is looked up on the config topic, else in the files. Nothing is known without the admin API.
    """
    from trustgraph_prompt.prompts import PromptSet

    files = prompt_options.prompts(at.templates)
    workspaces = {flow.name: flow.workspace for flow in scope.flows}

    async def named(view: BrokerView) -> dict[tuple[str, str], frozenset[str]]:
        """The terms of the prompts of the chosen letters, by prompt and workspace."""
        found: dict[tuple[str, str], frozenset[str]] = {}
        served: dict[str, PromptSet] = {}
        async with aclosing(scope.look(view, choice)) as letters:
            async for letter in letters:
                if letter.prompt is None or (workspace := workspaces.get(letter.flow or "")) is None:
                    continue
                if workspace not in served:
                    served[workspace] = PromptSet.build(await view.entries(at.config_topic, workspace))
                if known := served[workspace].find(letter.prompt) or files.find(letter.prompt):
                    found[letter.prompt, workspace] = known.named
        return found

    try:
        prompts = at.look(named)
    except (BrokerError, ConfigError):  # such as another service where the admin API is by default
        return
    for (id, _), names in prompts.items():
        for term in terms:
            if term not in names:
                has = ", ".join(sorted(names)) or "no term"
                raise ConfigError(f"{id} has no such term", where="--term", found=term, expected=has)
