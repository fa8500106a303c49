"""What is imported before it is needed: nothing. How long it takes is told by benchmarks/startup.py."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE

import pytest

from tests.support.command import ROOT, environment
from tests.support.worker_processes import Site
from tests.support.workers import entry
from trustgraph_prompt.broker import connect
from trustgraph_prompt.wire import PromptRequest

REQUESTS = "persistent://tg/flow/in"
RESPONSES = "persistent://tg/flow/out"
FLOW = f"{{name: f, input: {{topic: '{REQUESTS}'}}, outputs: {{response: '{RESPONSES}'}}}}"

SELDOM = {
    *("aiohttp", "jsonschema", "lark", "opentelemetry", "pulsar", "pydantic", "redis", "rich"),
    *("trustgraph_prompt.language", "trustgraph_prompt.contract.types", "trustgraph_prompt.reader.repair"),
}
"""What only some prompts, providers, brokers or terminals need."""
HEAVY = {"asyncio", "jinja2", "jsonschema_rs", "orjson", "prometheus_client", "tenacity", "yaml"}
"""What every worker needs."""

COMMANDS = [
    "extract",
    "ask",
    "read",
    "render",
    "check",
    "format",
    "run",
    "complete",
    "config",
    "dead",
    "answers",
    "topics",
]


def imported(report: str) -> set[str]:
    """The modules in what `python -X importtime` says."""
    lines = [line for line in report.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}


def imported_by(*arguments: str) -> set[str]:
    """The modules that Python imports to do this."""
    program = [sys.executable, "-X", "importtime", *arguments]
    report = subprocess.run(program, env=environment(), capture_output=True, text=True, check=True).stderr
    modules = imported(report)
    assert "trustgraph_prompt" in modules
    return modules


def test_the_package_imports_none_of_its_libraries() -> None:
    assert imported_by("-c", "import trustgraph_prompt") & (SELDOM | HEAVY | {"typer"}) == set()


def test_reading_imports_nothing_of_asking() -> None:
    program = "from trustgraph_prompt import read; read('[1]', 'json').unwrap()"
    assert imported_by("-c", program) & (SELDOM | {"asyncio", "typer", "yaml"}) == set()


def test_checking_imports_nothing_that_reads_documents() -> None:
    file = ROOT / "templates" / "extract-definitions.prompt"
    modules = imported_by("-m", "trustgraph_prompt", "check", str(file))
    assert modules & {"trustgraph_prompt.documents", "semantic_text_splitter"} == set()


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_imports_nothing_heavy(command: str) -> None:
    modules = imported_by("-m", "trustgraph_prompt", *command.split(), "--help")
    assert "typer" in modules
    assert modules & (SELDOM | HEAVY) == set()


async def test_a_worker_serves_plain_prompts_with_what_every_worker_needs(site: Site) -> None:
    site.serves(FLOW, {"template.say": entry("Say {{ text }}")})
    site.answers({"answer": "said"})
    request = PromptRequest.asking("say", {"text": "hello"}).encode()
    async with await connect(site.url) as broker:
        responses = await site.hear(broker, RESPONSES)
        await (await broker.producer(REQUESTS)).send(request, properties={"id": "1"})
        worker = await site.spawn(*site.arguments, stderr=PIPE, PYTHONPROFILEIMPORTTIME="1")
        assert isinstance(worker, asyncio.subprocess.Process)
        ended = asyncio.create_task(worker.communicate())
        await responses.until(1)
        worker.send_signal(signal.SIGTERM)
        _, log = await asyncio.wait_for(ended, 60)
    assert worker.returncode == 0
    modules = imported(log.decode())
    assert modules > HEAVY
    assert modules & SELDOM == set()
