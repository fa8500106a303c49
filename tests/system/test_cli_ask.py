"""`ask` as a process: what it prints while the model still writes, and who may leave before the end."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.support.command import PROGRAM, environment
from tests.support.model_server import ModelServer, Reply, Then, said, streamed

SECONDS = 60.0
ROCK = '{"entity": "chalk", "definition": "a soft rock"}'
TEXT = ["question", "--term", "question=why?"]
OBJECTS = ["extract-definitions", "--term", "text=Chalk is a soft rock."]


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    server = ModelServer()
    await server.start()
    yield server
    await server.stop()


@asynccontextmanager
async def asking(server: ModelServer, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """The command, running, with pipes on its outputs."""
    process = await asyncio.create_subprocess_exec(
        *(str(PROGRAM), "ask", *arguments, "--base-url", server.url, "--model", "small"),
        env=environment(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(SECONDS):
            yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_a_text_is_there_while_the_model_still_writes(server: ModelServer) -> None:
    server.reply = lambda body: Reply([said("Because "), Then.HANG])
    async with asking(server, *TEXT) as process:
        assert process.stdout is not None
        assert await process.stdout.readexactly(8) == b"Because "


async def test_an_object_is_there_while_the_model_still_writes(server: ModelServer) -> None:
    server.reply = lambda body: Reply([said(f"{ROCK}\n"), Then.HANG])
    async with asking(server, *OBJECTS) as process:
        assert process.stdout is not None
        assert json.loads(await process.stdout.readline()) == json.loads(ROCK)


@pytest.mark.parametrize("prompt", [TEXT, OBJECTS], ids=["text", "objects"])
async def test_who_reads_no_more_ends_it_without_a_word(prompt: list[str], server: ModelServer) -> None:
    rocks = [said(f'{{"entity": "rock {n}", "definition": "a rock"}}\n') for n in range(10_000)]
    server.reply = lambda body: Reply([part for rock in rocks for part in (rock, 0.01)])
    line = shlex.join([str(PROGRAM), "ask", *prompt, "--base-url", server.url, "--model", "small"])
    async with asyncio.timeout(SECONDS):
        shell = await asyncio.create_subprocess_exec(
            *("bash", "-c", f"{line} | head -1; exit ${{PIPESTATUS[0]}}"),
            env=environment(),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        stdout, stderr = await shell.communicate()
    assert (json.loads(stdout)["entity"], stderr, shell.returncode) == ("rock 0", b"", 1)


async def test_json_is_the_whole_outcome_at_the_end(server: ModelServer) -> None:
    server.reply = lambda body: Reply(streamed("Because."))
    async with asking(server, *TEXT, "--json") as process:
        stdout, _ = await process.communicate()
    outcome = json.loads(stdout)
    assert (outcome["value"], [call["text"] for call in outcome["calls"]]) == ("Because.", ["Because."])
