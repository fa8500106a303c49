"""The rules for Prometheus: recorded numbers are right; every alert fires, stays silent, and has a page."""

from __future__ import annotations

import re
import shutil
import subprocess
import time

import pytest
import yaml

from tests.support.monitoring import MONITORING, RUNBOOK, rules
from tests.support.requirements import unavailable
from tests.support.worker_processes import Site
from tests.support.workers import DEFINITION, entry, listening
from trustgraph_prompt.broker import Broker, connect
from trustgraph_prompt.wire import PromptRequest

RULES = ("rules.yaml", "alerts.yaml")
TESTS = sorted(file.name for file in MONITORING.glob("*_test.yaml"))
ALERTS = {rule["alert"]: rule for rule in rules("alerts.yaml")}

FLOW = """
name: f
input: {topic: persistent://tg/flow/in}
outputs: {response: persistent://tg/flow/out, answers: persistent://tg/flow/answers}
"""

SETTINGS = {"response-type": "json", "schema": DEFINITION, "repair": True}
SOUND = '{"entity": "chalk", "definition": "a soft rock"}'

#: By prompt: what its model answers, the stage and the reason under which that is to be counted.
ANSWERS = {
    "plain": (SOUND, "direct", "success"),
    "wordy": (f"Here it is:\n```json\n{SOUND}\n```", "extracted", "success"),
    "broken": (SOUND.replace(",", ""), "repaired", "success"),
    "cut": (SOUND[:-1], "salvaged", "success"),
    "none": ("I cannot say.", "failed", "extraction_failed"),
    "wrong": ('{"entity": "chalk"}', "failed", "schema_missing_field"),
}


def promtool(*arguments: object) -> None:
    if (binary := shutil.which("promtool")) is None:
        unavailable("no promtool: apt-get install prometheus")
    command = [binary, *map(str, arguments)]
    done = subprocess.run(command, cwd=MONITORING, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_takes_the_rules() -> None:
    promtool("check", "rules", *RULES)


@pytest.mark.parametrize("file", TESTS)
def test_the_tests_of_the_rules_pass(file: str) -> None:
    promtool("test", "rules", file)


def test_every_alert_is_tested_to_fire_and_to_stay_silent() -> None:
    tests = [
        test for file in TESTS for test in yaml.safe_load((MONITORING / file).read_text("utf-8"))["tests"]
    ]
    cases = [case for test in tests for case in test.get("alert_rule_test", ())]

    for alert in ALERTS:
        fires = {bool(case.get("exp_alerts")) for case in cases if case["alertname"] == alert}
        assert fires == {True, False}, alert


def test_every_alert_has_a_page_in_the_runbook_and_every_page_an_alert() -> None:
    pages = {page.stem: page.read_text("utf-8") for page in RUNBOOK.glob("*.md") if page.stem != "README"}
    index = (RUNBOOK / "README.md").read_text("utf-8")

    assert pages.keys() == ALERTS.keys()
    for name, alert in ALERTS.items():
        assert alert["annotations"].keys() == {"summary", "description", "runbook_url"}, name
        assert alert["annotations"]["runbook_url"] == f"docs/runbook/{name}.md"
        assert alert["labels"]["severity"] in ("critical", "warning", "info"), name
        assert f"]({name}.md)" in index, name
        assert pages[name].startswith(f"# {name}\n"), name
        headings = re.findall(r"^## (.+)$", pages[name], re.MULTILINE)
        assert headings == ["What it means", "What to look at", "What to do"], name


async def test_a_worker_shows_how_each_answer_was_read(site: Site) -> None:
    prompts = {prompt: entry(f"{prompt} {{{{ text }}}}", **SETTINGS) for prompt in ANSWERS}
    prompts["known"] = entry("known {{ text }}", cache=True, **SETTINGS)
    site.serves(FLOW, {f"template.{prompt}": written for prompt, written in prompts.items()})
    site.answers(
        *(
            {"prompt": prompt, "answer": answer, "finish_reason": "length" if prompt == "cut" else "stop"}
            for prompt, (answer, _, _) in ANSWERS.items()
        ),
        {"prompt": "known", "answer": SOUND},
    )
    async with await connect(site.url) as broker, listening(broker, "persistent://tg/flow/out") as responses:
        worker = await site.run()
        await ask(broker, *ANSWERS, "known")
        await responses.until(len(ANSWERS) + 1)
        await ask(broker, "known")
        await responses.until(len(ANSWERS) + 2)

        for prompt, (_, stage, reason) in ANSWERS.items():
            labels = f'flow="f",prompt="{prompt}"'
            read = f'answers_read_total{{{labels},reason="{reason}",stage="{stage}"}} 1.0'
            await worker.shows("/metrics", f"trustgraph_prompt_{read}")
            timed = f'reading_seconds_count{{{labels},stage="{stage}"}} 1.0'
            await worker.shows("/metrics", f"trustgraph_prompt_{timed}")
        mended = 'objects_repaired_total{flow="f",prompt="broken",what="a missing comma"} 1.0'
        await worker.shows("/metrics", f"trustgraph_prompt_{mended}")


async def ask(broker: Broker, *prompts: str) -> None:
    producer = await broker.producer("persistent://tg/flow/in")
    for prompt in prompts:
        data = PromptRequest.asking(prompt, {"text": "chalk"}).encode()
        await producer.send(data, properties={"id": f"{prompt}-{time.monotonic_ns()}"})
    await producer.close()
