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
from trustgraph_prompt.worker.telemetry.metrics import SECONDS_TO_REMEMBER, Metrics

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


def test_metrics_of_prompts_that_are_gone_stayed_for_ever() -> None:
    observed = Observed()
    observed.metrics.configured("w", flow_set("stays", "goes"))
    observed.ask("stays", "goes")
    empty = len(Observed().metrics.text())
    both = len(observed.metrics.text()) - empty
    observed.metrics.configured("w", flow_set("stays"))
    observed.now = SECONDS_TO_REMEMBER - 1
    assert observed.shown("goes")
    observed.now = SECONDS_TO_REMEMBER
    assert not observed.shown("goes")
    assert observed.shown("stays")
    assert len(observed.metrics.text()) - empty < 0.7 * both


def test_a_prompt_that_is_forgotten_can_be_asked_again() -> None:
    observed = Observed()
    observed.metrics.configured("w", flow_set("p"))
    observed.ask("p")
    observed.metrics.configured("w", flow_set())
    observed.now += SECONDS_TO_REMEMBER
    assert not observed.shown("p")
    observed.metrics.configured("w", flow_set("p"))
    observed.ask("p")
    observed.now += SECONDS_TO_REMEMBER
    assert observed.shown("p")


def test_a_prompt_that_came_back_is_not_forgotten() -> None:
    observed = Observed()
    observed.metrics.configured("w", flow_set("p"))
    observed.ask("p")
    observed.metrics.configured("w", flow_set())
    observed.now += 10
    observed.metrics.configured("w", flow_set("p"))
    observed.now += SECONDS_TO_REMEMBER
    assert observed.shown("p")


def test_a_prompt_stays_while_any_workspace_has_it() -> None:
    observed = Observed()
    for workspace in ("w", "v"):
        observed.metrics.configured(workspace, flow_set("p"))
    observed.ask("p")
    observed.metrics.configured("w", flow_set())
    observed.now += SECONDS_TO_REMEMBER
    assert observed.shown("p")
    observed.metrics.forgotten("v")
    observed.now += SECONDS_TO_REMEMBER
    assert not observed.shown("p")


class Slow:
    """A collector that takes until it is told to end."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.times = 0

    def collect(self) -> Iterable[Metric]:
        self.times += 1
        yield GaugeMetricFamily("in_time", "", value=self.may_end.wait(60))


async def test_rendering_metrics_held_up_the_loop() -> None:
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


async def test_metrics_waited_for_threads_that_wait_for_something_else() -> None:
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


async def test_what_is_shown_of_the_worker_is_read_in_its_loop() -> None:
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
def test_the_process_shows_its_start_so_that_restarts_can_be_counted() -> None:
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


def test_objects_are_counted_for_the_last_versions_of_a_prompt() -> None:
    observed = Observed()
    for version in ("1", "2", "3", "4"):
        observed.metrics.asked("f", "p", version * 20, read('{"a": 1}\n{"a": 2}', "jsonl"), 1.0)

    text = observed.metrics.text().decode()

    shown = [n for n in "1234" if f'version="{n * 12}"' in text]
    assert shown == ["2", "3", "4"]
    assert f'objects_judged_total{{flow="f",prompt="p",verdict="accepted",version="{"4" * 12}"}} 2.0' in text
