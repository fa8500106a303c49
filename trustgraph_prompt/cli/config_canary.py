"""`config canary`: compares a new version of a prompt with the old, and ends the trial of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trustgraph_prompt.cli import broker_options, flow_options, options, output
from trustgraph_prompt.cli.broker_options import ByOption, ReadWorkspaceOptions, WorkspaceOptions
from trustgraph_prompt.cli.lazy_commands import group
from trustgraph_prompt.cli.options import argument, option
from trustgraph_prompt.errors import ConfigError

if TYPE_CHECKING:
    from trustgraph_prompt.cli.broker_view import BrokerView
    from trustgraph_prompt.cli.canary_trial import AnswerTopics, Trial

app = group(
    "Compare a new version of a prompt, which answers a share of its requests, with the old.",
    "config canary status extract-definitions --broker embedded:broker.db",
)

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
    from trustgraph_prompt.cli.canary_trial import chosen, trials_of

    topics = _answer_topics(flows, at.workspace)

    async def compare(view: BrokerView) -> list[Trial]:
        trials = await trials_of(view.messages, at)
        wanted = [*trials.values()] if id is None else [chosen(trials, at.workspace, id)]
        for trial in wanted:
            await trial.read(view, topics)
        return wanted

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
    by: ByOption = None,
) -> None:
    """Promote or abort a canary by rule, and say why.

    It keeps no state: start it again after an interruption. Exits with 0 if the canary is promoted, with 1 if
    it is aborted or another client has ended it.
    """
    import asyncio

    from trustgraph_prompt.cli.canary_trial import Move, carry_out, chosen, next_move, print_look, trials_of
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
        trial = chosen(await trials_of(view.messages, at), at.workspace, id)
        output.note(f"the rules look after {', '.join(map(str, counts))} answers of the canary")
        printed = 0
        while True:
            await trial.read(view, topics)
            seen = [*looks(trial.answers, trial.canary.id, rules, fewest, promote_after)]
            now = (await trials_of(view.messages, at)).get(id)
            move = next_move(trial, now, seen, len(counts))
            if now is not None and move is Move.START_OVER:
                output.note(
                    f"the served version has changed: only answers since {output.time(now.since)} count"
                )
                trial.since, printed = now.since, 0
                continue
            if move not in (Move.GIVE_UP, Move.FINISH):
                for look in seen[printed:]:
                    print_look(look)
                printed = len(seen)
            if move is not Move.WAIT:
                return await carry_out(move, view.broker, at, trial, now, seen, by)
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)

    if not at.look(promoted):
        raise typer.Exit(1)


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


@app.subcommand("config canary promote extract-definitions")
def promote(id: IdArgument, *, at: WorkspaceOptions, by: ByOption = None) -> None:
    """Publish the version of a canary for all requests, and end the canary.

    If it is interrupted, run it again: until then both sides may have the new version.
    """
    from trustgraph_prompt.cli import canary_trial

    broker_options.on_broker(
        broker_options.existing(at.broker), lambda connected: canary_trial.promote(connected, at, id, by)
    )


@app.subcommand("config canary abort extract-definitions")
def abort(id: IdArgument, *, at: WorkspaceOptions) -> None:
    """End a canary; the old version answers all requests again."""
    from trustgraph_prompt.cli import canary_trial

    broker_options.on_broker(
        broker_options.existing(at.broker), lambda connected: canary_trial.abort(connected, at, id)
    )
