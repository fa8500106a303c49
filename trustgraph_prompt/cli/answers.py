"""`answers`: lists answers without objects, and shows one answer, from the answer records of flows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import typer

from trustgraph_prompt.cli import flow_options, options, output, prompt_options
from trustgraph_prompt.cli.broker_options import BrokerOptions, RuleOptions
from trustgraph_prompt.cli.lazy_commands import group
from trustgraph_prompt.cli.options import argument, option
from trustgraph_prompt.cli.source_excerpt import visible
from trustgraph_prompt.errors import Reason, TrustgraphPromptError

if TYPE_CHECKING:
    from trustgraph_prompt.cli.broker_view import BrokerView
    from trustgraph_prompt.worker import Answer, Flow

app = group(
    "List answers without objects, each with the reason, and show what an answer got refused.",
    "answers list --flow chunks",
)


def _reason(name: str | None) -> str | None:
    return flow_options.known(name, [reason.value for reason in Reason], "--reason")


@app.subcommand("answers list --flow chunks --reason empty", "list")
def list_(
    *,
    reason: str | None = option(
        "--reason REASON",
        "Only this reason; `success`: the model says that there are no objects.",
        None,
        callback=_reason,
    ),
    prompt: prompt_options.PromptFilterOption = None,
    flows: flow_options.SeveralFlowsOption = None,
    flow: flow_options.FlowOption = None,
    at: BrokerOptions,
    as_json: options.JsonOption = False,
) -> None:
    """List answers without objects, oldest first, each with the reason.

    Only flows that set `outputs.answers` keep records of their answers. Creates no topic. With --json, prints
    one object per line.
    """
    from trustgraph_prompt.worker.messages.answer_record import AnswerFilter, search

    chosen, description = flow_options.flows_of(flows, flow)
    recorded = {flow.name: topic for flow in chosen if (topic := flow.outputs.answers)}
    if others := ", ".join(flow.name for flow in chosen if flow.name not in recorded):
        output.note(f"without answer records, as `outputs.answers` is not set: {others}")

    async def print_all(view: BrokerView) -> tuple[int, int]:
        """Print the chosen answers; return how many there are, and if there are none, how many others."""
        count = unmatched = 0
        for name, topic in recorded.items():
            if not await view.has(topic):
                output.note(f"flow {name}: no answers yet, the topic {topic} does not exist on {at.broker}")
                continue
            found = await search(view.broker, topic, AnswerFilter(name, reason, prompt))
            count += len(found)
            if found and not as_json:
                typer.echo(visible(f"{topic}, flow {name}"))
            for published, answer in found:
                _print(published, answer, as_json=as_json)
            if (reason or prompt) and not count:
                unmatched += len(await search(view.broker, topic, AnswerFilter(name)))
        return count, unmatched

    count, unmatched = at.look(print_all)
    _note_deletions(chosen)
    if recorded:
        there, none = (count, "") if count or not unmatched else (unmatched, "; none of them matches")
        answers = output.counted(there, "answer") if there else "no answers"
        output.note(f"{answers} without objects {description} on {at.broker}{none}")


@app.subcommand("answers show 3f2a9c81 --flow chunks")
def show(
    request: str = argument("REQUEST", "The id of a request, as `list` prints it."),
    *,
    flows: flow_options.SeveralFlowsOption = None,
    flow: flow_options.FlowOption = None,
    at: RuleOptions,
    as_json: options.JsonOption = False,
) -> None:
    """Print the answer to one request: its reason, its calls, and each refused object.

    Each refused object is shown with the line of the schema that it breaks: a line of the prompt file, if the
    files have the version of the prompt that was asked, else the part of the schema, from the history of the
    config topic. Exits with 1 if there is no such answer.
    """
    from trustgraph_prompt.cli import refused_objects

    chosen, description = flow_options.flows_of(flows, flow)

    async def print_it(view: BrokerView) -> bool:
        for flow in chosen:
            found = await refused_objects.answer_of(view, flow, request)
            if found is None:
                continue
            published, answer = found
            rule_of = await refused_objects.rules_of(answer, view, flow.workspace, at)
            facts = _facts(published, answer) | {"objects": len(answer.objects), "stage": answer.stage}
            if as_json:
                output.print_json(facts | {"rejected": refused_objects.as_json(answer, rule_of)})
            else:
                for line in output.readable({name: fact for name, fact in facts.items() if fact is not None}):
                    typer.echo(visible(line))
                for line in refused_objects.lines(answer, rule_of):
                    typer.echo(line)
            return True
        return False

    with output.waiting("looking for the answer"):
        found = at.look(print_it)
    if not found:
        _note_deletions(chosen)
        raise TrustgraphPromptError(
            f"there is no answer to the request {request} {description} on {at.broker}"
        )


def _note_deletions(flows: Iterable[Flow]) -> None:
    from trustgraph_prompt.cli import refused_objects

    for flow in flows:
        if deletion := refused_objects.when_deleted(flow):
            output.note(deletion)


def _print(published: float, answer: Answer, *, as_json: bool) -> None:
    if as_json:
        output.print_object(_facts(published, answer))
        return
    columns = (
        f"  {output.time(published)}  {answer.request}",
        answer.source.get("chunk") or "-",
        answer.prompt,
        answer.reason,
        output.counted(len(answer.calls), "call"),
        output.shortened(output.without_advice(answer.why) or "the model says that there is nothing"),
    )
    typer.echo(visible("  ".join(columns)))


def _facts(published: float, answer: Answer) -> dict[str, Any]:
    return {
        "request": answer.request,
        "published": output.time(published),
        "flow": answer.flow,
        "prompt": answer.prompt,
        "version": answer.version,
        "reason": answer.reason,
        "why": answer.why,
        "truncated": answer.truncated,
        "escalated": answer.escalated,
        "rejected": answer.rejected_count,
        "calls": [call["why"] for call in answer.calls],
        "tokens": answer.usage.get("total_tokens"),
        "cost": answer.cost,
        "source": dict(answer.source),
    }
