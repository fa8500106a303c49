"""`topics`: what workers need on a Pulsar, looked at and prepared."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from trustgraph_prompt.cli import inspect_broker, options, output
from trustgraph_prompt.cli.lazy_commands import Command, Group
from trustgraph_prompt.errors import TrustgraphPromptError

if TYPE_CHECKING:
    from trustgraph_prompt.broker.pulsar.admin import AdminStep, Finding, PulsarAdmin, RequiredTopics

T = TypeVar("T")

ROUNDS = 3
"""How often what others, who are at it at the same time, have undone is done again."""

app = typer.Typer(
    cls=Group,
    help="The namespaces, topics and subscriptions that workers need, prepared on a Pulsar.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

TheirTopicsOption = Annotated[
    bool,
    typer.Option("--trustgraph", help="What TrustGraph itself needs, instead of what flow files say."),
]


@app.command(cls=Command, epilog="Example:  trustgraph-prompt topics check --broker pulsar://localhost:6650")
def check(
    broker: options.BrokerOption = options.DEFAULT_BROKER,
    admin_url: inspect_broker.AdminUrlOption = None,
    flows: options.FlowsOption = None,
    trustgraph: TheirTopicsOption = False,
    space: options.SpaceOption = "tg",
    id: options.IdOption = "prompt",
    topic: options.ConfigTopicOption = options.DEFAULT_CONFIG_TOPIC,
    as_json: options.JsonOption = False,
) -> None:
    """Say of each thing that the flows need whether it is there. Changes nothing.

    Exits with 1 where anything is missing, or is other than a worker needs it, or where the broker itself
    does not answer.
    """
    from trustgraph_prompt.broker.pulsar.admin import compare, look

    wanted = _wanted(flows, id, topic, space if trustgraph else None)

    async def judge(admin: PulsarAdmin) -> list[Finding]:
        return compare(wanted, await look(admin, wanted))

    needs_nothing = _needs_nothing(broker)
    findings = [] if needs_nothing else _on_admin(broker, admin_url, judge)
    if as_json:
        output.print_json([_as_json(finding) for finding in findings])
    else:
        for finding in findings:
            typer.echo(f"{finding.state:8} {_told(finding)}")
    if not needs_nothing:
        options.check_broker(broker)
    if any(finding.state != "ok" for finding in findings):
        raise typer.Exit(1)


@app.command(cls=Command, epilog="Example:  trustgraph-prompt topics create --flows flows/ --dry-run")
def create(
    broker: options.BrokerOption = options.DEFAULT_BROKER,
    admin_url: inspect_broker.AdminUrlOption = None,
    flows: options.FlowsOption = None,
    trustgraph: TheirTopicsOption = False,
    space: options.SpaceOption = "tg",
    id: options.IdOption = "prompt",
    topic: options.ConfigTopicOption = options.DEFAULT_CONFIG_TOPIC,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan only.")] = False,
) -> None:
    """Make what is missing. Prints the plan, then what was done.

    Deletes nothing, shortens nothing, and may be done again, also by several at once.
    """
    wanted = _wanted(flows, id, topic, space if trustgraph else None)
    if _needs_nothing(broker):
        return
    if not _on_admin(broker, admin_url, lambda admin: _create(admin, wanted, dry_run=dry_run)):
        raise typer.Exit(1)


async def _create(admin: PulsarAdmin, wanted: RequiredTopics, *, dry_run: bool) -> bool:
    """Whether all is as it should be, as far as it was to be done."""
    from trustgraph_prompt.broker.pulsar.admin import compare, look, steps

    findings = compare(wanted, await look(admin, wanted))
    for finding in findings:
        if finding.state != "ok" and finding.step is None:
            typer.echo(f"left     {_told(finding)}")
    plan = steps(findings)
    if not plan:
        typer.echo(f"nothing to do at {admin.url}")
        return True
    typer.echo(f"plan: {output.counted(len(plan), 'step')} at {admin.url}")
    for step in plan:
        typer.echo(f"         {step.what}")
    if dry_run:
        return True
    for _ in range(ROUNDS):
        await _carry_out(admin, plan)
        plan = steps(compare(wanted, await look(admin, wanted)))
        if not plan:
            return True
    for step in plan:
        output.note(f"error: somebody undoes it: {step.what}")
    return False


async def _carry_out(admin: PulsarAdmin, plan: list[AdminStep]) -> None:
    from trustgraph_prompt.broker.pulsar.admin import carry_out

    for number, step in enumerate(plan):
        try:
            done = await carry_out(admin, step)
        except TrustgraphPromptError:
            typer.echo(f"failed   {step.what}")
            if rest := len(plan) - number - 1:
                output.note(f"{output.counted(rest, 'step')} after it not done; what was done stays")
            raise
        typer.echo(f"{'done' if done else 'there':8} {step.what}")


def _wanted(flows: Path | None, id: str, topic: str, space: str | None) -> RequiredTopics:
    """What flows need, or TrustGraph in its `space`. Raises `ConfigError`."""
    from trustgraph_prompt import package_data
    from trustgraph_prompt.broker.pulsar.admin import RequiredTopics
    from trustgraph_prompt.worker import flow_file
    from trustgraph_prompt.worker.required_topics import required_topics

    options.check_trustgraph(flows, trustgraph=space is not None)
    if space is not None:
        return RequiredTopics.of_trustgraph(space)
    return required_topics(flow_file.load(flows or package_data.flows(), processor=id), topic)


def _needs_nothing(broker: str) -> bool:
    if not broker.startswith("embedded:"):
        return False
    output.note(f"{broker}: nothing to prepare, an embedded broker makes its topics when they are first used")
    return True


def _on_admin(broker: str, url: str | None, action: Callable[[PulsarAdmin], Awaitable[T]]) -> T:
    """What the action gives on the admin API. Raises `ConfigError`, and `BrokerUnavailable`."""
    import asyncio

    async def act() -> T:
        async with inspect_broker.admin(broker, url) as admin:
            return await action(admin)

    return asyncio.run(act())


def _told(finding: Finding) -> str:
    if finding.found is None:
        return finding.title
    return f"{finding.title} (found: {finding.found}; expected: {finding.expected})"


def _as_json(finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "name": finding.name,
        "of": finding.of,
        "state": finding.state,
        "found": finding.found,
        "expected": finding.expected,
    }
