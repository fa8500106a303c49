"""`dead`: lists, shows and replays dead letters."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trustgraph_prompt.cli import inspect_broker, options, output, refused_objects
from trustgraph_prompt.cli.lazy_commands import Command, group
from trustgraph_prompt.cli.source_excerpt import visible
from trustgraph_prompt.errors import ConfigError, TopicInvalid

if TYPE_CHECKING:
    from trustgraph_prompt.broker import Broker
    from trustgraph_prompt.cli.inspect_broker import BrokerView
    from trustgraph_prompt.cli.refused_objects import RuleOf
    from trustgraph_prompt.worker import Answer, Flow
    from trustgraph_prompt.worker.dead_letters.browse_and_replay import DeadLetterFilter
    from trustgraph_prompt.worker.dead_letters.record import DeadLetter, LetterSource

app = group(
    "List, show and replay dead letters: requests that could not be served.", "dead list --flows flows/"
)

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
    def namespaces(self) -> list[str]:
        from trustgraph_prompt.broker.topics import namespace_of

        return sorted({namespace_of(place.topic) for place in self.subscriptions})

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

        Skips topics without the subscription `dead`: it exists as soon as there is a dead letter, and looking
        would create it.
        """
        from trustgraph_prompt.broker.topics import DEAD_LETTER_SUBSCRIPTION
        from trustgraph_prompt.worker.dead_letters.browse_and_replay import browse_topic

        wanted = [place.dead_letter_topic for place in self.subscriptions]
        if self.everywhere:
            names = await view.topics(self.namespaces)
            wanted += sorted(name for name in names if name.endswith("-DLQ"))
        existing = await view.subscriptions(dict.fromkeys(wanted))
        for topic, subscriptions in existing.items():
            if DEAD_LETTER_SUBSCRIPTION in subscriptions:
                async with aclosing(browse_topic(view.broker, topic, choice)) as letters:
                    async for letter in letters:
                        yield letter


def _error(type: str | None) -> str | None:
    from trustgraph_prompt.worker.dead_letters.record import ERRORS

    return inspect_broker.known(type, ERRORS, "--error")


ErrorOption = Annotated[
    str | None, typer.Option("--error", metavar="TYPE", help="Only this error type.", callback=_error)
]


@app.command("list", cls=Command, epilog="Example:  trustgraph-prompt dead list --flows flows/ --json")
def list_(
    error: ErrorOption = None,
    prompt: options.PromptFilterOption = None,
    flows: inspect_broker.FlowsOption = None,
    flow: inspect_broker.FlowOption = None,
    id: options.IdOption = "prompt",
    topic: TopicOption = None,
    subscription: SubscriptionOption = None,
    everywhere: EverywhereOption = False,
    broker: options.BrokerOption = options.DEFAULT_BROKER,
    admin_url: inspect_broker.AdminUrlOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """List the dead letters of flows, oldest first, without removing them.

    Creates no topic. With --json, prints one object per line, with the full reason.
    """
    from trustgraph_prompt.worker.dead_letters.browse_and_replay import DeadLetterFilter

    place: LetterSource | None = None

    async def show_one(letter: DeadLetter, _: BrokerView) -> None:
        nonlocal place
        if as_json:
            output.print_object(_facts(letter))
            return
        if place != letter.source:
            place = letter.source
            typer.echo(visible(f"{place.topic}, subscription {place.subscription}"))
        typer.echo(_line(letter))

    scope = _scope(flows, flow, id, topic, subscription, everywhere=everywhere)
    choice = DeadLetterFilter(error=error, prompt=prompt)
    count = _print_each(broker, admin_url, scope, choice, show_one)
    output.note(f"{_counted(count)} {scope.described(broker) if count else scope.described_in_full(broker)}")


@app.command(cls=Command, epilog="Example:  trustgraph-prompt dead show 1042 --broker embedded:broker.db")
def show(
    letter: Annotated[
        str,
        typer.Argument(metavar="ID", help="The id of a dead letter, as `list` prints it, or of its request."),
    ],
    flows: inspect_broker.FlowsOption = None,
    flow: inspect_broker.FlowOption = None,
    id: options.IdOption = "prompt",
    topic: TopicOption = None,
    subscription: SubscriptionOption = None,
    everywhere: EverywhereOption = False,
    broker: options.BrokerOption = options.DEFAULT_BROKER,
    config_topic: refused_objects.ConfigTopicOption = options.DEFAULT_CONFIG_TOPIC,
    templates: options.TemplatesOption = None,
    admin_url: inspect_broker.AdminUrlOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Print one dead letter in full: why it died, what helps, its message, and the refused objects.

    The objects of an unusable answer are shown as by `answers show`, if the flow has `outputs.answers`. Exits
    with 1 if the dead letter does not exist.
    """
    from trustgraph_prompt.worker.dead_letters.browse_and_replay import DeadLetterFilter

    async def show_one(found: DeadLetter, view: BrokerView) -> None:
        answered = await _answered(found, scope.flows, view, config_topic, templates)
        if as_json:
            refused = answered and refused_objects.as_json(*answered)
            output.print_json({**_whole(found), "rejected": refused})
            return
        _print_whole(found)
        for line in refused_objects.lines(*answered) if answered else ():
            typer.echo(line)

    scope = _scope(flows, flow, id, topic, subscription, everywhere=everywhere)
    choice = DeadLetterFilter(frozenset([letter]))
    if not _print_each(broker, admin_url, scope, choice, show_one):
        output.note(f"error: there is no dead letter {letter} {scope.described_in_full(broker)}")
        raise typer.Exit(1)


@app.command(
    "replay",
    cls=Command,
    epilog="Example:  trustgraph-prompt dead replay --all --error unknown-prompt --flows flows/",
)
def replay_(
    letters: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ID…]", help="Ids of dead letters, as `list` prints them, or of their requests."
        ),
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="All dead letters that `list` prints with the same options.")
    ] = False,
    error: ErrorOption = None,
    prompt: options.PromptFilterOption = None,
    flows: inspect_broker.FlowsOption = None,
    flow: inspect_broker.FlowOption = None,
    id: options.IdOption = "prompt",
    topic: TopicOption = None,
    subscription: SubscriptionOption = None,
    broker: options.BrokerOption = options.DEFAULT_BROKER,
) -> None:
    """Put dead letters back, so that the subscription they died in gets them again as new requests.

    Requests of a persistent topic wait until a worker runs. A non-persistent topic stores nothing: its dead
    letters are replayed only while the worker runs, to all subscriptions, and those beyond its buffer are
    lost. Exits with 1 if no worker runs there, or if a named dead letter does not exist or is not complete.
    """
    from trustgraph_prompt.worker.dead_letters.browse_and_replay import DeadLetterFilter, replay

    if letters and all_:
        raise ConfigError("give either ids or --all, not both")
    if not letters and not all_:
        raise ConfigError("no dead letters are selected: give their ids, or --all")
    choice = DeadLetterFilter(frozenset(letters or ()), error, prompt)
    scope = _scope(flows, flow, id, topic, subscription)
    missing, replayed, kept, looked = set(choice.ids), 0, 0, False

    async def put_back(connected: Broker) -> None:
        nonlocal replayed, kept, looked
        looked = True
        async with aclosing(replay(connected, scope.subscriptions, choice)) as done:
            async for letter, why in done:
                missing.difference_update((letter.id, letter.request))
                if why is None:
                    replayed += 1
                else:
                    kept += 1
                    output.note(f"{letter.id} cannot be replayed: {why}")

    try:
        with output.waiting("putting dead letters back"):
            options.on_broker(options.existing(broker), put_back)
    finally:
        if looked:
            typer.echo(f"replayed {_counted(replayed)}")
        if replayed:
            output.note("they wait until a worker serves them; `dead list` shows those that fail again")
    if missing:
        output.note(
            f"error: there is no dead letter {', '.join(sorted(missing))} {scope.described_in_full(broker)}"
        )
    elif not replayed and not kept:
        output.note(f"searched the dead letters {scope.described_in_full(broker)}")
    if missing or (kept and not all_):
        raise typer.Exit(1)


def _scope(
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


def _print_each(
    broker: str,
    admin_url: str | None,
    scope: Subscriptions,
    choice: DeadLetterFilter,
    show_one: Callable[[DeadLetter, BrokerView], Awaitable[None]],
) -> int:
    """Show the chosen letters; return how many there are."""

    async def print_all(view: BrokerView) -> int:
        count = 0
        async with aclosing(scope.look(view, choice)) as letters:
            async for letter in letters:
                count += 1
                await show_one(letter, view)
        return count

    return inspect_broker.look(broker, admin_url, print_all)


def _facts(letter: DeadLetter) -> dict[str, Any]:
    """The fields of a letter in a list, for programs."""
    return {
        "id": letter.id,
        "request": letter.request,
        "topic": letter.source.topic,
        "subscription": letter.source.subscription,
        "published": output.time(letter.message.published),
        "died": None if letter.died is None else output.time(letter.died),
        "flow": letter.flow,
        "prompt": letter.prompt,
        "error": letter.error,
        "reason": letter.reason,
        "deliveries": letter.message.deliveries,
        "bytes": letter.size,
        "cut": letter.truncated,
    }


def _whole(letter: DeadLetter) -> dict[str, Any]:
    """All fields of a letter, for programs; `content` is None if it is not text."""
    properties = dict(letter.message.properties)
    return {
        **_facts(letter),
        "advice": letter.advice,
        "key": letter.message.key,
        "properties": properties,
        "content": letter.content(),
    }


def _line(letter: DeadLetter) -> str:
    size = f"{letter.size:,} B{' (cut)' if letter.truncated else ''}"
    columns = (
        f"  {output.time(letter.message.published)}  {letter.id}",
        letter.error or "-",
        letter.prompt or "-",
        output.counted(letter.message.deliveries, "delivery", "deliveries"),
        size,
        output.shortened(letter.reason),
    )
    return visible("  ".join(columns))


async def _answered(
    letter: DeadLetter,
    flows: Iterable[Flow],
    view: BrokerView,
    config_topic: str,
    templates: Path | None,
) -> tuple[Answer, RuleOf | None] | None:
    """The record of the unusable answer that a letter died of, and the rules of the prompt that was asked."""
    flow = next((flow for flow in flows if flow.name == letter.flow), None)
    if flow is None or letter.request is None or letter.error != "llm-error":
        return None
    if (found := await refused_objects.answer_of(view, flow, letter.request)) is None:
        return None
    _, answer = found
    return answer, await refused_objects.rules_of(answer, view, flow.workspace, config_topic, templates)


def _print_whole(letter: DeadLetter) -> None:
    """Print why a letter died and what helps, then where it comes from, then its message."""
    facts = _whole(letter)
    content = facts.pop("content")
    why = {name: facts.pop(name) for name in ("error", "reason", "advice")}
    if not letter.truncated and "replay" in (letter.advice or ""):
        why["then"] = f"dead replay {letter.id}, with the same options"
    for name, value in (why | facts).items():
        if value not in (None, {}, False):
            text = value if isinstance(value, str) else output.json_text(value)
            first, *more = text.splitlines() or [""]
            typer.echo(visible(f"{name:13}{first}"))
            for line in more:
                typer.echo(visible(f"{'':13}{line}"))
    typer.echo()
    for line in output.readable("(not text)" if content is None else content):
        typer.echo(visible(line))


def _counted(count: int) -> str:
    return output.counted(count, "dead letter") if count else "no dead letters"
