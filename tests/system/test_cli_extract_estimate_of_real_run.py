"""`extract --estimate` beside the run that it is about, with a real model on a real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import command
from tests.support.llama_server import MODEL, LlamaServer, model_file
from trustgraph_prompt.broker import connect
from trustgraph_prompt.extraction.state import ANSWERS
from trustgraph_prompt.worker import Answer

pytestmark = [pytest.mark.real_model, pytest.mark.xdist_group("model")]

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
PROMPTS = {
    "names": {"response-type": "jsonl", "prompt": "List the names in this text: {{ text }}"},
    "title": {"response-type": "json", "prompt": "What could be the title of this text? {{ text }}"},
}
DOCUMENT = command.DOCUMENT.read_text("utf-8")[:800]


@pytest.fixture
def extract(tmp_path: Path, llama_server: LlamaServer) -> Callable[..., dict[str, Any]]:
    """Runs the command over the text with two prompts, one of which the server gets a schema with."""
    for name, prompt in PROMPTS.items():
        settings = {"schema": SCHEMA, "model": {"max-tokens": 8}}
        (tmp_path / f"{name}.yaml").write_text(json.dumps({"dialect": "jinja", **prompt, **settings}))
    (tmp_path / "text.txt").write_text(DOCUMENT)

    def extract(*options: object) -> dict[str, Any]:
        done = command.run(
            *("extract", "text.txt", "--prompt", "names", "--prompt", "title", "--templates", tmp_path),
            *("--base-url", llama_server.url, "--model", MODEL, "--json", *options),
            folder=tmp_path,
        )
        # the answers end after 8 tokens, so that there may be no object
        assert done.returncode in (0, 1), done.stderr
        return dict(json.loads(done.stdout))

    return extract


async def answers(state: Path) -> list[Answer]:
    async with await connect(f"embedded:{state}") as kept:
        table = await kept.table(ANSWERS)
        await table.close()
        return [Answer.decode(message.data) for message in table.entries.values()]


def test_the_tokens_of_first_questions_are_known_before_the_run(
    extract: Callable[..., dict[str, Any]], tmp_path: Path, record_counts: Callable[..., None]
) -> None:
    from tests.support import gguf_tokenizer  # needs the extra `tokenizer`

    gguf_tokenizer.save(model_file(), tmp_path / "tokenizer.json")
    before = {
        "server": extract("--estimate"),
        "file": extract("--estimate", "--tokenizer", "tokenizer.json"),
    }
    with_another = command.run(
        *("extract", "text.txt", "--prompt", "names", "--prompt", "title", "--templates", tmp_path),
        *("--provider", command.SCRIPTED, "--estimate", "--json"),
        folder=tmp_path,
    )
    before["bundled"] = json.loads(with_another.stdout)

    extract("-o", "out.jsonl")
    made = asyncio.run(answers(tmp_path / "out.jsonl.state"))
    calls = [[call["usage"] for call in answer.calls] for answer in made]
    asked = sum(usage[0]["prompt_tokens"] for usage in calls)
    estimates = {name: each["low"]["tokens_in"] for name, each in before.items()}
    record_counts(
        questions=len(made), tokens_in=asked, **{f"by_{name}": found for name, found in estimates.items()}
    )

    for name, each in before.items():
        assert each["questions"] == len(made)
        assert estimates[name] == pytest.approx(asked, rel=each["tokens_in_within"])
    assert [each["tokens_in_within"] for each in before.values()] == [0.02, 0.2, 0.2]
    low, high = before["server"]["low"], before["server"]["high"]
    made_calls = [usage for answer in calls for usage in answer]
    taken = {
        "calls": len(made_calls),
        "tokens_in": sum(usage["prompt_tokens"] for usage in made_calls),
        "tokens_out": sum(usage["completion_tokens"] for usage in made_calls),
    }
    for name, number in taken.items():
        assert low[name] <= number <= high[name]
