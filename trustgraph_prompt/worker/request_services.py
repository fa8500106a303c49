"""The services that the processing of a request needs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields
from time import time

from trustgraph_prompt.ask import Cache
from trustgraph_prompt.broker.producer_pool import ProducerPool
from trustgraph_prompt.llm import Provider
from trustgraph_prompt.prompts import PromptSet
from trustgraph_prompt.worker.canary.record import Canaries
from trustgraph_prompt.worker.circuits import Circuits
from trustgraph_prompt.worker.crash_record import CrashRecord
from trustgraph_prompt.worker.request.journal import Journal
from trustgraph_prompt.worker.telemetry.activity import Activity
from trustgraph_prompt.worker.telemetry.health import Health
from trustgraph_prompt.worker.telemetry.metrics import Metrics
from trustgraph_prompt.worker.telemetry.tracing import Tracing
from trustgraph_prompt.worker.telemetry.watch import Watch


@dataclass(frozen=True, slots=True)
class SharedServices:
    """The services that the flows of one process share.

    `prompts` has the current snapshot of each workspace. `failing` has the last error of a flow's provider
    until it answers again, by the name of the flow.
    """

    prompts: Mapping[str, PromptSet]
    producers: ProducerPool
    metrics: Metrics
    activity: Activity = field(default_factory=Activity)
    journal: Journal = field(default_factory=Journal)
    canaries: Canaries = field(default_factory=Canaries)
    cache: Cache | None = None
    failing: dict[str, str] = field(default_factory=dict)
    circuits: Circuits = field(default_factory=Circuits)
    tracing: Tracing = field(default_factory=Tracing)
    watch: Watch = field(default_factory=lambda: Watch(Health(), Metrics()))
    clock: Callable[[], float] = time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def of_flow(self, provider: Provider, crash_record: CrashRecord | None = None) -> Services:
        """The services of a flow with this provider."""
        shared = {each.name: getattr(self, each.name) for each in fields(SharedServices)}
        return Services(**shared, provider=provider, crash_record=crash_record)


@dataclass(frozen=True, slots=True, kw_only=True)
class Services(SharedServices):
    """The services of one flow.

    `provider` is wrapped in limits, circuit breaker, metrics and traces. `crash_record` is None for
    non-persistent topics.
    """

    provider: Provider
    crash_record: CrashRecord | None = None
