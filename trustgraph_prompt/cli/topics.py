"""`topics`: checks and creates what workers need on Pulsar."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import typer

from trustgraph_prompt.cli import broker_options, broker_view, flow_options, options, output
from trustgraph_prompt.cli.broker_options import BrokerOptions
from trustgraph_prompt.cli.lazy_commands import group
from trustgraph_prompt.cli.options import OptionGroup, option
from trustgraph_prompt.errors import TrustgraphPromptError

if TYPE_CHECKING:
    from trustgraph_prompt.broker.pulsar.admin.client import PulsarAdmin
    from trustgraph_prompt.broker.pulsar.admin.plan import AdminStep, Finding, RequiredTopics

T = TypeVar("T")

ROUNDS = 3
"""How often steps are repeated that other processes undo at the same time."""

app = group(
    "Check and create the namespaces, topics and subscriptions that workers need on Pulsar.",
    "topics create --flows flows/ --dry-run",
)


class NeededOptions(OptionGroup):
    """Who needs topics: flows, or TrustGraph."""

    flows: flow_options.FlowsOption = None
    trustgraph: bool = option(
        "--trustgraph", "The topics of TrustGraph itself instead of those of flow files.", False
    )
    space: flow_options.SpaceOption = "tg"
    id: flow_options.IdOption = "prompt"
    topic: broker_options.ConfigTopicOption = broker_options.DEFAULT_CONFIG_TOPIC

    def topics(self) -> RequiredTopics:
        """What the flows need, or TrustGraph in its topic space. Raises `ConfigError`."""
        from trustgraph_prompt import package_data
        from trustgraph_prompt.broker.pulsar.admin.plan import RequiredTopics
        from trustgraph_prompt.worker import flow_file
        from trustgraph_prompt.worker.required_topics import required_topics

        flow_options.check_trustgraph(self.flows, trustgraph=self.trustgraph)
        if self.trustgraph:
            return RequiredTopics.of_trustgraph(self.space)
        served = flow_file.load(self.flows or package_data.flows(), processor=self.id)
        return required_topics(served, self.topic)


@app.subcommand("topics check --broker pulsar://localhost:6650")
def check(
    *,
    at: BrokerOptions,
    needed: NeededOptions,
    as_json: options.JsonOption = False,
) -> None:
    """Check whether everything that the flows need exists. Changes nothing.

    Exits with 1 if something is missing or differs from what a worker needs, or if the broker does not
    respond.
    """
    from trustgraph_prompt.broker.pulsar.admin.plan import compare
    from trustgraph_prompt.broker.pulsar.admin.prepare import look

    required = needed.topics()

    async def judge(admin: PulsarAdmin) -> list[Finding]:
        return compare(required, await look(admin, required))

    needs_nothing = _needs_nothing(at.broker)
    findings = [] if needs_nothing else _on_admin(at, judge)
    if as_json:
        fields = ("kind", "name", "of", "state", "found", "expected")
        output.print_json([{name: getattr(finding, name) for name in fields} for finding in findings])
    else:
        for finding in findings:
            typer.echo(f"{finding.state:8} {_text(finding)}")
    if not needs_nothing:
        broker_options.check_broker(at.broker)
    if any(finding.state != "ok" for finding in findings):
        raise typer.Exit(1)


@app.subcommand("topics create --flows flows/ --dry-run")
def create(
    *,
    at: BrokerOptions,
    needed: NeededOptions,
    dry_run: bool = option("--dry-run", "Print the plan and change nothing.", False),
) -> None:
    """Create what is missing: print the plan, then each completed step.

    Deletes nothing and shortens no retention. It can be repeated, and several processes can run it at once.
    """
    required = needed.topics()
    if _needs_nothing(at.broker):
        return
    if not _on_admin(at, lambda admin: _create(admin, required, dry_run=dry_run)):
        raise typer.Exit(1)


async def _create(admin: PulsarAdmin, required: RequiredTopics, *, dry_run: bool) -> bool:
    """Create what is missing; return whether everything exists, or would after a dry run."""
    from trustgraph_prompt.broker.pulsar.admin.plan import compare, steps
    from trustgraph_prompt.broker.pulsar.admin.prepare import look

    findings = compare(required, await look(admin, required))
    for finding in findings:
        if finding.state != "ok" and finding.step is None:
            typer.echo(f"left     {_text(finding)}")
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
        plan = steps(compare(required, await look(admin, required)))
        if not plan:
            return True
    for step in plan:
        output.note(f"error: another process keeps undoing this step: {step.what}")
    return False


async def _carry_out(admin: PulsarAdmin, plan: list[AdminStep]) -> None:
    from trustgraph_prompt.broker.pulsar.admin.prepare import carry_out

    for number, step in enumerate(plan):
        try:
            done = await carry_out(admin, step)
        except TrustgraphPromptError:
            typer.echo(f"failed   {step.what}")
            if rest := len(plan) - number - 1:
                output.note(f"{output.counted(rest, 'step')} after it were not run; completed steps remain")
            raise
        typer.echo(f"{'done' if done else 'there':8} {step.what}")


def _needs_nothing(broker: str) -> bool:
    if not broker.startswith("embedded:"):
        return False
    output.note(f"{broker}: nothing to prepare: an embedded broker creates topics when they are first used")
    return True


def _on_admin(at: BrokerOptions, action: Callable[[PulsarAdmin], Awaitable[T]]) -> T:
    """Run the action on the admin API and return its result. Raises `ConfigError`, `BrokerUnavailable`."""
    import asyncio

    async def act() -> T:
        async with broker_view.admin(at.broker, at.admin_url) as admin:
            return await action(admin)

    return asyncio.run(act())


def _text(finding: Finding) -> str:
    if finding.found is None:
        return finding.title
    return f"{finding.title} (found: {finding.found}; expected: {finding.expected})"
