"""What every request needs at hand."""

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
    """The collaborators of the loops of one process; `prompts` has the current snapshot of each workspace.

    `in_work` is of one flow, None where nothing is delivered again after a crash. `failing` says of a flow
    why its provider failed, until it answers again.
    """

    prompts: Mapping[str, PromptSet]
    provider: Callable[[Flow], Provider]
    producers: ProducerPool
    metrics: Metrics
    journal: Journal = field(default_factory=Journal)
    cache: Cache | None = None
    in_work: CrashRecord | None = None
    failing: dict[str, str] = field(default_factory=dict)
    circuits: Circuits = field(default_factory=Circuits)
    tracing: Tracing = field(default_factory=Tracing)
    watch: Watch = field(default_factory=lambda: Watch(Health(), Metrics()))
    clock: Callable[[], float] = time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
