"""`dead`: what could not be served, and why; and served again after a mend."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trustgraph_prompt.cli import inspect_broker, options, output
from trustgraph_prompt.cli.lazy_commands import Command, Group
from trustgraph_prompt.cli.source_excerpt import visible
from trustgraph_prompt.errors import ConfigError, TopicInvalid

if TYPE_CHECKING:
    from trustgraph_prompt.broker import Broker
    from trustgraph_prompt.cli.inspect_broker import BrokerView
    from trustgraph_prompt.worker.dead_letters.record import DeadLetter, LetterSource
    from trustgraph_prompt.worker.dead_letters.replay import DeadLetterFilter

app = typer.Typer(
    cls=Group,
    help="Dead letters: requests that could not be served, each with its reason.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

IdOption = Annotated[
    str,
    typer.Option(
        "--id",
        metavar="NAME",
        help="The id of the worker, as `run` has it.",
        rich_help_panel=inspect_broker.WHERE,
    ),
]
TopicOption = Annotated[
    str | None,
    typer.Option(
        "--topic",
        metavar="TOPIC",
        help="The request topic of a subscription that no flow file names.",
        rich_help_panel=inspect_broker.WHERE,
    ),
]
SubscriptionOption = Annotated[
    str | None,
    typer.Option(
        "--subscription", metavar="NAME", help="That subscription.", rich_help_panel=inspect_broker.WHERE
    ),
]
EverywhereOption = Annotated[
    bool,
    typer.Option(
        "--all",
        help="Also every other dead-letter topic: in the namespaces of the flows, of an embedded broker all.",
        rich_help_panel=inspect_broker.WHERE,
    ),
]


@dataclass(frozen=True, slots=True)
class Where:
    """The subscriptions that the options name, and in words whose they are."""

    places: list[LetterSource]
    whose: str
    bundled: bool = False
    everywhere: bool = False

    @property
    def namespaces(self) -> list[str]:
        from trustgraph_prompt.broker.topics import namespace_of

        return sorted({namespace_of(place.topic) for place in self.places})

    def told(self, broker: str) -> str:
        """Where was looked on the broker of that URL."""
        if not self.everywhere:
            return self.whose + ("; --flows names others" if self.bundled else "")
        within = broker if broker.startswith("embedded:") else ", ".join(self.namespaces)
        return f"{self.whose}, and of all other dead-letter topics of {within}"

    def in_vain(self, broker: str) -> str:
        """Where nothing was found: by the names of the subscriptions too, of which one may be wrong."""
        names = sorted({place.subscription for place in self.places})
        return f"{self.told(broker)} (subscription{'s' if len(names) > 1 else ''} {', '.join(names)})"

    async def look(self, sight: BrokerView, choice: DeadLetterFilter) -> AsyncGenerator[DeadLetter, None]:
        """The chosen letters. Raises `BrokerError`, `ConfigError`.

        Nobody has buried anything where there is no subscription `dead` that keeps it.
        """
        from trustgraph_prompt.broker.topics import DEAD_LETTER_SUBSCRIPTION
        from trustgraph_prompt.worker.dead_letters.replay import browse_topic

        wanted = [place.dead_letter_topic for place in self.places]
        if self.everywhere:
            names = await sight.topics(self.namespaces)
            wanted += sorted(name for name in names if name.endswith("-DLQ"))
        there = await sight.subscriptions(dict.fromkeys(wanted))
        for topic, subscriptions in there.items():
            if DEAD_LETTER_SUBSCRIPTION in subscriptions:
                async with aclosing(browse_topic(sight.broker, topic, choice)) as letters:
                    async for letter in letters:
                        yield letter


def _error(type: str | None) -> str | None:
    from trustgraph_prompt.worker.dead_letters.record import ERRORS

    return inspect_broker.known(type, ERRORS, "--error")


ErrorOption = Annotated[
    str | None,
    typer.Option("--error", metavar="TYPE", help="Only those that died of this error.", callback=_error),
]
PromptOption = Annotated[
    str | None, typer.Option("--prompt", metavar="ID", help="Only those that ask for this prompt.")
]


@app.command("list", cls=Command, epilog="Example:  trustgraph-prompt dead list --flows flows/ --json")
def list_(
    error: ErrorOption = None,
    prompt: PromptOption = None,
    flows: inspect_broker.FlowsOption = None,
    flow: inspect_broker.FlowOption = None,
    id: IdOption = "prompt",
    topic: TopicOption = None,
    subscription: SubscriptionOption = None,
    everywhere: EverywhereOption = False,
    broker: options.BrokerOption = options.DEFAULT_BROKER,
    admin_url: inspect_broker.AdminUrlOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Print the dead letters of flows, oldest first; they stay. Says where it looked, and makes no topic.

    With --json, each on a line, with its whole reason.
    """
    from trustgraph_prompt.worker.dead_letters.replay import DeadLetterFilter

    place: LetterSource | None = None

    def tell(letter: DeadLetter) -> None:
        nonlocal place
        if as_json:
            output.print_object(_facts(letter))
            return
        if place != letter.source:
            place = letter.source
            typer.echo(visible(f"{place.topic}, subscription {place.subscription}"))
        typer.echo(_line(letter))

    where = _where(flows, flow, id, topic, subscription, everywhere=everywhere)
    choice = DeadLetterFilter(error=error, prompt=prompt)
    count = _tell_each(broker, admin_url, where, choice, tell)
    output.note(f"{_counted(count)} {where.told(broker) if count else where.in_vain(broker)}")


@app.command(cls=Command, epilog="Example:  trustgraph-prompt dead show 1042 --broker embedded:broker.db")
def show(
    letter: Annotated[
        str, typer.Argument(metavar="ID", help="The id of a letter, as `list` prints it, or of its request.")
    ],
    flows: inspect_broker.FlowsOption = None,
    flow: inspect_broker.FlowOption = None,
    id: IdOption = "prompt",
    topic: TopicOption = None,
    subscription: SubscriptionOption = None,
    everywhere: EverywhereOption = False,
    broker: options.BrokerOption = options.DEFAULT_BROKER,
    admin_url: inspect_broker.AdminUrlOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Print a dead letter whole: why it died, its properties, its payload, the terms in it decoded.

    Exits with 1 where there is none.
    """
    from trustgraph_prompt.worker.dead_letters.replay import DeadLetterFilter

    def tell(found: DeadLetter) -> None:
        if as_json:
            output.print_json(_whole(found))
        else:
            _print_whole(found)

    where = _where(flows, flow, id, topic, subscription, everywhere=everywhere)
    choice = DeadLetterFilter(frozenset([letter]))
    if not _tell_each(broker, admin_url, where, choice, tell):
        output.note(f"error: there is no dead letter {letter} {where.in_vain(broker)}")
        raise typer.Exit(1)


@app.command(
    "replay",
    cls=Command,
    epilog="Example:  trustgraph-prompt dead replay --all --error unknown-prompt --flows flows/",
)
def replay_(
    letters: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID…]", help="Ids of letters, as `list` prints them, or of their requests."),
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="All that `list` prints with the same options.")
    ] = False,
    error: ErrorOption = None,
    prompt: PromptOption = None,
    flows: inspect_broker.FlowsOption = None,
    flow: inspect_broker.FlowOption = None,
    id: IdOption = "prompt",
    topic: TopicOption = None,
    subscription: SubscriptionOption = None,
    broker: options.BrokerOption = options.DEFAULT_BROKER,
) -> None:
    """Put dead letters back, to be served again by the flow they died in, as if they came for the first time.

    Letters of a non-persistent topic go to whoever is subscribed to it now: without a running worker they
    stay, and those of other flows are replayed; more at a time than it has room for are lost. Exits with 1
    where nobody is there, or a letter that is named is not, or was too large to be kept whole.
    """
    from trustgraph_prompt.worker.dead_letters.replay import DeadLetterFilter, replay

    if letters and all_:
        raise ConfigError("ids and --all: say one of them")
    if not letters and not all_:
        raise ConfigError("which letters? name them, or say --all")
    choice = DeadLetterFilter(frozenset(letters or ()), error, prompt)
    where = _where(flows, flow, id, topic, subscription)
    unmet, replayed, staying = set(choice.ids), 0, 0

    async def put_back(connected: Broker) -> None:
        nonlocal replayed, staying
        async with aclosing(replay(connected, where.places, choice)) as done:
            async for letter, why in done:
                unmet.difference_update((letter.id, letter.request))
                if why is None:
                    replayed += 1
                else:
                    staying += 1
                    output.note(f"{letter.id} cannot be replayed: {why}")

    try:
        with output.waiting("putting dead letters back"):
            options.on_broker(options.existing(broker), put_back)
    finally:
        typer.echo(f"replayed {_counted(replayed)}")
        if replayed:
            output.note("`dead list` shows what died again")
    if unmet:
        output.note(f"error: there is no dead letter {', '.join(sorted(unmet))} {where.in_vain(broker)}")
    elif not replayed and not staying:
        output.note(f"looked at those {where.in_vain(broker)}")
    if unmet or (staying and not all_):
        raise typer.Exit(1)


def _where(
    flows: list[Path] | None,
    flow: str | None,
    id: str,
    topic: str | None,
    subscription: str | None,
    *,
    everywhere: bool = False,
) -> Where:
    """The subscriptions that the options name. Raises `ConfigError`."""
    from trustgraph_prompt.broker import topics
    from trustgraph_prompt.worker.dead_letters.record import LetterSource

    if everywhere and (flow is not None or topic is not None):
        raise ConfigError("looks everywhere: leave out --flow and --topic", where="--all")
    if topic is not None and subscription is not None:
        if flows or flow is not None:
            raise ConfigError("names a place, as flows do: say one of them", where="--topic")
        try:
            place = LetterSource(topics.resolve(topic), topics.check_subscription(subscription))
        except TopicInvalid as error:
            raise ConfigError(str(error), where="--topic, --subscription") from error
        return Where([place], f"of {place.topic}")
    if topic is not None or subscription is not None:
        raise ConfigError("--topic and --subscription belong together")
    chosen, whose = inspect_broker.flows_of(flows, flow, processor=id)
    places = list(dict.fromkeys(map(LetterSource.of, chosen)))
    return Where(places, whose, bundled=not flows, everywhere=everywhere)


def _tell_each(
    broker: str,
    admin_url: str | None,
    where: Where,
    choice: DeadLetterFilter,
    tell: Callable[[DeadLetter], None],
) -> int:
    """Tell of the chosen letters, and how many they are."""

    async def tell_all(sight: BrokerView) -> int:
        count = 0
        async with aclosing(where.look(sight, choice)) as letters:
            async for letter in letters:
                count += 1
                tell(letter)
        return count

    return inspect_broker.look(broker, admin_url, tell_all)


def _facts(letter: DeadLetter) -> dict[str, Any]:
    """What a list says of a letter, for programs."""
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
    """All there is, for programs; `content` is None where it is no text."""
    properties = dict(letter.message.properties)
    return {
        **_facts(letter),
        "key": letter.message.key,
        "properties": properties,
        "content": letter.content(),
    }


def _line(letter: DeadLetter) -> str:
    size = f"{letter.size:,} B{' (cut)' if letter.truncated else ''}"
    said = (
        f"  {output.time(letter.message.published)}  {letter.id}",
        letter.error or "-",
        letter.prompt or "-",
        output.counted(letter.message.deliveries, "delivery", "deliveries"),
        size,
        output.shortened(letter.reason),
    )
    return visible("  ".join(said))


def _print_whole(letter: DeadLetter) -> None:
    for name, value in _whole(letter).items():
        if name == "content":
            break
        if value not in (None, {}, False):
            typer.echo(visible(f"{name:13}{_plain(value)}"))
    content = letter.content()
    text = content if isinstance(content, str) else output.json_text(content, pretty=True)
    typer.echo()
    for line in text.splitlines() if content is not None else ["(no text)"]:
        typer.echo(visible(line))


def _plain(value: object) -> str:
    return value if isinstance(value, str) else output.json_text(value)


def _counted(count: int) -> str:
    return output.counted(count, "dead letter") if count else "no dead letters"
