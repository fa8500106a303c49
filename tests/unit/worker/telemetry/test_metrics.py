"""What a worker shows of its prompts: no longer than there is something to see, and without a pause."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from prometheus_client.core import GaugeMetricFamily, Metric

from trustgraph_prompt.prompts import PromptSet
from trustgraph_prompt.reader import read
from trustgraph_prompt.worker.telemetry.health import Health
from trustgraph_prompt.worker.telemetry.metrics import Metrics
from trustgraph_prompt.worker.telemetry.series import MAX_SERIES, SECONDS_TO_KEEP

ANSWERED = read("[1]", "json")


def flow_set(*prompts: str) -> PromptSet:
    return PromptSet.build({f"template.{prompt}": json.dumps({"prompt": "Say it."}) for prompt in prompts})


class Observed:
    """Metrics, and a clock that stands."""

    def __init__(self) -> None:
        self.now = 0.0
        self.metrics = Metrics(lambda: self.now)

    def ask(self, *prompts: str, version: str = "1") -> None:
        for prompt in prompts:
            self.metrics.asked("f", prompt, version, ANSWERED, 1.0)

    def shown(self, prompt: str) -> bool:
        return f'prompt="{prompt}"' in self.metrics.text().decode()


def test_metrics_of_deleted_prompts_end() -> None:
    observed = Observed()
    observed.metrics.configured("w", flow_set("stays", "goes"))
    observed.ask("stays", "goes")
    empty = len(Observed().metrics.text())
    both = len(observed.metrics.text()) - empty
    observed.metrics.configured("w", flow_set("stays"))
    observed.now = SECONDS_TO_KEEP - 1
    assert observed.shown("goes")
    observed.now = SECONDS_TO_KEEP
    assert not observed.shown("goes")
    assert observed.shown("stays")
    assert len(observed.metrics.text()) - empty < 0.7 * both


def test_forgotten_prompt_can_be_counted_again() -> None:
    observed = Observed()
    observed.metrics.configured("w", flow_set("p"))
    observed.ask("p")
    observed.metrics.configured("w", flow_set())
    observed.now += SECONDS_TO_KEEP
    assert not observed.shown("p")
    observed.metrics.configured("w", flow_set("p"))
    observed.ask("p")
    observed.now += SECONDS_TO_KEEP
    assert observed.shown("p")


def test_prompt_that_came_back_is_not_forgotten() -> None:
    observed = Observed()
    observed.metrics.configured("w", flow_set("p"))
    observed.ask("p")
    observed.metrics.configured("w", flow_set())
    observed.now += 10
    observed.metrics.configured("w", flow_set("p"))
    observed.now += SECONDS_TO_KEEP
    assert observed.shown("p")


def test_prompt_is_kept_while_any_workspace_has_it() -> None:
    observed = Observed()
    for workspace in ("w", "v"):
        observed.metrics.configured(workspace, flow_set("p"))
    observed.ask("p")
    observed.metrics.configured("w", flow_set())
    observed.now += SECONDS_TO_KEEP
    assert observed.shown("p")
    observed.metrics.forgotten("v")
    observed.now += SECONDS_TO_KEEP
    assert not observed.shown("p")


class Slow:
    """A collector that takes until it is told to end."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.times = 0

    def collect(self) -> Iterable[Metric]:
        self.times += 1
        yield GaugeMetricFamily("in_time", "", value=self.may_end.wait(60))


async def test_rendering_metrics_does_not_hold_up_the_loop() -> None:
    metrics, slow = Metrics(), Slow()
    slow.may_end.set()
    metrics.registry.register(slow)
    slow.may_end.clear()
    slow.times = 0
    several = [asyncio.create_task(metrics.exposition()) for _ in range(3)]
    await asyncio.sleep(0)
    slow.may_end.set()
    for text in await asyncio.gather(*several):
        assert b"in_time 1.0" in text
    assert slow.times == 1
    await metrics.exposition()
    assert slow.times == 2


async def test_rendering_metrics_does_not_wait_for_busy_threads() -> None:
    may_end = threading.Event()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    waiting = asyncio.create_task(asyncio.to_thread(may_end.wait, 60))
    await asyncio.sleep(0)
    try:
        assert await asyncio.wait_for(Metrics().exposition(), 30)
        assert not waiting.done()
    finally:
        may_end.set()
    await waiting


async def test_health_is_read_in_the_event_loop() -> None:
    metrics, threads = Metrics(), set()

    class Seen(Health):
        @property
        def ready(self) -> bool:
            threads.add(threading.get_ident())
            return True

    class Publishing:
        last_published = waiting = 0.0

    metrics.watch(Seen(), Publishing())  # type: ignore[arg-type]
    assert b"trustgraph_prompt_ready 1.0" in await metrics.exposition()
    assert threads == {threading.get_ident()}


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the process is shown on Linux only")
def test_process_exports_its_start_time() -> None:
    process = "trustgraph_prompt_process_"
    shown = {
        sample.name: sample.value
        for family in Metrics().registry.collect()
        for sample in family.samples
        if sample.name.startswith(process)
    }
    assert shown[f"{process}start_time_seconds"] <= time.time()
    assert shown[f"{process}resident_memory_bytes"] > 1_000_000
    assert shown.keys() >= {f"{process}{name}" for name in ("cpu_seconds_total", "open_fds", "max_fds")}


TWO_OBJECTS = read('{"a": 1}\n{"a": 2}', "jsonl")


def shown_versions(observed: Observed) -> list[str]:
    text = observed.metrics.text().decode()
    return [n for n in "12345" if f'version="{n * 12}"' in text]


def test_old_version_stays_until_its_last_count_was_read() -> None:
    observed = Observed()
    for version in ("1", "2", "3", "4"):
        observed.metrics.asked("f", "p", version * 20, TWO_OBJECTS, 1.0)

    observed.now = SECONDS_TO_KEEP - 1
    assert shown_versions(observed) == ["1", "2", "3", "4"]
    observed.now = SECONDS_TO_KEEP
    assert shown_versions(observed) == ["2", "3", "4"]
    text = observed.metrics.text().decode()
    assert f'objects_judged_total{{flow="f",prompt="p",verdict="accepted",version="{"4" * 12}"}} 2.0' in text


def test_old_version_that_is_served_again_goes_on() -> None:
    observed = Observed()
    for version in ("1", "2", "3", "4", "1"):
        observed.metrics.asked("f", "p", version * 20, TWO_OBJECTS, 1.0)
        observed.now += 1

    observed.now += SECONDS_TO_KEEP

    assert shown_versions(observed) == ["1", "2", "3", "4"]
    text = observed.metrics.text().decode()
    assert f'verdict="accepted",version="{"1" * 12}"}} 4.0' in text


def test_ended_flow_stays_until_its_last_counts_were_read() -> None:
    observed = Observed()
    observed.ask("p")
    observed.metrics.buried("f", "llm-error")
    observed.metrics.received("f")
    with observed.metrics.in_work("f"):
        pass
    observed.metrics.flow_ended("f")

    observed.now = SECONDS_TO_KEEP - 1
    assert 'dead_letters_total{error="llm-error",flow="f"} 1.0' in observed.metrics.text().decode()
    observed.now = SECONDS_TO_KEEP
    assert 'flow="f"' not in observed.metrics.text().decode()


def test_ended_flow_that_starts_again_goes_on() -> None:
    observed = Observed()
    observed.metrics.buried("f", "llm-error")
    observed.metrics.flow_ended("f")
    observed.metrics.flow_started("f")
    observed.now = SECONDS_TO_KEEP

    observed.metrics.text()
    observed.metrics.buried("f", "llm-error")

    assert 'dead_letters_total{error="llm-error",flow="f"} 2.0' in observed.metrics.text().decode()


def test_page_does_not_grow_with_prompts_that_are_asked_once_and_deleted() -> None:
    observed, sizes = Observed(), []
    for batch in range(2):
        names = [f"{batch}-{n:03}" for n in range(MAX_SERIES + 100)]
        observed.metrics.configured("w", flow_set(*names))
        observed.ask(*names)
        observed.metrics.configured("w", flow_set())
        sizes.append(len(observed.metrics.text()))

    assert abs(sizes[1] - sizes[0]) < 1000
    assert 'objects_total{flow="f",prompt="other"} 700.0' in observed.metrics.text().decode()


def test_request_counts_for_the_same_flow_in_all_metrics() -> None:
    metrics = Metrics()
    for n in range(MAX_SERIES):
        metrics.received(f"f{n}")
    metrics.put_off("f0")
    metrics.put_off("late")
    metrics.asked("late", "p", "1", ANSWERED, 1.0)
    with metrics.in_work("late"):
        assert 'requests_in_work{flow="other"} 1.0' in metrics.text().decode()

    text = metrics.text().decode()

    assert 'flow="late"' not in text
    assert 'requests_put_off_total{flow="f0"} 1.0' in text
    assert 'requests_put_off_total{flow="other"} 1.0' in text
    assert 'outcomes_total{flow="other",prompt="p",reason="success"} 1.0' in text
    assert 'requests_in_work{flow="other"} 0.0' in text
