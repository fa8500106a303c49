"""`answers list` as a person types it, on a broker in a file that a worker has served."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.support.command import run
from tests.support.workers import ENTRIES, Working, listening
from trustgraph_prompt.broker import EmbeddedBroker, connect
from trustgraph_prompt.llm import Call, ScriptedProvider
from trustgraph_prompt.prompts import files
from trustgraph_prompt.wire import Chunk, Metadata
from trustgraph_prompt.worker import Prompts, Service, flow_file

CHUNKS = """
name: chunks
input: {topic: "persistent://tg/flow/chunks", kind: chunk}
prompt: define
outputs: {answers: "persistent://tg/flow/answers", objects: "persistent://tg/flow/objects"}
"""
COMPLETIONS = """
name: completions
input: {topic: "persistent://tg/flow/completions", kind: text-completion}
outputs: {response: "persistent://tg/flow/completed"}
"""
PROMPT_FILE = """schema Definition:
    entity: string
    definition: string  "What it is."

prompt define expecting Definition[] as jsonl:
    text: "Define what is in: {{ text }}"
"""
CHALK = '{"entity": "chalk", "definition": "a soft white limestone"}'
SORRY = "I'm sorry,\nI can't do that."
ANSWERS = {"chalk": CHALK, "flint": SORRY, "slate": "[]", "sand": " ", "clay": '{"entity": "clay"}'}


class Desk:
    """A folder with two flows, and a broker in a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"embedded:{folder / 'broker.db'}"
        (folder / "flows").mkdir()
        (folder / "flows" / "chunks.yaml").write_text(CHUNKS)
        (folder / "flows" / "completions.yaml").write_text(COMPLETIONS)

    def serve(self, answers: Mapping[str, str], prompts: Mapping[str, str] = ENTRIES) -> None:
        """A worker is asked about chunks with these texts, one after the other, and the model answers so."""
        asyncio.run(self._serve(answers, prompts))

    async def _serve(self, answers: Mapping[str, str], prompts: Mapping[str, str]) -> None:
        def model(call: Call) -> str:
            return next(answer for text, answer in answers.items() if text in call.messages[-1].text)

        [flow] = flow_file.load(self.folder / "flows" / "chunks.yaml")
        assert flow.outputs.answers is not None
        async with (
            await connect(self.url) as broker,
            listening(broker, flow.outputs.answers, start="latest") as records,
        ):
            service = Service(
                broker, [flow], Prompts(prompts), lambda _: ScriptedProvider(model), config_topic=None
            )
            working = Working(service)
            await working.ready()
            producer = await broker.producer(flow.input.topic)
            for number, text in enumerate(answers, 1):
                await producer.send(Chunk(Metadata(id=text, root="d"), text, document_id=text).encode())
                await records.until(number)
            await working.stop()

    def answers(self, *arguments: object, place: object = "flows") -> CompletedProcess[str]:
        return run("answers", "list", *arguments, "--flows", place, "--broker", self.url, folder=self.folder)

    def show(self, request: object, *arguments: object) -> CompletedProcess[str]:
        options = ("--flows", "flows", "--broker", self.url)
        return run("answers", "show", request, *arguments, *options, folder=self.folder)

    def listed(self, *arguments: object) -> list[dict[str, object]]:
        result = self.answers("--flow", "chunks", "--json", *arguments)
        return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture
def services(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_list_has_answers_without_objects_with_the_reason(services: Desk) -> None:
    services.serve(ANSWERS)

    result = services.answers("--flow", "chunks")

    assert result.returncode == 0
    assert result.stderr == f"4 answers without objects of the flow chunks in flows on {services.url}\n"
    place, flint, slate, sand, clay = result.stdout.splitlines()
    assert place == "persistent://tg/flow/answers, flow chunks"
    assert flint.endswith("  flint  define  extraction_failed  1 call  no object in the answer")
    assert slate.endswith("  slate  define  success  1 call  the model says that there is nothing")
    assert sand.endswith("  sand  define  empty  1 call  the answer is empty")
    assert clay.endswith(
        '  clay  define  schema_missing_field  1 call  1 refused, the first: "definition" is missing'
    )


def test_a_list_for_programs_is_narrowed_by_reason_and_prompt(services: Desk) -> None:
    services.serve(ANSWERS)

    assert [record["reason"] for record in services.listed()] == [
        *("extraction_failed", "success", "empty", "schema_missing_field")
    ]
    assert services.listed("--prompt", "insist") == []
    assert len(services.listed("--prompt", "define")) == 4
    assert [record["why"] for record in services.listed("--reason", "success")] == [""]
    [record] = services.listed("--reason", "extraction_failed", "--prompt", "define")
    assert str(record.pop("published")).endswith("+00:00")
    assert isinstance(record.pop("request"), str)
    assert isinstance(record.pop("version"), str)
    assert isinstance(record.pop("tokens"), int)
    assert record == {
        "flow": "chunks",
        "prompt": "define",
        "reason": "extraction_failed",
        "why": "no object in the answer",
        "truncated": False,
        "escalated": None,
        "rejected": 0,
        "calls": ["first"],
        "cost": None,
        "source": {"chunk": "flint", "document": "flint", "root": "d"},
    }


@pytest.mark.parametrize(("keep", "after"), [("90d", "90 d"), ("36h", "36 h")])
def test_a_flow_that_deletes_its_records_says_so(keep: str, after: str, services: Desk) -> None:
    (services.folder / "flows" / "chunks.yaml").write_text(CHUNKS + f"keep-answers: {keep}\n")
    services.serve({"slate": "[]"})

    kept = f"flow chunks deletes its answer records after {after} (`keep-answers`)\n"
    assert services.answers("--flow", "chunks").stderr.startswith(kept)
    assert services.show("nobody").stderr.startswith(f"{kept}error: there is no answer to the request nobody")


def test_an_answer_is_shown_with_the_rules_that_its_objects_break(services: Desk) -> None:
    services.serve({"clay": 'Here:\n{"entity": "clay"}\n{"entity": "cl'})
    [record] = services.listed()

    shown = services.show(record["request"])
    assert shown.returncode == 0
    assert "reason: schema_missing_field\n" in shown.stdout
    assert shown.stdout.endswith(
        'refused object 1: "definition" is missing\n'
        '  | {"entity": "clay"}\n'
        "  | ^^^^^^^^^^^^^^^^^^\n"
        f"the schema is not shown: neither the config topic nor the files have version {record['version']}\n"
    )
    (services.folder / "templates.json").write_text(json.dumps(ENTRIES))
    known = services.show(record["request"], "--templates", "templates.json")
    *_, where, rule, mark = known.stdout.splitlines()
    assert where == "  = breaks /schema"
    assert rule[mark.index("^") : mark.rindex("^") + 1] == '"required": ["entity", "definition"]'
    [refused] = json.loads(services.show(record["request"], "--json").stdout)["rejected"]
    assert refused["raw"] == '{"entity": "clay"}'
    assert (refused["issues"][0]["keyword"], refused["issues"][0]["rule"]) == ("/schema/required/1", None)


def test_an_answer_breaks_a_line_of_a_prompt_file(services: Desk) -> None:
    (services.folder / "p.prompt").write_text(PROMPT_FILE)
    services.serve({"clay": '{"entity": "clay"}'}, files.load(services.folder / "p.prompt"))
    [record] = services.listed()
    shown = services.show(record["request"], "--templates", "p.prompt")
    assert shown.stdout.endswith(
        "  = breaks p.prompt:3:5\n"
        '  | definition: string  "What it is."\n'
        "  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
    )


def test_show_of_a_request_without_an_answer_is_an_error(services: Desk) -> None:
    services.serve({"chalk": CHALK})
    result = services.show("nobody")
    told = (
        "error: there is no answer to the request nobody "
        f"of the flows chunks, completions in flows on {services.url}\n"
    )
    assert (result.returncode, result.stdout, result.stderr) == (1, "", told)


def test_the_last_record_of_a_request_counts(services: Desk) -> None:
    services.serve({"flint": SORRY})
    assert len(services.listed()) == 1
    services.serve({"flint": CHALK})
    assert services.listed() == []


@pytest.mark.parametrize("chosen", [["--reason", "empty"], ["--prompt", "other"]])
def test_a_filter_that_matches_no_answer_says_how_many_are_there(services: Desk, chosen: list[str]) -> None:
    services.serve({"flint": SORRY})
    result = services.answers("--flow", "chunks", *chosen)
    assert result.returncode == 0
    assert result.stderr == (
        f"1 answer without objects of the flow chunks in flows on {services.url}; none of them matches\n"
    )


def test_a_flow_that_keeps_no_answers_says_so(services: Desk) -> None:
    services.serve({"chalk": CHALK})

    alone = services.answers("--flow", "completions")
    both = services.answers()

    told = "without answer records, as `outputs.answers` is not set: completions\n"
    assert (alone.returncode, alone.stdout, alone.stderr) == (0, "", told)
    assert both.stderr == (
        f"{told}no answers without objects of the flows chunks, completions in flows on {services.url}\n"
    )


def test_list_makes_no_topic_and_no_file(services: Desk) -> None:
    assert "no such broker file" in services.answers().stderr
    assert not (services.folder / "broker.db").exists()

    async def topics() -> set[str]:
        async with await connect(services.url) as broker:
            assert isinstance(broker, EmbeddedBroker)
            return set(await broker.subscriptions())

    assert asyncio.run(topics()) == set()
    result = services.answers("--flow", "chunks")
    assert result.returncode == 0
    assert result.stderr.startswith(
        "flow chunks: no answers yet, the topic persistent://tg/flow/answers does not exist on "
        f"{services.url}\n"
    )
    assert asyncio.run(topics()) == set()


def test_unknown_flow_and_reason_are_refused_with_suggestions(services: Desk) -> None:
    flow = services.answers("--flow", "chunk")
    assert (flow.returncode, flow.stdout) == (2, "")
    assert "--flow: there is no such flow" in flow.stderr
    assert "did you mean 'empty'?" in services.answers("--reason", "emty").stderr
