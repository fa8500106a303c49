"""`config canary`: compares a new version of a prompt with the old, and ends the trial of it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from trustgraph_prompt.cli import broker_options, flow_options, options, output, push_prompts
from trustgraph_prompt.cli.broker_options import ReadWorkspaceOptions, WorkspaceOptions
from trustgraph_prompt.cli.lazy_commands import group
from trustgraph_prompt.cli.options import argument, option
from trustgraph_prompt.cli.push_canary import PREFIX, SYSTEM_KEY
from trustgraph_prompt.errors import ConfigError

if TYPE_CHECKING:
    from trustgraph_prompt.broker import Broker
    from trustgraph_prompt.cli.broker_view import BrokerView
    from trustgraph_prompt.cli.canary_trial import AnswerTopics, Trial
    from trustgraph_prompt.worker.canary.compare import Look
    from trustgraph_prompt.worker.config.versions import Read

app = group(
    "Compare a new version of a prompt, which answers a share of its requests, with the old.",
    "config canary status extract-definitions --broker embedded:broker.db",
)

T = TypeVar("T")

IdArgument = Annotated[str, argument("ID", "The id of the prompt.")]

SECONDS_BETWEEN_LOOKS = 2.0
"""How often `watch` looks for answers."""


@app.subcommand("config canary status extract-definitions")
def status(
    id: str | None = argument("[ID]", "The id of a prompt. Default: all.", None),
    *,
    at: ReadWorkspaceOptions,
    flows: flow_options.SeveralFlowsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Compare the answers of canaries with those of the served versions, since both are as they are now.

    The answers are those on the topics `outputs.answers` of the flows.
    """
    topics = _answer_topics(flows, at.workspace)

    async def compare(view: BrokerView) -> list[Trial]:
        trials = await _trials(view.messages, at)
        chosen = [*trials.values()] if id is None else [_chosen(trials, at.workspace, id)]
        for trial in chosen:
            await trial.read(view, topics)
        return chosen

    with output.waiting("reading answers"):
        trials = at.look(compare)
    if not trials:
        output.note(f"no prompt of workspace {at.workspace} on {at.broker} has a canary")
    if as_json:
        output.print_json([trial.facts() for trial in trials])
    elif trials:
        output.say("\n\n".join("\n".join(trial.table()) for trial in trials))


@app.subcommand(
    "config canary watch extract-definitions --promote-after 500 "
    "--abort-if 'refused > 1.5x' --abort-if 'objects < 0.7x'"
)
def watch(
    id: IdArgument,
    *,
    promote_after: int = option(
        "--promote-after N",
        "Promote the canary after so many of its answers, unless a rule has aborted it.",
        min=1,
    ),
    abort_if: list[str] = option(
        "--abort-if RULE",
        "Abort the canary if a quantity, as a multiple of that of the served version, is beyond a "
        "bound, such as 'refused > 1.5x'. May be given several times.",
    ),
    fewest: int = option(
        "--min N",
        "Decide nothing before each version has given so many answers.",
        50,
        min=20,
        show_default=True,
    ),
    at: ReadWorkspaceOptions,
    flows: flow_options.SeveralFlowsOption = None,
    by: push_prompts.ByOption = None,
) -> None:
    """Promote or abort a canary by rule, and say why.

    It keeps no state: start it again after an interruption. Exits with 0 if the canary is promoted, with 1 if
    it is aborted or another client has ended it.
    """
    import asyncio

    from trustgraph_prompt.worker.canary.compare import AbortRule, look_counts, looks

    rules = [AbortRule.parse(text, "--abort-if") for text in abort_if]
    if promote_after < fewest:
        raise ConfigError(
            "this is less than --min",
            where="--promote-after",
            found=promote_after,
            expected=f"at least {fewest:,}",
        )
    topics = _answer_topics(flows, at.workspace)
    counts = look_counts(fewest, promote_after)

    async def promoted(view: BrokerView) -> bool:
        trial = _chosen(await _trials(view.messages, at), at.workspace, id)
        output.note(f"the rules look after {', '.join(map(str, counts))} answers of the canary")
        printed = 0
        while True:
            await trial.read(view, topics)
            seen = [*looks(trial.answers, trial.canary.id, rules, fewest, promote_after)]
            now = (await _trials(view.messages, at)).get(id)
            move = next_move(trial, now, seen, len(counts))
            if move in (Move.WAIT, Move.ABORT, Move.PROMOTE):
                for look in seen[printed:]:
                    _print_look(look)
                printed = len(seen)
            if now is None or move not in (Move.WAIT, Move.START_OVER):
                return await _carry_out(move, view.broker, at, trial, now, seen, by)
            if move is Move.START_OVER:
                output.note(
                    f"the served version has changed: only answers since {output.time(now.since)} count"
                )
                trial.since, printed = now.since, 0
                continue
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)

    if not at.look(promoted):
        raise typer.Exit(1)


class Move(Enum):
    """What follows from what a trial has shown so far."""

    WAIT = auto()
    START_OVER = auto()  # with the answers since the served version changed
    GIVE_UP = auto()  # another client has ended or replaced the canary
    FINISH = auto()  # a promotion by a process that died before it ended the canary
    ABORT = auto()
    PROMOTE = auto()


def next_move(trial: Trial, now: Trial | None, seen: Sequence[Look], looks_in_all: int) -> Move:
    """Return what follows, where `now` is the trial as the topics have it, and `seen` what the rules saw."""
    if now is None or now.canary.id != trial.canary.id:
        return Move.GIVE_UP
    if now.promoted:
        return Move.FINISH
    if now.since != trial.since:
        return Move.START_OVER
    if seen and seen[-1].fired:
        return Move.ABORT
    return Move.PROMOTE if len(seen) == looks_in_all else Move.WAIT


async def _carry_out(
    move: Move,
    broker: Broker,
    at: WorkspaceOptions,
    trial: Trial,
    now: Trial | None,
    seen: Sequence[Look],
    by: str | None,
) -> bool:
    """Make the last move, and say why; return whether the canary is promoted."""
    if move is Move.GIVE_UP:
        output.note(f"the canary of {trial.id} has been {'replaced' if now else 'ended'} by another client")
        return False
    if move is Move.ABORT:
        answers = output.counted(seen[-1].answers, "answer")
        typer.echo(f"aborted: {seen[-1].fired}, after {answers} of the canary")
        await _end(broker, at, trial.id)
        return False
    if move is Move.PROMOTE:
        answers = output.counted(seen[-1].answers, "answer")
        typer.echo(f"promoted: no rule has fired after {answers} of the canary")
    await _promote(broker, now or trial, at, by)
    return True


def _print_look(look: Look) -> None:
    found = "; ".join(
        f"{rule}: {'too few events to tell' if ratio is None else ratio}"
        for rule, ratio in look.ratios.items()
    )
    percent = f"{100 * look.confidence:.3g} %"
    answers = output.counted(look.answers, "answer")
    typer.echo(f"after {answers} of the canary ({percent} intervals): {found}")
    sys.stdout.flush()


def _answer_topics(flows: list[Path] | None, workspace: str) -> AnswerTopics:
    """Return the flows of a workspace by the topic on which they keep answers. Raises `ConfigError`."""
    chosen, description = flow_options.flows_of(flows, None)
    topics: dict[str, set[str]] = {}
    for flow in chosen:
        if flow.workspace == workspace and flow.outputs.answers is not None:
            topics.setdefault(flow.outputs.answers, set()).add(flow.name)
    if not topics:
        raise ConfigError(
            f"no flow {description} serves workspace {workspace} and keeps its answers (`outputs.answers`)",
            where="--flows",
        )
    return topics


async def _trials(read: Read, at: WorkspaceOptions) -> dict[str, Trial]:
    """Return the trials of a workspace by prompt, without their answers; note records that are not valid."""
    from trustgraph_prompt.cli.canary_trial import Trial
    from trustgraph_prompt.worker.canary.record import CANARY, Canary

    records = await read(at.topic + CANARY, at.workspace)
    served = await read(at.topic, at.workspace)
    trials: dict[str, Trial] = {}
    for key, record in sorted(records.items()):
        try:
            canary = Canary.decode(record.data)
        except ConfigError as error:
            output.note(f"warning: ignored {error.at(record.key or '')}")
            continue
        changed = [record, *(served[each] for each in (key, SYSTEM_KEY) if each in served)]
        since = max(message.published for message in changed)
        promoted = key in served and served[key].data == canary.entry.encode()
        id = key.removeprefix(PREFIX)
        trials[id] = Trial(at.workspace, id, canary, record.published, since, promoted)
    return trials


@app.subcommand("config canary promote extract-definitions")
def promote(id: IdArgument, *, at: WorkspaceOptions, by: push_prompts.ByOption = None) -> None:
    """Publish the version of a canary for all requests, and end the canary.

    If it is interrupted, run it again: until then both sides may have the new version.
    """
    from trustgraph_prompt.worker.config import config_topic

    async def promote(connected: Broker) -> None:
        trials = await _trials(
            lambda topic, workspace: config_topic.messages(connected, workspace, topic=topic), at
        )
        await _promote(connected, _chosen(trials, at.workspace, id), at, by)

    broker_options.on_broker(broker_options.existing(at.broker), promote)


@app.subcommand("config canary abort extract-definitions")
def abort(id: IdArgument, *, at: WorkspaceOptions) -> None:
    """End a canary; the old version answers all requests again."""
    from trustgraph_prompt.worker.canary.record import CANARY
    from trustgraph_prompt.worker.config import config_topic

    async def abort(connected: Broker) -> None:
        there = await config_topic.entries(connected, at.workspace, topic=at.topic + CANARY)
        _chosen({key.removeprefix(PREFIX): canary for key, canary in there.items()}, at.workspace, id)
        await _end(connected, at, id)

    broker_options.on_broker(broker_options.existing(at.broker), abort)


async def _promote(broker: Broker, trial: Trial, at: WorkspaceOptions, by: str | None) -> None:
    """Publish the entry of a canary, unless that was done, then end the canary."""
    from trustgraph_prompt.worker.config import history

    if not trial.promoted:
        entries = {PREFIX + trial.id: trial.canary.entry}
        author = push_prompts.author(by, trial.canary.why or "promoted a canary")
        await history.push(broker, at.workspace, entries, author, topic=at.topic)
    typer.echo(f"promoted {trial.id} in workspace {at.workspace}")
    await _end(broker, at, trial.id)


async def _end(broker: Broker, at: WorkspaceOptions, id: str) -> None:
    from trustgraph_prompt.worker.canary.record import CANARY
    from trustgraph_prompt.worker.config import config_topic

    await config_topic.push(broker, at.workspace, {PREFIX + id: ""}, topic=at.topic + CANARY)
    typer.echo(f"ended the canary of {id} in workspace {at.workspace}")


def _chosen(trials: Mapping[str, T], workspace: str, id: str) -> T:
    """Return the one of a prompt. Raises `ConfigError` if it has none."""
    if id not in trials:
        raise ConfigError(
            f"no prompt of workspace {workspace} with this id has a canary",
            where="ID",
            found=id,
            expected="a prompt that `config canary status` lists",
        )
    return trials[id]
