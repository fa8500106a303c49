"""The rules for Prometheus: numbers are what they say, alerts fire when they should, metrics exist."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from pathlib import Path

from tests.support.requirements import unavailable
from tests.support.worker_processes import Site
from tests.support.workers import DEFINITION, entry, listening
from trustgraph_prompt.broker import Broker, connect
from trustgraph_prompt.wire import PromptRequest

MONITORING = Path(__file__).parents[2] / "monitoring"
RULES = ("rules.yaml", "alerts.yaml")

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


def test_rules_give_the_seeds_numbers_and_every_alert_fires_and_is_silent() -> None:
    promtool("test", "rules", "rules_test.yaml")


def test_every_alert_is_tried() -> None:
    tried = (MONITORING / "rules_test.yaml").read_text()

    for alert in re.findall(r"alert: (\w+)", (MONITORING / "alerts.yaml").read_text()):
        assert re.search(rf"alertname: {alert}\n +eval_time: \w+\n +exp_alerts:", tried), alert


async def test_a_worker_shows_how_each_answer_was_read_and_every_metric_that_rules_ask_for(
    site: Site,
) -> None:
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
        for file in RULES:
            for metric in set(re.findall(r"trustgraph_prompt_\w+", (MONITORING / file).read_text())):
                await worker.shows("/metrics", f"\n{metric}{{")


async def ask(broker: Broker, *prompts: str) -> None:
    producer = await broker.producer("persistent://tg/flow/in")
    for prompt in prompts:
        data = PromptRequest.asking(prompt, {"text": "chalk"}).encode()
        await producer.send(data, properties={"id": f"{prompt}-{time.monotonic_ns()}"})
    await producer.close()
