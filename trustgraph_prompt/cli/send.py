"""`send`: sends one request to a worker and prints the response, or sends it the chunks of documents."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from trustgraph_prompt.cli import broker_options, flow_options, options, output, progress, prompt_options
from trustgraph_prompt.cli.options import argument
from trustgraph_prompt.errors import ConfigError

if TYPE_CHECKING:
    from trustgraph_prompt.broker import Broker
    from trustgraph_prompt.documents import Converter
    from trustgraph_prompt.wire import Chunk
    from trustgraph_prompt.worker import Flow

EXAMPLE = "send requests extract-definitions --term text=@notes.txt"

SECONDS_OF_SILENCE = 5.0
"""How long nobody may answer until a note says so."""


def command(
    flow: str = argument("FLOW", "The flow to send to."),
    what: list[str] = argument(
        "ID|FILE…",
        "To a flow of prompt requests: the prompt. To a flow of chunks: documents, folders, "
        "patterns, or - for standard input.",
    ),
    term: prompt_options.TermOption = None,
    flows: flow_options.SeveralFlowsOption = None,
    broker: broker_options.BrokerOption = broker_options.DEFAULT_BROKER,
    as_json: options.JsonOption = False,
) -> None:
    """Send one request to the workers of a flow and print the response, or send it the chunks of documents.

    A response is waited for ten minutes at most, with a note after five seconds. Text is printed as it is,
    objects one per line. With --json, the response message is printed with all its fields. Exits with 1 if
    the response is an error.

    Documents are read and split as by `extract`. Chunks get no response: the flow publishes what comes of
    them. The same chunk has the same id each time. With --json, the ids are printed. Exits with 1 if a file
    was skipped.
    """
    [to, *_], _ = flow_options.flows_of(flows, flow)
    if to.input.kind == "chunk":
        if term:
            raise ConfigError(
                "has no effect on chunks: their flow gives the other terms, under `terms`", where="--term"
            )
        _send_chunks(to, what, broker_options.existing(broker), as_json=as_json)
        return
    if to.input.kind != "prompt-request" or to.outputs.response is None:
        expected = "a flow of chunks or of prompt requests"
        raise ConfigError(
            "takes text completions", where=f"flow {to.name}", found=to.input.kind, expected=expected
        )
    if len(what) > 1 or (Path(what[0]).suffix and Path(what[0]).is_file()):
        raise ConfigError(
            f"takes requests: give the id of one prompt, and the text of a file as --term text=@{what[-1]}",
            where=f"flow {to.name}",
        )
    response = _ask(to, what[0], prompt_options.terms(term), broker_options.existing(broker))
    if as_json:
        output.print_json(response)
    else:
        _print(response)
    if response.get("error"):
        raise typer.Exit(1)


def _ask(to: Flow, prompt: str, terms: Mapping[str, object], broker: str) -> dict[str, Any]:
    import asyncio

    from trustgraph_prompt.wire import PromptRequest
    from trustgraph_prompt.wire.records import decode

    request, responses = PromptRequest.asking(prompt, terms), to.outputs.response
    assert responses is not None

    def note_silence() -> None:
        stop_spinner()
        output.note(
            f"no response on {responses} for {SECONDS_OF_SILENCE:g} s, still waiting: does a worker serve "
            f"the flow {to.name} on {broker}? `top http://HOST:PORT` shows workers with --http"
        )

    async def exchange(connected: Broker) -> dict[str, Any]:
        caller = await connected.caller(to.input.topic, responses)
        async with aclosing(caller.call(request.encode())) as answered:
            silence = asyncio.get_running_loop().call_later(SECONDS_OF_SILENCE, note_silence)
            try:
                return decode((await anext(answered)).data, "PromptResponse")
            finally:
                silence.cancel()

    with output.waiting(f"waiting for a response on {responses} of {broker}") as stop_spinner:
        return broker_options.on_broker(broker, exchange)


def _send_chunks(to: Flow, names: Sequence[str], broker: str, *, as_json: bool) -> None:
    """Send the chunks of all documents, each with its hash and position as its id."""
    from trustgraph_prompt.documents import Converter, listed

    files, notes = listed(names)
    for note in notes:
        output.note(note)
    ids: list[str] = []
    skipped: list[Path] = []

    async def publish(connected: Broker) -> None:
        producer = await connected.producer(to.input.topic)
        with Converter() as converter:
            for file in progress.reading(files):
                try:
                    chunks = list(_chunks_of(file, converter))
                except ConfigError as error:
                    skipped.append(file)
                    output.note(f"skipped: {error}")
                    continue
                for chunk in chunks:
                    await producer.send(chunk.encode())
                    ids.append(chunk.metadata.id)
        await producer.close()

    broker_options.on_broker(broker, publish)
    if as_json:
        output.print_json(ids)
    else:
        sent = f"{output.counted(len(ids), 'chunk')} of {output.counted(len(files) - len(skipped), 'file')}"
        typer.echo(f"sent {sent} to {to.input.topic}")
    if ids:
        waits = (
            "they wait until a worker serves them" if to.input.persistent else "only running workers get them"
        )
        output.note(f"{waits}; `dead list` shows those that fail")
    if skipped:
        raise typer.Exit(1)


def _chunks_of(file: Path, converter: Converter) -> Iterator[Chunk]:
    """The messages of a document. Raises `ConfigError` if it is not a usable one."""
    from trustgraph_prompt.extraction.questions import Splitting
    from trustgraph_prompt.graph.provenance import document_iri, passage_iri
    from trustgraph_prompt.wire import Chunk, Metadata

    document, chunks = Splitting().read(file, converter)
    for note in document.notes:
        output.note(f"{file}: {note}")
    for chunk in chunks:
        id = passage_iri(document, chunk.start, chunk.start + len(chunk.text))
        yield Chunk(Metadata(id, document_iri(document)), chunk.text, document_id=id)


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
