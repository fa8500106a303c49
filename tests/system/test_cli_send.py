"""`send` as a person types it, to a worker on a broker in a file."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.support.command import run
from tests.support.worker_processes import Site
from tests.support.workers import DEFINITION, entry

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
        await site.run()
        yield site


async def send(site: Site, *arguments: object) -> CompletedProcess[str]:
    flows = ("--flows", site.folder / "flow.yaml", "--flows", site.folder / "chunks.yaml")
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


async def test_a_flow_that_sends_no_responses_is_refused(site: Site) -> None:
    refused = await send(site, "c", "say", "-t", "text=chalk")
    assert refused.returncode == 2
    assert "flow c: takes no prompt requests, or sends no responses" in refused.stderr

    missing = await send(site, "ff", "say")
    assert missing.returncode == 2
    assert "there is no such flow" in missing.stderr
