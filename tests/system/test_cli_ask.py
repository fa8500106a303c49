"""`ask` as a process: what it prints while the model still writes, and who may leave before the end."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import get_args

import pytest

from tests.support.command import DOCUMENT, PROGRAM, SCRIPTED, environment, run
from tests.support.model_server import ModelServer, Reply, Then, said, streamed
from trustgraph_prompt.cli.model_options import Prefill
from trustgraph_prompt.llm.openai import request_body

SECONDS = 60.0
ROCK = '{"quote": "Chalk is a soft rock", "entity": "chalk", "definition": "a soft rock"}'
TEXT = ["question", "--term", "question=why?"]
OBJECTS = ["extract-definitions", "--term", "text=Chalk is a soft rock."]


@asynccontextmanager
async def asking(
    server: ModelServer, *arguments: str, **variables: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """The command, running, with pipes on its outputs."""
    process = await asyncio.create_subprocess_exec(
        *(str(PROGRAM), "ask", *arguments, "--base-url", server.url, "--model", "small"),
        env=environment(**variables),
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


def test_ask_prints_one_object_a_line() -> None:
    result = run("ask", "extract-definitions", "--term", f"text=@{DOCUMENT}", "--provider", SCRIPTED)
    assert result.returncode == 0
    assert json.loads(result.stdout.splitlines()[0])["entity"] == "chalk"


def test_ask_json_has_calls_and_tokens() -> None:
    result = run("ask", "extract-definitions", "-t", f"text=@{DOCUMENT}", "--provider", SCRIPTED, "--json")
    outcome = json.loads(result.stdout)
    assert outcome["reason"] == "success"
    assert [call["why"] for call in outcome["calls"]] == ["first"]
    assert outcome["usage"]["total_tokens"] > 0


def test_ask_without_an_answer_exits_with_1() -> None:
    server = ["--base-url", "http://127.0.0.1:9/v1", "--model", "none"]
    result = run("ask", "question", "--term", "question=why?", *server)
    assert result.returncode == 1
    assert result.stdout == ""
    assert "127.0.0.1:9" in result.stderr
    assert "Traceback" not in result.stderr


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
async def test_closed_pipe_ends_the_command_without_a_message(prompt: list[str], server: ModelServer) -> None:
    rocks = [said(ROCK.replace('"chalk"', f'"rock {n}"') + "\n") for n in range(10_000)]
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


async def test_truncated_answer_is_continued_by_a_server_that_supports_prefill(server: ModelServer) -> None:
    halves = iter([streamed("Because ", "length"), streamed("it is.")])
    server.reply = lambda body: Reply(next(halves))
    async with asking(server, *TEXT, "--prefill", "vllm") as process:
        stdout, stderr = await process.communicate()
    assert (stdout, stderr, process.returncode) == (b"Because it is.\n", b"", 0)
    assert server.bodies[-1]["messages"][-1] == {"role": "assistant", "content": "Because "}
    assert server.bodies[-1]["continue_final_message"] is True


@pytest.mark.parametrize(
    ("said", "variables", "sent"),
    [
        ([], {}, True),
        (["--no-native-schema"], {}, False),
        ([], {"TRUSTGRAPH_PROMPT_NATIVE_SCHEMA": "false"}, False),
        (["--native-schema"], {"TRUSTGRAPH_PROMPT_NATIVE_SCHEMA": "false"}, True),
    ],
)
async def test_schema_is_sent_unless_an_option_says_that_the_server_takes_none(
    said: list[str], variables: dict[str, str], sent: bool, server: ModelServer, tmp_path: Path
) -> None:
    (tmp_path / "rock.yaml").write_text(
        "dialect: jinja\nprompt: Which rock?\nresponse-type: json\n"
        "schema: {type: object, properties: {rock: {type: string}}, required: [rock]}\n"
    )
    server.reply = lambda body: Reply(streamed('{"rock": "chalk"}'))
    async with asking(server, "rock", "--templates", str(tmp_path), *said, **variables) as process:
        await process.communicate()
    assert process.returncode == 0
    assert ["response_format" in body for body in server.bodies] == [sent]


def test_values_of_the_prefill_option_are_those_of_the_provider() -> None:
    assert set(get_args(Prefill)) == set(get_args(request_body.Prefill))


async def test_nothing_is_asked_where_a_term_is_missing(server: ModelServer) -> None:
    async with asking(server, "question", "--term", "query=why?") as process:
        _, errors = await process.communicate()
    assert process.returncode == 2
    assert b"does not use the term query; its terms: question" in errors
    assert b"--term question=" in errors
    assert server.bodies == []


def serving(server: ModelServer, *models: str) -> None:
    """Have the server list these models, and answer every question."""
    listed = json.dumps({"data": [{"id": model} for model in models]}).encode()
    server.reply = lambda body: (
        Reply([listed], content_type="application/json")
        if server.lines[-1].startswith("GET")
        else Reply(streamed("Because."))
    )


async def test_the_only_model_of_a_server_is_asked_where_none_is_chosen(server: ModelServer) -> None:
    serving(server, "small")
    result = await asyncio.to_thread(run, "ask", *TEXT, "--base-url", server.url)
    assert (result.returncode, result.stdout) == (0, "Because.\n")
    assert result.stderr == "asking small, the only model of the server\n"
    assert server.bodies[-1]["model"] == "small"


@pytest.mark.parametrize(
    ("models", "expected"),
    [
        (["small", "large"], "no model is chosen; the server has small, large"),
        ([], "no model is chosen; the server has none"),
    ],
)
async def test_the_models_of_a_server_are_named_where_none_is_chosen(
    server: ModelServer, models: list[str], expected: str
) -> None:
    serving(server, *models)
    result = await asyncio.to_thread(run, "ask", *TEXT, "--base-url", server.url)
    assert (result.returncode, result.stdout, result.stderr) == (2, "", f"error: --model: {expected}\n")


async def test_a_server_that_lists_no_models_is_reported_where_none_is_chosen(server: ModelServer) -> None:
    server.reply = lambda body: Reply([b"no"], status=404)
    result = await asyncio.to_thread(run, "ask", *TEXT, "--base-url", server.url)
    assert result.returncode == 2
    assert result.stderr.startswith(
        f"error: --model: no model is chosen, and the server does not list its models: {server.url}"
    )
