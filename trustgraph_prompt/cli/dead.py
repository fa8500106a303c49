"""`dead`: lists, shows, replays and discards dead letters."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from time import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trustgraph_prompt.cli import (
    broker_options,
    dead_scope,
    flow_options,
    options,
    output,
    prompt_options,
    refused_objects,
)
from trustgraph_prompt.cli.broker_options import BrokerOptions
from trustgraph_prompt.cli.dead_scope import ScopeOptions, TermOptions, WideScopeOptions
from trustgraph_prompt.cli.lazy_commands import group
from trustgraph_prompt.cli.options import argument, option
from trustgraph_prompt.cli.refused_objects import RuleOptions
from trustgraph_prompt.cli.source_excerpt import visible
from trustgraph_prompt.errors import ConfigError, TrustgraphPromptError

if TYPE_CHECKING:
    from trustgraph_prompt.broker import Broker
    from trustgraph_prompt.cli.broker_options import Readable
    from trustgraph_prompt.cli.broker_view import BrokerView
    from trustgraph_prompt.cli.dead_scope import Subscriptions
    from trustgraph_prompt.cli.refused_objects import RuleOf
    from trustgraph_prompt.worker import Answer, Flow
    from trustgraph_prompt.worker.dead_letters.browse_and_replay import DeadLetterFilter
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

    scope = where.scope()
    choice = DeadLetterFilter(error=error, prompt=prompt)
    count = _print_each(at, scope, choice, show_one)
    if count:
        output.note(f"{_counted(count)} {scope.described(at.broker)}")
    else:
        _note_none(at, scope, choice)


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
    from trustgraph_prompt.worker.dead_letters.browse_and_replay import DeadLetterFilter

    async def show_one(found: DeadLetter, view: BrokerView) -> None:
        answered = await _answered(found, scope.flows, view, at)
        if as_json:
            refused = answered and refused_objects.as_json(*answered)
            output.print_json({**_whole(found), "rejected": refused})
            return
        _print_whole(found)
        for line in refused_objects.lines(*answered) if answered else ():
            typer.echo(line)

    scope = where.scope()
    choice = DeadLetterFilter(frozenset([letter]))
    if not _print_each(at, scope, choice, show_one):
        raise _missing(letter, at, scope, choice)


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
    from trustgraph_prompt.worker.dead_letters.browse_and_replay import DeadLetterFilter, replay

    if letters and all_:
        raise ConfigError("give either ids or --all, not both")
    if not letters and not all_:
        raise ConfigError("no dead letters are selected: give their ids, or --all")
    choice, terms = DeadLetterFilter(frozenset(letters or ()), error, prompt), prompt_options.terms(term)
    scope = where.scope()
    if terms:
        dead_scope.check_terms(at, scope, choice, terms)
    missing, replayed, kept, looked = set(choice.ids), 0, 0, False
    without_record = 0

    async def put_back(connected: Broker) -> None:
        nonlocal replayed, kept, looked, without_record
        looked = True
        async with aclosing(replay(connected, scope.subscriptions, choice, terms)) as done:
            async for letter, why in done:
                missing.difference_update((letter.id, letter.request))
                if why is None:
                    replayed += 1
                    without_record += _has_no_record(letter, scope.flows)
                else:
                    kept += 1
                    output.note(f"{letter.id} cannot be replayed: {why}")

    try:
        with output.waiting("putting dead letters back"):
            broker_options.on_broker(broker_options.existing(at.broker), put_back)
    finally:
        if looked:
            typer.echo(f"replayed {_counted(replayed)}")
        if replayed:
            output.note("they wait until a worker serves them; `dead list` shows those that fail again")
        if without_record:
            output.note(f"the flow has deleted the records of earlier answers to {without_record:,} of them")
    if missing:
        sought = DeadLetterFilter(frozenset(missing), error, prompt)
        raise _missing(", ".join(sorted(missing)), at, scope, sought)
    if not replayed and not kept:
        _note_none(at, scope, choice)
    if kept and not all_:
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
    from trustgraph_prompt.worker.dead_letters.browse_and_replay import DeadLetterFilter, discard

    found: list[DeadLetter] = []

    async def show_one(each: DeadLetter, _: BrokerView) -> None:
        found.append(each)
        typer.echo(_line(each))

    scope = where.scope()
    choice = DeadLetterFilter(frozenset([letter]))
    if not _print_each(at, scope, choice, show_one):
        raise _missing(letter, at, scope, choice)
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
    typer.echo(f"discarded {_counted(count)}")


def _missing(ids: str, at: Readable, scope: Subscriptions, choice: DeadLetterFilter) -> typer.Exit:
    """Say that there are no dead letters of these ids, and perhaps where there are; return what to raise."""
    output.note(f"error: there is no dead letter {ids} {scope.described_in_full(at.broker)}")
    dead_scope.note_elsewhere(at, scope, choice)
    return typer.Exit(1)


def _note_none(at: Readable, scope: Subscriptions, choice: DeadLetterFilter) -> None:
    """Say that no dead letter is chosen: how many others there are, or where there are chosen ones."""
    from trustgraph_prompt.worker.dead_letters.browse_and_replay import DeadLetterFilter

    async def skip(letter: DeadLetter, view: BrokerView) -> None:
        """Only count it."""

    everything = DeadLetterFilter()
    there = 0 if choice == everything else _print_each(at, scope, everything, skip)
    none = "; none of them matches" if there else ""
    output.note(f"{_counted(there)} {scope.described_in_full(at.broker)}{none}")
    dead_scope.note_elsewhere(at, scope, choice)


def _print_each(
    at: Readable,
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

    return at.look(print_all)


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


async def _answered(
    letter: DeadLetter,
    flows: Iterable[Flow],
    view: BrokerView,
    at: RuleOptions,
) -> tuple[Answer, RuleOf | None] | None:
    """The record of the unusable answer that a letter died of, and the rules of the prompt that was asked."""
    from trustgraph_prompt.worker.dead_letters.letters import ANSWERED

    flow = next((flow for flow in flows if flow.name == letter.flow), None)
    if flow is None or letter.request is None or letter.error not in ANSWERED:
        return None
    if (found := await refused_objects.answer_of(view, flow, letter.request)) is None:
        if _has_no_record(letter, [flow]):
            output.note(f"its answer record is gone: {refused_objects.when_deleted(flow)}")
        return None
    _, answer = found
    return answer, await refused_objects.rules_of(answer, view, flow.workspace, at)


def _has_no_record(letter: DeadLetter, flows: Iterable[Flow]) -> bool:
    """Whether the flow may have deleted the record of the unusable answer that a letter died of."""
    from trustgraph_prompt.worker.dead_letters.letters import ANSWERED

    keep = next((flow.keep_answers for flow in flows if flow.name == letter.flow), None)
    is_old = keep is not None and letter.died is not None and letter.died < time() - keep
    return is_old and letter.error in ANSWERED


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
