"""`send`: sends one request to a worker and prints the response."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trustgraph_prompt.cli import inspect_broker, options, output
from trustgraph_prompt.errors import ConfigError

if TYPE_CHECKING:
    from trustgraph_prompt.broker import Broker

EXAMPLE = "Example:  trustgraph-prompt send requests extract-definitions --term text=@notes.txt"


def command(
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="The flow to send the request to.")],
    prompt: Annotated[str, typer.Argument(metavar="ID", help="The prompt to request.")],
    term: options.TermOption = None,
    flows: inspect_broker.FlowsOption = None,
    broker: options.BrokerOption = options.DEFAULT_BROKER,
    as_json: options.JsonOption = False,
) -> None:
    """Send one request to the workers of a flow and print the response.

    Waits ten minutes at most. Text is printed as it is, objects one per line. With --json, the response
    message is printed with all its fields. Exits with 1 if the response is an error.
    """
    from trustgraph_prompt.wire import PromptRequest
    from trustgraph_prompt.wire.records import decode

    [to, *_], _ = inspect_broker.flows_of(flows, flow)
    if to.input.kind != "prompt-request" or to.outputs.response is None:
        raise ConfigError(
            "takes no prompt requests, or sends no responses",
            where=f"flow {to.name}",
            expected="a flow of prompt requests, with outputs.response",
        )
    request = PromptRequest.asking(prompt, options.terms(term))
    topic, responses = to.input.topic, to.outputs.response

    async def exchange(connected: Broker) -> dict[str, Any]:
        caller = await connected.caller(topic, responses)
        async with aclosing(caller.call(request.encode())) as answered:
            return decode((await anext(answered)).data, "PromptResponse")

    with output.waiting(f"waiting for a response on {responses} of {broker}"):
        response = options.on_broker(options.existing(broker), exchange)
    if as_json:
        output.print_json(response)
    else:
        _print(response)
    if response.get("error"):
        raise typer.Exit(1)


def _print(response: Mapping[str, Any]) -> None:
    """Print the answer on standard output, and what was wrong with it on standard error."""
    if response.get("object") is not None:
        value = json.loads(response["object"])
        for each in value if isinstance(value, list) else [value]:
            output.print_object(each)
    elif response.get("text") is not None:
        typer.echo(response["text"])
    if rejected := response.get("rejected"):
        output.note(f"refused: {output.counted(rejected, 'object')}")
    if response.get("truncated"):
        output.note("truncated: the answer may lack objects at its end")
    if error := response.get("error"):
        output.note(f"error: {error['type']}: {error['message']}")
