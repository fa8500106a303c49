"""`answers`: what came of requests, as the flows that keep a record of it know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from trustgraph_prompt.cli import inspect_broker, options, output
from trustgraph_prompt.cli.lazy_commands import Command, Group
from trustgraph_prompt.cli.source_excerpt import visible
from trustgraph_prompt.errors import Reason

if TYPE_CHECKING:
    from trustgraph_prompt.cli.inspect_broker import BrokerView
    from trustgraph_prompt.worker import Answer

app = typer.Typer(
    cls=Group,
    help="Answer records: what came of requests, where a flow keeps a record of it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.callback()
def _root() -> None:
    """Holds its one command: a group of one would be that command."""


def _reason(name: str | None) -> str | None:
    return inspect_broker.known(name, [reason.value for reason in Reason], "--reason")


@app.command(
    "list", cls=Command, epilog="Example:  trustgraph-prompt answers list --flow chunks --reason empty"
)
def list_(
    reason: Annotated[
        str | None,
        typer.Option(
            "--reason",
            metavar="REASON",
            help="Only those of this reason; success: where the model says that there is nothing.",
            callback=_reason,
        ),
    ] = None,
    prompt: Annotated[
        str | None, typer.Option("--prompt", metavar="ID", help="Only answers to this prompt.")
    ] = None,
    flows: inspect_broker.FlowsOption = None,
    flow: inspect_broker.FlowOption = None,
    broker: options.BrokerOption = options.DEFAULT_BROKER,
    admin_url: inspect_broker.AdminUrlOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Print the answers of flows that gave nothing, oldest first, each with its reason. Makes no topic.

    With --json, each on a line. Says where a flow keeps no answers.
    """
    from trustgraph_prompt.worker.messages.answer import AnswerFilter, search

    chosen, whose = inspect_broker.flows_of(flows, flow)

    async def tell_all(sight: BrokerView) -> int:
        count = 0
        for each in chosen:
            topic = each.outputs.answers
            if topic is None:
                output.note(
                    f"the flow {each.name} keeps no answers: nothing is known of what came of its requests"
                )
            elif not await sight.has(topic):
                output.note(f"the flow {each.name} has no answers yet: there is no topic {topic}")
            else:
                found = await search(sight.broker, topic, AnswerFilter(each.name, reason, prompt))
                count += len(found)
                if found and not as_json:
                    typer.echo(visible(f"{topic}, flow {each.name}"))
                for published, answer in found:
                    _tell(published, answer, as_json=as_json)
        return count

    count = inspect_broker.look(broker, admin_url, tell_all)
    if any(each.outputs.answers for each in chosen):
        what = "answer that gave nothing" if count == 1 else "answers that gave nothing"
        output.note(f"{f'{count:,}' if count else 'no'} {what} {whose}")


def _tell(published: float, answer: Answer, *, as_json: bool) -> None:
    if as_json:
        output.print_object(_facts(published, answer))
        return
    said = (
        f"  {output.time(published)}  {answer.request}",
        answer.source.get("chunk") or "-",
        answer.prompt,
        answer.reason,
        output.counted(len(answer.calls), "call"),
        output.shortened(answer.why or "the model says that there is nothing"),
    )
    typer.echo(visible("  ".join(said)))


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
