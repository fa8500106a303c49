"""`send` as a person types it, to a worker on a broker in a file."""

from __future__ import annotations

import asyncio
import hashlib
import json
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.support.command import run, started
from tests.support.worker_processes import Site
from tests.support.workers import DEFINITION, entry
from trustgraph_prompt.broker import connect
from trustgraph_prompt.wire import Chunk, Metadata

FLOWS = """
name: f
input: {topic: "persistent://tg/flow/in"}
outputs: {response: "persistent://tg/flow/out"}
"""
CHUNKS = """
name: c
input: {topic: "persistent://tg/flow/chunks", kind: chunk}
outputs: {answers: "persistent://tg/flow/answers"}
prompt: say
"""
COMPLETIONS = """
name: completions
input: {topic: "persistent://tg/flow/completions", kind: text-completion}
outputs: {response: "persistent://tg/flow/completed"}
"""
CHALK = {"entity": "chalk", "definition": "a rock"}


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """A worker that serves two prompts."""
    async with AsyncExitStack() as stack:
        site = Site(tmp_path, stack)
        define = entry("Define {{ text }}", **{"response-type": "jsonl", "object-schema": DEFINITION})
        site.serves(FLOWS, {"template.define": define, "template.say": entry("Say {{ text }}")})
        site.answers(
            {"prompt": "define", "answer": json.dumps(CHALK) + '\n{"entity": 5}\n'},
            {"prompt": "say", "answer": "said"},
        )
        (tmp_path / "chunks.yaml").write_text(CHUNKS)
        (tmp_path / "completions.yaml").write_text(COMPLETIONS)
        await site.run()
        yield site


async def send(site: Site, *arguments: object) -> CompletedProcess[str]:
    names = ("flow.yaml", "chunks.yaml", "completions.yaml")
    flows = [word for name in names for word in ("--flows", site.folder / name)]
    return await asyncio.to_thread(run, "send", *arguments, *flows, "--broker", site.url)


async def test_the_response_of_a_worker_is_printed(site: Site) -> None:
    (site.folder / "notes.txt").write_text("On chalk")
    text = await send(site, "f", "say", "-t", f"text=@{site.folder / 'notes.txt'}")
    assert (text.returncode, text.stdout, text.stderr) == (0, "said\n", "")

    objects = await send(site, "f", "define", "-t", "text=chalk")
    assert objects.returncode == 0
    assert list(map(json.loads, objects.stdout.splitlines())) == [CHALK]
    assert objects.stderr == "refused: 1 object\n"

    message = json.loads((await send(site, "f", "define", "-t", "text=chalk", "--json")).stdout)
    assert json.loads(message["object"]) == [CHALK]
    assert (message["rejected"], message["error"]) == (1, None)

    unknown = await send(site, "f", "nothing")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert unknown.stderr.startswith("error: unknown-prompt: ")


async def test_a_request_that_no_worker_answers_is_waited_for_with_a_note(site: Site) -> None:
    idle = site.folder / "idle.yaml"
    idle.write_text(FLOWS.replace("/in", "/idle"))

    def noted() -> str:
        with started("send", "f", "say", "--flows", idle, "--broker", site.url) as process:
            assert process.stderr is not None
            note = process.stderr.readline()
            assert process.poll() is None
            process.send_signal(signal.SIGINT)
            out, more = process.communicate(timeout=60)
            assert (out, more) == ("", "")
            return note

    note = await asyncio.to_thread(noted)
    assert note.startswith("no response on persistent://tg/flow/out for 5 s, still waiting: does a worker ")
    assert f"serve the flow f on {site.url}?" in note


async def test_a_flow_of_text_completions_is_refused(site: Site) -> None:
    refused = await send(site, "completions", "say", "-t", "text=chalk")
    assert refused.returncode == 2
    assert "flow completions: takes text completions" in refused.stderr

    missing = await send(site, "ff", "say")
    assert missing.returncode == 2
    assert "there is no such flow" in missing.stderr


async def sent_chunks(site: Site, count: int) -> list[Chunk]:
    async with await connect(site.url) as broker:
        reader = await broker.reader("persistent://tg/flow/chunks")
        async with asyncio.timeout(60):
            messages = [await reader.receive() for _ in range(count)]
    return [Chunk.decode(message.data) for message in messages if message is not None]


async def test_a_flow_of_chunks_gets_the_chunks_of_each_file_of_a_folder(site: Site, tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.txt").write_text("On chalk. " * 300)
    (folder / "b.html").write_text("<html><body><p>On flint.</p></body></html>")
    (folder / "c.txt").write_text(" ")

    sent = await send(site, "c", folder)
    assert (sent.returncode, sent.stdout) == (1, "sent 3 chunks of 2 files to persistent://tg/flow/chunks\n")
    assert "skipped: " in sent.stderr
    assert sent.stderr.endswith("they wait until a worker serves them; `dead list` shows those that fail\n")
    first, second, html = await sent_chunks(site, 3)
    assert (first.chunk + " " + second.chunk).split() == ["On", "chalk."] * 300
    assert html.chunk.strip() == "On flint."
    document = "urn:sha256:" + hashlib.sha256(("On chalk. " * 300).encode()).hexdigest()
    assert first.metadata == Metadata(f"{document}#char=0,{len(first.chunk)}", document)
    assert second.metadata.root == document != html.metadata.root

    again = await send(site, "c", folder / "b.html", "--json")
    assert (again.returncode, json.loads(again.stdout)) == (0, [html.metadata.id])


async def test_a_text_on_standard_input_is_sent_as_a_chunk(site: Site) -> None:
    flows = ("--flows", site.folder / "chunks.yaml", "--broker", site.url)
    sent = await asyncio.to_thread(run, "send", "c", "-", *flows, input="On chalk.")
    assert sent.stdout == "sent 1 chunk of 1 file to persistent://tg/flow/chunks\n"
    [chunk] = await sent_chunks(site, 1)
    assert chunk.chunk == "On chalk."


async def test_input_of_the_wrong_kind_is_refused_with_what_the_flow_takes(site: Site) -> None:
    notes = site.folder / "notes.txt"
    notes.write_text("On chalk")
    for arguments in (["f", notes], ["f", "say", notes]):
        refused = await send(site, *arguments)
        assert refused.returncode == 2
        assert f"the text of a file as --term text=@{notes}" in refused.stderr
    refused = await send(site, "c", notes, "-t", "text=chalk")
    assert (refused.returncode, "--term: has no effect on chunks" in refused.stderr) == (2, True)
