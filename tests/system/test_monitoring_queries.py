"""Every query of rules, alerts, dashboards and runbook asks for what a worker, or Pulsar, really shows."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Collection, Mapping

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.monitoring import (
    DASHBOARDS,
    PULSAR,
    TARGET,
    Labels,
    annotation_labels,
    labels,
    legend_labels,
    metrics,
    query,
    recorded,
    rules,
    runbook_queries,
    targets,
    variables,
)
from tests.support.pulsar_server import PulsarServer
from tests.support.worker_processes import Site, page
from tests.support.workers import DEFINITION, entry
from trustgraph_prompt.broker import Broker, connect, topics
from trustgraph_prompt.wire import PromptRequest

FLOW = """
name: {name}
input: {{topic: persistent://tg/flow/{name}, subscription: prompt--default--{name}--request}}
outputs: {{response: persistent://tg/flow/out, answers: persistent://tg/flow/answers}}
deliveries: 2
price: {{prompt: 1, completion: 2}}
"""
AWAY = "provider: {base-url: 'http://127.0.0.1:9/v1', model: away}\n"

SOUND = '{"entity": "chalk", "definition": "a soft rock"}'
OBJECTS = {"response-type": "jsonl", "object-schema": DEFINITION}
NAMED = {**DEFINITION, "properties": {"entity": {"type": "string", "x-from": "text"}}}

PROMPTS = {
    "good": entry("Define {{ text }}", cache=True, **OBJECTS),
    "broken": entry("Define {{ text }}", **{"response-type": "json", "schema": DEFINITION, "repair": True}),
    "cut": entry("Define {{ text }}", **OBJECTS),
    "ungrounded": entry("Define {{ text }}", **{**OBJECTS, "object-schema": NAMED}),
    "doubt": entry("Doubt {{ text }}", escalate={"op": "~", "value": "I CANNOT"}),
    "busy": entry("Say {{ text }}"),
}
ANSWERS: list[Mapping[str, object]] = [
    {"prompt": "good", "answer": SOUND},
    {"prompt": "broken", "answer": SOUND.replace(",", "")},
    {"prompt": "cut", "answer": SOUND + '\n{"entity": "fl', "finish_reason": "length"},
    {"prompt": "ungrounded", "answer": SOUND.replace("chalk", "flint")},
    {"prompt": "doubt", "answer": "I CANNOT"},
    {"prompt": "busy", "error": {"category": "provider_unavailable", "message": "busy"}},
]

NEVER = {"trustgraph_prompt_requests_unsettled_total": {"flow"}}
"""Labels of what this traffic does not cause: no broker here refuses to settle a message."""


async def test_every_query_asks_for_metrics_and_labels_that_are_there(site: Site) -> None:
    known = recorded(await shown_after_traffic(site))

    for alert in rules("alerts.yaml"):
        asked = annotation_labels("".join(alert["annotations"].values()))
        assert asked <= result(alert["expr"], known), alert["alert"]
    for where, expression in runbook_queries():
        assert labels(query(expression), known) is not None, where
    for file in DASHBOARDS:
        for where, target in targets(file):
            assert legend_labels(target["legendFormat"]) <= result(target["expr"], known), where
        for selector, label in variables(file):
            assert label in result(selector, known), file.name


@pytest.mark.pulsar
async def test_pulsar_shows_what_a_worker_could_receive(pulsar: PulsarServer, pulsar_space: str) -> None:
    topic, subscription = f"persistent://{pulsar_space}/flow/in", "prompt--default--f--request"
    async with await connect(pulsar.url) as broker:
        consumer = await broker.consumer(topic, subscription)
        producer = await broker.producer(topic)
        for number in range(3):
            await producer.send(b"{}", properties={"id": str(number)})
        message = await consumer.receive()
        assert message is not None
        await consumer.retry(message, 600)

        waiting = {topic: 2.0, topics.retry_topic(topic, subscription): 0.0}
        async with asyncio.timeout(60):
            while backlog(await asyncio.to_thread(page, f"{pulsar.admin_url}/metrics"), waiting) != waiting:
                await asyncio.sleep(0.2)


def backlog(text: str, of: Collection[str]) -> dict[str, float]:
    """The backlogs of some topics on a page of Pulsar's metrics."""
    name, expected = next(iter(PULSAR.items()))
    found = re.findall(rf"^{name}{{(.*)}} (\S+)", text, re.MULTILINE)
    samples = [(dict(re.findall(r'(\w+)="([^"]*)"', labels)), float(value)) for labels, value in found]
    assert all(expected <= TARGET | labels.keys() for labels, _ in samples)
    return {labels["topic"]: value for labels, value in samples if labels["topic"] in of}


def result(expression: str, known: Mapping[str, Labels]) -> Labels:
    """The labels of the result of a query, which is no number."""
    found = labels(query(expression), known)
    assert found is not None, expression
    return found


async def shown_after_traffic(site: Site) -> dict[str, Labels]:
    """The metrics of a worker that has met almost all that can happen to a request, with their labels."""
    site.serves(FLOW.format(name="f"), {f"template.{prompt}": text for prompt, text in PROMPTS.items()})
    site.answers(*ANSWERS)
    (flows := site.folder / "flows").mkdir()
    (flows / "f.yaml").write_text(FLOW.format(name="f"))
    (flows / "away.yaml").write_text(FLOW.format(name="away") + AWAY)
    wanted = {name for name in asked_for() if name.startswith("trustgraph_prompt_")}
    async with await connect(site.url) as broker:
        worker = await site.run("--flows", flows)
        await ask(broker, "f", *PROMPTS, "unknown")
        await ask(broker, "away", "good")
        known: dict[str, Labels] = {}
        try:
            async with asyncio.timeout(60):
                while not wanted <= known.keys():
                    known = shown(await worker.page("/metrics"))
                    await asyncio.sleep(0.1)
        except TimeoutError:
            pytest.fail(f"no such metric: {sorted(wanted - known.keys())}")
    return known


def asked_for() -> set[str]:
    """The metrics in all queries."""
    expressions = [rule["expr"] for file in ("rules.yaml", "alerts.yaml") for rule in rules(file)]
    expressions += [expression for _, expression in runbook_queries()]
    for file in DASHBOARDS:
        expressions += [target["expr"] for _, target in targets(file)]
        expressions += [selector for selector, _ in variables(file)]
    return set[str]().union(*(metrics(query(expression)) for expression in expressions))


def shown(text: str) -> dict[str, Labels]:
    """The labels of each metric on a page."""
    found: dict[str, Labels] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, TARGET) | sample.labels.keys()
        if (name := f"{family.name}_total") in NEVER:
            found[name] = TARGET | NEVER[name]
    return found


async def ask(broker: Broker, flow: str, *prompts: str) -> None:
    producer = await broker.producer(f"persistent://tg/flow/{flow}")
    for prompt in prompts:
        data = PromptRequest.asking(prompt, {"text": "chalk"}).encode()
        await producer.send(data, properties={"id": f"{prompt}-{time.monotonic_ns()}"})
    await producer.close()
