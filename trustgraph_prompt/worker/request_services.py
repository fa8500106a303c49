"""The shared services that the processing of a request needs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from time import time

from trustgraph_prompt.ask import Cache
from trustgraph_prompt.broker.producer_pool import ProducerPool
from trustgraph_prompt.llm import Provider
from trustgraph_prompt.prompts import PromptSet
from trustgraph_prompt.worker.circuits import Circuits
from trustgraph_prompt.worker.crash_record import CrashRecord
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.request.journal import Journal
from trustgraph_prompt.worker.telemetry.health import Health
from trustgraph_prompt.worker.telemetry.metrics import Metrics
from trustgraph_prompt.worker.telemetry.tracing import Tracing
from trustgraph_prompt.worker.telemetry.watch import Watch


@dataclass(frozen=True, slots=True)
class Services:
    """The services of the flows of one process; `prompts` has the current snapshot of each workspace.

    `provider(flow)` is that of a flow, already wrapped in limits, circuit breaker, metrics and traces.
    `crash_record` is that of one flow, None for non-persistent topics. `failing` has the last error of the
    flow's provider until it answers again.
    """

    prompts: Mapping[str, PromptSet]
    provider: Callable[[Flow], Provider]
    producers: ProducerPool
    metrics: Metrics
    journal: Journal = field(default_factory=Journal)
    cache: Cache | None = None
    crash_record: CrashRecord | None = None
    failing: dict[str, str] = field(default_factory=dict)
    circuits: Circuits = field(default_factory=Circuits)
    tracing: Tracing = field(default_factory=Tracing)
    watch: Watch = field(default_factory=lambda: Watch(Health(), Metrics()))
    clock: Callable[[], float] = time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
