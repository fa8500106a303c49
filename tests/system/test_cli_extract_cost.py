"""`extract --estimate` and `--max-cost` as a process, with a model server on loopback."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import orjson
import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from tests.support.command import run
from tests.support.model_server import DONE, ModelServer, Reply, in_chunks, said, used
from trustgraph_prompt.extraction.tokenizer import MESSAGE_TOKENS

PROMPT = {
    "dialect": "jinja",
    "prompt": "Say {{ text }}",
    "response-type": "jsonl",
    "schema": {"type": "object", "properties": {"n": {"type": "integer"}}},
    "model": {"max-tokens": 50},
    "attempts": 2,
}
TOKENS_IN, TOKENS_OUT = 100, 50
ANSWER = said('{"n": 1}') + said(finish_reason="stop") + used(TOKENS_IN, TOKENS_OUT) + DONE
CHATS = "POST /v1/chat/completions"
CHUNKS = 8


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "say.yaml").write_text(json.dumps(PROMPT))
    (tmp_path / "notes.txt").write_text("\n\n".join(f"Chapter {n}. " + "word " * 30 for n in range(CHUNKS)))
    return tmp_path


def answer(body: dict[str, Any]) -> Reply:
    return Reply(in_chunks(ANSWER, 40))


async def extract(folder: Path, server: ModelServer, *options: object) -> CompletedProcess[str]:
    arguments = (
        *("extract", "notes.txt", "--templates", "say.yaml", "--prompt", "say", "--chunk-size", "200"),
        *("-o", "out.jsonl", "--base-url", f"{server.url}/v1", "--model", "small", *options),
    )
    return await asyncio.to_thread(run, *arguments, folder=folder)


async def estimated(folder: Path, server: ModelServer, *options: object) -> dict[str, Any]:
    result = await extract(folder, server, "--estimate", "--json", *options)
    assert result.returncode == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def rendered(body: dict[str, Any]) -> str:
    return "\n".join(message["content"] for message in body["messages"])


async def test_an_estimate_asks_nothing_and_counts_what_the_run_asks(
    folder: Path, server: ModelServer
) -> None:
    counted: list[str] = []

    def count(body: dict[str, Any]) -> Reply:
        """Answer `/apply-template` and `/tokenize` as llama.cpp does, with a token for each word."""
        if "content" in body:
            counted.append(body["content"])
            value: dict[str, Any] = {"tokens": body["content"].split()}
        else:
            value = {"prompt": rendered(body)}
        return Reply([orjson.dumps(value)], content_type="application/json")

    server.reply = count
    found = await estimated(folder, server, "--price", "1000000,2000000")
    assert CHATS not in server.lines
    assert not (folder / "out.jsonl").exists()
    assert (found["chunks"], found["questions"], found["kept"]) == (CHUNKS, CHUNKS, 0)
    assert found["tokens_counted_with"] == f"the tokenizer of {server.url}/v1"
    low, high = found["low"], found["high"]
    assert low["calls"] == CHUNKS < high["calls"]
    assert low["money"] == low["tokens_in"] + 2 * low["tokens_out"]

    server.reply = answer
    done = await extract(folder, server)
    assert done.returncode == 0, done.stderr
    asked = [rendered(body) for body, line in zip(server.bodies, server.lines, strict=True) if line == CHATS]
    assert sorted(asked) == sorted(counted[1:])  # the first was a trial of the server
    assert found["low"]["tokens_in"] == sum(len(text.split()) for text in asked)

    again = await estimated(folder, server)
    assert (again["questions"], again["kept"]) == (0, CHUNKS)


async def test_server_that_does_not_count_is_named_and_another_tokenizer_counts(
    folder: Path, server: ModelServer
) -> None:
    server.reply = lambda body: Reply([b"{}"], status=404, content_type="application/json")
    shown = await extract(folder, server, "--estimate")
    assert shown.returncode == 0, shown.stderr
    assert f"{CHUNKS} questions to ask" in shown.stdout
    assert "Tokens in were counted with the bundled tokenizer of gpt-4o" in shown.stdout
    assert "does not count tokens" in shown.stdout
    assert "the model may count up to 20 % more or fewer" in shown.stdout

    wrong = await extract(folder, server, "--estimate", "--tokenizer", "say.yaml")
    assert wrong.returncode == 2
    assert "--tokenizer say.yaml" in wrong.stderr
    assert "expected a tokenizer.json" in wrong.stderr


async def test_server_that_stops_counting_is_named_and_another_tokenizer_counts(
    folder: Path, server: ModelServer
) -> None:
    def count_once(body: dict[str, Any]) -> Reply:
        if len(server.bodies) > 2:
            return Reply([b'{"error": {"message": "too busy"}}'], status=503, content_type="application/json")
        value = {"tokens": [1]} if "content" in body else {"prompt": rendered(body)}
        return Reply([orjson.dumps(value)], content_type="application/json")

    server.reply = count_once
    shown = await extract(folder, server, "--estimate")
    assert shown.returncode == 0, shown.stderr
    counted = shown.stdout.partition("Tokens in were counted with the bundled tokenizer of gpt-4o (")[2]
    assert "of some questions only and may be busy; --tokenizer counts without it)" in counted


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--report", "report.pdf"], "--report report.pdf: a page is HTML"),
        (["--store", "store"], "makes no graph"),
    ],
)
async def test_estimate_refuses_outputs_that_the_run_would_refuse(
    folder: Path, server: ModelServer, options: list[str], says: str
) -> None:
    refused = await extract(folder, server, "--estimate", *options)
    assert refused.returncode == 2
    assert says in refused.stderr
    assert not server.lines
    assert not (folder / "store").exists()


async def test_a_given_tokenizer_counts_the_messages_that_the_run_sends(
    folder: Path, server: ModelServer
) -> None:
    words = Tokenizer(WordLevel({"?": 0}, unk_token="?"))
    words.pre_tokenizer = WhitespaceSplit()
    words.save(str(folder / "words.json"))
    server.reply = answer

    found = await estimated(folder, server, "--tokenizer", "words.json")
    assert not server.lines
    await extract(folder, server)
    messages = [message["content"] for body in server.bodies for message in body["messages"]]
    said = sum(len(text.split()) for text in messages)
    assert found["low"]["tokens_in"] == said + MESSAGE_TOKENS * len(messages)
    assert found["tokens_in_within"] == 0.2
    assert found["tokens_counted_with"] == "the tokenizer in words.json"


async def test_a_run_ends_before_it_costs_more_and_goes_on_with_a_higher_limit(
    folder: Path, server: ModelServer
) -> None:
    server.reply = answer
    price = ("--price", "1000000,1000000", "--concurrency", "2")
    paid = TOKENS_IN + TOKENS_OUT

    ended = await extract(folder, server, *price, "--max-cost", 4 * paid, "--json")
    assert ended.returncode == 3
    summary = json.loads(ended.stdout)
    calls = server.lines.count(CHATS)
    assert 1 <= calls < CHUNKS
    assert summary["money"] == {"paid": calls * paid, "limit": 4 * paid, "limit_reached": True}
    assert f"ended by --max-cost, with {CHUNKS - calls} questions left" in ended.stderr
    assert len((folder / "out.jsonl").read_text().splitlines()) == calls

    rest = await extract(folder, server, *price, "--max-cost", 100 * paid, "--json")
    assert rest.returncode == 0, rest.stderr
    assert server.lines.count(CHATS) == CHUNKS
    assert json.loads(rest.stdout)["money"]["paid"] == (CHUNKS - calls) * paid


async def test_a_question_that_the_limit_kept_from_another_attempt_is_asked_again(
    folder: Path, server: ModelServer
) -> None:
    invalid = said('{"n": "x"}') + said(finish_reason="stop") + used(500, TOKENS_OUT) + DONE
    server.reply = lambda body: Reply(in_chunks(invalid, 40))
    price = ("--price", "1000000,1000000", "--concurrency", "1")

    ended = await extract(folder, server, *price, "--max-cost", 600)
    assert ended.returncode == 3
    assert server.lines.count(CHATS) == 1
    assert f"ended by --max-cost, with {CHUNKS} questions left" in ended.stdout

    server.reply = answer
    rest = await extract(folder, server)
    assert rest.returncode == 0, rest.stderr
    assert server.lines.count(CHATS) == 1 + CHUNKS
    assert len((folder / "out.jsonl").read_text().splitlines()) == CHUNKS


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--max-cost", "1"], "--max-cost: needs the price of the model"),
        (["--max-cost", "-1", "--price", "1,2"], "--max-cost: is not a sum of money"),
        (["--price", "cheap"], "--price: is not a price"),
        (["--tokenizer", "x.json"], "--tokenizer: has no effect without --estimate"),
    ],
)
async def test_wrong_usage_is_refused_before_anything_is_asked(
    folder: Path, server: ModelServer, options: list[str], message: str
) -> None:
    refused = await extract(folder, server, *options)
    assert refused.returncode == 2
    assert message in refused.stderr
    assert not server.lines


async def test_cost_limit_holds_on_a_server_that_refuses_max_tokens_and_temperature(
    folder: Path, server: ModelServer
) -> None:
    (folder / "say.yaml").write_text(json.dumps({**PROMPT, "model": {"max-tokens": 50, "temperature": 0}}))
    words = "Unsupported parameter: '{}' is not supported with this model."

    def reply(body: dict[str, Any]) -> Reply:
        refused = [name for name in ("max_tokens", "temperature") if name in body]
        error = {"error": {"message": words.format(refused[0] if refused else "")}}
        return Reply([orjson.dumps(error)], 400) if refused else answer(body)

    server.reply = reply
    result = await extract(
        folder, server, "--price", "1000000,1000000", "--max-cost", 2000, "--concurrency", "1", "--json"
    )

    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["money"]["paid"] == CHUNKS * (TOKENS_IN + TOKENS_OUT)
    assert server.lines.count(CHATS) == CHUNKS + 2
    assert all(body["max_completion_tokens"] <= 50 for body in server.bodies[2:] if "messages" in body)
    for name in ("max_tokens", "temperature"):
        assert result.stderr.count(f"the model 'small' does not accept {name}") == 1


async def test_parameter_that_a_prompt_may_not_set_is_refused_before_anything_is_asked(
    folder: Path, server: ModelServer
) -> None:
    (folder / "say.yaml").write_text(json.dumps({**PROMPT, "model": {"extras": {"reasoning_effort": "low"}}}))
    server.reply = answer

    refused = await extract(folder, server)
    assert refused.returncode == 2
    assert "say: the prompt sets the parameter 'reasoning_effort'" in " ".join(refused.stderr.split())
    assert server.bodies == []

    allowed = await extract(folder, server, "--allow-parameter", "reasoning_effort")
    assert allowed.returncode == 0, allowed.stderr
    assert {body["reasoning_effort"] for body in server.bodies} == {"low"}
