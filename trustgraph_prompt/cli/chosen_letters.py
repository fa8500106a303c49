"""Looks for dead letters where the options of `dead` say, and says where else there are some."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable
from contextlib import aclosing
from dataclasses import dataclass, replace

import typer

from trustgraph_prompt.broker import topics
from trustgraph_prompt.broker.topics import DEAD_LETTER_SUBSCRIPTION
from trustgraph_prompt.cli import flow_options, options, output, prompt_options
from trustgraph_prompt.cli.broker_options import Readable
from trustgraph_prompt.cli.broker_view import BrokerView
from trustgraph_prompt.cli.dead_options import ScopeOptions, TermOptions
from trustgraph_prompt.errors import BrokerError, ConfigError, TopicInvalid
from trustgraph_prompt.prompts import PromptSet
from trustgraph_prompt.worker import Flow
from trustgraph_prompt.worker.dead_letters.browse_and_replay import DeadLetterFilter, browse_topic
from trustgraph_prompt.worker.dead_letters.letters import DeadLetter, LetterSource


@dataclass(frozen=True, slots=True)
class ChosenLetters:
    """The dead letters of some subscriptions, which `description` names, that a filter chooses.

    `flows` are those of the subscriptions if files name them; `bundled` says that these are the bundled ones.
    """

    at: Readable
    choice: DeadLetterFilter
    subscriptions: list[LetterSource]
    description: str
    flows: tuple[Flow, ...] = ()
    bundled: bool = False
    everywhere: bool = False

    @classmethod
    def of(
        cls,
        where: ScopeOptions,
        at: Readable,
        ids: Iterable[str] = (),
        error: str | None = None,
        prompt: str | None = None,
    ) -> ChosenLetters:
        """Return those that the options name. Raises `ConfigError`."""
        choice = DeadLetterFilter(frozenset(ids), error, prompt)
        topic, subscription = where.topic, where.subscription
        if where.everywhere and (where.flow is not None or topic is not None):
            raise ConfigError("cannot be combined with --flow or --topic", where="--all")
        if topic is not None and subscription is not None:
            if options.typed("--flows") or where.flow is not None:
                raise ConfigError("cannot be combined with --flows or --flow", where="--topic")
            try:
                place = LetterSource(topics.resolve(topic), topics.check_subscription(subscription))
            except TopicInvalid as invalid:
                raise ConfigError(str(invalid), where="--topic, --subscription") from invalid
            return cls(at, choice, [place], f"of {place.topic}")
        if topic is not None or subscription is not None:
            raise ConfigError("--topic and --subscription must be given together")
        chosen, description = flow_options.flows_of(where.flows, where.flow, processor=where.id)
        places = list(dict.fromkeys(map(LetterSource.of, chosen)))
        return cls(at, choice, places, description, tuple(chosen), not where.flows, where.everywhere)

    @property
    def _topics(self) -> set[str]:
        return {place.topic for place in self.subscriptions}

    @property
    def _namespaces(self) -> list[str]:
        return sorted(set(map(topics.namespace_of, self._topics)))

    @property
    def described(self) -> str:
        """Where they were looked for."""
        broker = self.at.broker
        if not self.everywhere:
            others = "; use --flows for others" if self.bundled else ""
            return f"{self.description} on {broker}{others}"
        within = "" if broker.startswith("embedded:") else f" of {', '.join(self._namespaces)}"
        return f"{self.description}, and of all other dead-letter topics{within} on {broker}"

    @property
    def _described_in_full(self) -> str:
        """Where they were looked for, with the subscriptions: a wrong --id shows in their names."""
        names = sorted({place.subscription for place in self.subscriptions})
        return f"{self.described} (subscription{'s' if len(names) > 1 else ''} {', '.join(names)})"

    def each(self, show_one: Callable[[DeadLetter, BrokerView], Awaitable[None]]) -> int:
        """Show all of them; return how many there are. Raises `BrokerError`, `ConfigError`."""

        async def show_all(view: BrokerView) -> int:
            count = 0
            async with aclosing(self.look(view)) as letters:
                async for letter in letters:
                    count += 1
                    await show_one(letter, view)
            return count

        return self.at.look(show_all)

    async def look(self, view: BrokerView) -> AsyncGenerator[DeadLetter, None]:
        """Yield them. Raises `BrokerError`, `ConfigError`.

        Skips topics without the subscription `dead`, which exists as soon as there is a dead letter.
        """
        wanted = [place.dead_letter_topic for place in self.subscriptions]
        if self.everywhere:
            wanted += await self._all_topics(view)
        for topic in await _with_dead_letters(view, wanted):
            async with aclosing(browse_topic(view.broker, topic, self.choice)) as letters:
                async for letter in letters:
                    yield letter

    def note_none(self) -> None:
        """Say that there are none: how many others there are, or where there are such ones."""

        async def skip(letter: DeadLetter, view: BrokerView) -> None:
            """Only count it."""

        everything = DeadLetterFilter()
        there = 0 if self.choice == everything else replace(self, choice=everything).each(skip)
        none = "; none of them matches" if there else ""
        output.note(f"{counted(there)} {self._described_in_full}{none}")
        self._note_elsewhere()

    def missing(self, ids: Collection[str]) -> typer.Exit:
        """Say that there are none of these ids, and perhaps where there are; return what to raise."""
        output.note(f"error: there is no dead letter {', '.join(sorted(ids))} {self._described_in_full}")
        replace(self, choice=replace(self.choice, ids=frozenset(ids)))._note_elsewhere()
        return typer.Exit(1)

    def _note_elsewhere(self) -> None:
        """Say which other subscriptions of the same topics have such dead letters: --id may be missing."""
        if self.everywhere:
            return
        try:
            found = self.at.look(self._elsewhere)
        except (BrokerError, ConfigError):  # without the admin API or while others look, there is no hint
            return
        for source in found:
            output.note(
                f"{source.topic} has such dead letters of the subscription {source.subscription}: "
                f"give {self._option_for(source)}"
            )

    async def _elsewhere(self, view: BrokerView) -> list[LetterSource]:
        known = [place.dead_letter_topic for place in self.subscriptions]
        begins = tuple(
            place.dead_letter_topic.removesuffix(f"{place.subscription}-DLQ") for place in self.subscriptions
        )
        others = [
            topic for topic in await self._all_topics(view) if topic.startswith(begins) and topic not in known
        ]
        found: list[LetterSource] = []
        for topic in await _with_dead_letters(view, others):
            async with aclosing(browse_topic(view.broker, topic, self.choice)) as letters:
                if (first := await anext(letters, None)) and first.source.topic in self._topics:
                    found.append(first.source)
        return found

    def _option_for(self, source: LetterSource) -> str:
        for flow in self.flows:
            own = f"--{flow.workspace}--{flow.name}--request"
            if flow.input.topic == source.topic and source.subscription.endswith(own):
                return f"--id {source.subscription.removesuffix(own)}"
        return f"--topic {source.topic} --subscription {source.subscription}"

    async def _all_topics(self, view: BrokerView) -> list[str]:
        return sorted(topic for topic in await view.topics(self._namespaces) if topic.endswith("-DLQ"))


async def _with_dead_letters(view: BrokerView, names: Iterable[str]) -> list[str]:
    """Return the topics that have the subscription `dead`: looking at another one would create it."""
    existing = await view.subscriptions(dict.fromkeys(names))
    return [topic for topic, there in existing.items() if DEAD_LETTER_SUBSCRIPTION in there]


def counted(count: int) -> str:
    """Return a number with its noun."""
    return output.counted(count, "dead letter") if count else "no dead letters"


def check_terms(chosen: ChosenLetters, at: TermOptions, terms: Iterable[str]) -> None:
    """Raise `ConfigError` for a term that the prompt of a chosen letter does not have, where it is known.

    A prompt is looked up on the config topic, else in the files. Nothing is known without the admin API.
    """
    files = prompt_options.prompts(at.templates)
    workspaces = {flow.name: flow.workspace for flow in chosen.flows}

    async def named(view: BrokerView) -> dict[tuple[str, str], frozenset[str]]:
        """The terms of the prompts of the chosen letters, by prompt and workspace."""
        found: dict[tuple[str, str], frozenset[str]] = {}
        served: dict[str, PromptSet] = {}
        async with aclosing(chosen.look(view)) as letters:
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
