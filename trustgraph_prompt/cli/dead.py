"""`dead`: lists, shows, replays and discards dead letters."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trustgraph_prompt.cli import broker_options, flow_options, options, output, prompt_options
from trustgraph_prompt.cli.broker_options import BrokerOptions, RuleOptions
from trustgraph_prompt.cli.dead_options import ScopeOptions, TermOptions, WideScopeOptions
from trustgraph_prompt.cli.lazy_commands import group
from trustgraph_prompt.cli.options import argument, option
from trustgraph_prompt.cli.source_excerpt import visible
from trustgraph_prompt.errors import ConfigError, TrustgraphPromptError

if TYPE_CHECKING:
    from trustgraph_prompt.broker import Broker
    from trustgraph_prompt.cli.broker_view import BrokerView
    from trustgraph_prompt.worker.dead_letters.letters import DeadLetter, LetterSource

app = group(
    "List, show, replay and discard dead letters: requests that could not be served.",
    "dead list --flows flows/",
)


def _error(type: str | None) -> str | None:
    from trustgraph_prompt.worker.dead_letters.letters import ERRORS

    return flow_options.known(type, ERRORS, "--error")


ErrorOption = Annotated[str | None, option("--error TYPE", "Only this error type.", callback=_error)]


@app.subcommand("dead list --flows flows/ --json", "list")
def list_(
    *,
    error: ErrorOption = None,
    prompt: prompt_options.PromptFilterOption = None,
    where: WideScopeOptions,
    at: BrokerOptions,
    as_json: options.JsonOption = False,
) -> None:
    """List the dead letters of flows, oldest first, without removing them.

    Creates no topic. With --json, prints one object per line, with the full reason.
    """
    from trustgraph_prompt.cli.chosen_letters import ChosenLetters, counted

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

    letters = ChosenLetters.of(where, at, error=error, prompt=prompt)
    if count := letters.each(show_one):
        output.note(f"{counted(count)} {letters.described}")
    else:
        letters.note_none()


@app.subcommand("dead show 1042 --broker embedded:broker.db")
def show(
    letter: str = argument("ID", "The id of a dead letter, as `list` prints it, or of its request."),
    *,
    where: WideScopeOptions,
    at: RuleOptions,
    as_json: options.JsonOption = False,
) -> None:
    """Print one dead letter in full: why it died, what helps, its message, and the refused objects.

    The objects of an unusable answer are shown as by `answers show`, if the flow has `outputs.answers`. Exits
    with 1 if the dead letter does not exist.
    """
    from trustgraph_prompt.cli import refused_objects
    from trustgraph_prompt.cli.chosen_letters import ChosenLetters

    async def show_one(found: DeadLetter, view: BrokerView) -> None:
        answered = await refused_objects.answered(found, letters.flows, view, at)
        if as_json:
            refused = answered and refused_objects.as_json(*answered)
            output.print_json({**_whole(found), "rejected": refused})
            return
        _print_whole(found)
        for line in refused_objects.lines(*answered) if answered else ():
            typer.echo(line)

    letters = ChosenLetters.of(where, at, [letter])
    if not letters.each(show_one):
        raise letters.missing([letter])


@app.subcommand("dead replay --all --error unknown-prompt --flows flows/", "replay")
def replay_(
    letters: list[str] | None = argument(
        "[ID…]", "Ids of dead letters, as `list` prints them, or of their requests.", None
    ),
    *,
    all_: bool = option("--all", "All dead letters that `list` prints with the same options.", False),
    error: ErrorOption = None,
    prompt: prompt_options.PromptFilterOption = None,
    term: prompt_options.TermOption = None,
    where: ScopeOptions,
    at: TermOptions,
) -> None:
    """Put dead letters back, so that the subscription they died in gets them again as new requests.

    Requests of a persistent topic wait until a worker runs. A non-persistent topic stores nothing: its dead
    letters are replayed only while the worker runs, to all subscriptions, and those beyond its buffer are
    lost. --term replaces or adds a term of mistyped prompt requests, and has to be one that their
    prompts have, if these are known: from the config topic, or else from --templates.

    Exits with 1 if no worker runs there, or if a named dead letter does not exist or cannot be replayed.
    """
    from trustgraph_prompt.cli.chosen_letters import ChosenLetters, check_terms, counted
    from trustgraph_prompt.cli.refused_objects import has_no_record
    from trustgraph_prompt.worker.dead_letters.browse_and_replay import replay

    if letters and all_:
        raise ConfigError("give either ids or --all, not both")
    if not letters and not all_:
        raise ConfigError("no dead letters are selected: give their ids, or --all")
    terms = prompt_options.terms(term)
    chosen = ChosenLetters.of(where, at, letters or (), error, prompt)
    if terms:
        check_terms(chosen, at, terms)
    missing, counts = set(letters or ()), Counter[str]()

    async def put_back(connected: Broker) -> None:
        counts["replayed"] = 0  # from here on the outcome is known, also if an error ends it
        async with aclosing(replay(connected, chosen.subscriptions, chosen.choice, terms)) as done:
            async for letter, why in done:
                missing.difference_update((letter.id, letter.request))
                if why is None:
                    counts["replayed"] += 1
                    counts["without record"] += has_no_record(letter, chosen.flows)
                else:
                    counts["kept"] += 1
                    output.note(f"{letter.id} cannot be replayed: {why}")

    try:
        with output.waiting("putting dead letters back"):
            broker_options.on_broker(broker_options.existing(at.broker), put_back)
    finally:
        if "replayed" in counts:
            typer.echo(f"replayed {counted(counts['replayed'])}")
        if counts["replayed"]:
            output.note("they wait until a worker serves them; `dead list` shows those that fail again")
        if gone := counts["without record"]:
            output.note(f"the flow has deleted the records of earlier answers to {gone:,} of them")
    if missing:
        raise chosen.missing(missing)
    if not counts["replayed"] and not counts["kept"]:
        chosen.note_none()
    if counts["kept"] and not all_:
        raise typer.Exit(1)


@app.subcommand("dead discard 1042 --flows flows/", "discard")
def discard_(
    letter: str = argument("ID", "The id of a dead letter, as `list` prints it, or of its request."),
    *,
    yes: bool = option("--yes", "Do not ask for the id again.", False),
    where: WideScopeOptions,
    at: BrokerOptions,
) -> None:
    """Remove one dead letter for good, after you have typed its id again.

    It is for requests that shall never be served. Exits with 1 if the dead letter does not exist, if several
    have this id, or if another id is typed.
    """
    from trustgraph_prompt.cli.chosen_letters import ChosenLetters, counted
    from trustgraph_prompt.worker.dead_letters.browse_and_replay import DeadLetterFilter, discard

    found: list[DeadLetter] = []

    async def show_one(each: DeadLetter, _: BrokerView) -> None:
        found.append(each)
        typer.echo(_line(each))

    letters = ChosenLetters.of(where, at, [letter])
    if not letters.each(show_one):
        raise letters.missing([letter])
    if len(found) > 1:
        places = ", ".join(f"{each.source.topic} (subscription {each.source.subscription})" for each in found)
        raise TrustgraphPromptError(
            f"{letter} is the id of several dead letters, in {places}; nothing was discarded: choose one "
            "with --flow, or with --topic and --subscription"
        )
    if not yes:
        typer.echo("It cannot be replayed any more. Type its id to discard it: ", nl=False, err=True)
    if not yes and sys.stdin.readline().strip() != letter:
        raise TrustgraphPromptError("that is not its id; nothing was discarded")
    sources = dict.fromkeys(each.source for each in found)
    chosen = DeadLetterFilter(frozenset(each.id for each in found))
    count = broker_options.on_broker(at.broker, lambda connected: discard(connected, sources, chosen))
    typer.echo(f"discarded {counted(count)}")


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
    size = f"{letter.size:,} B{' (truncated)' if letter.truncated else ''}"
    columns = (
        f"  {output.time(letter.message.published)}  {letter.id}",
        letter.error or "-",
        letter.prompt or "-",
        output.counted(letter.message.deliveries, "delivery", "deliveries"),
        size,
        output.shortened(letter.reason),
    )
    return visible("  ".join(columns))


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
