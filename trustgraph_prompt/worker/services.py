"""What the flows of a process share, and what goes along with one request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trustgraph_prompt.ask import Cache
from trustgraph_prompt.broker.producer_pool import ProducerPool
from trustgraph_prompt.llm import Provider
from trustgraph_prompt.prompts import PromptSet
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.worker.around.circuits import Circuits
from trustgraph_prompt.worker.around.journal import Entry, Journal
from trustgraph_prompt.worker.canary.record import Canaries
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.messages.request import Request
from trustgraph_prompt.worker.telemetry.activity import Activity
from trustgraph_prompt.worker.telemetry.health import Health
from trustgraph_prompt.worker.telemetry.metrics import Metrics
from trustgraph_prompt.worker.telemetry.tracing_interface import Tracing
from trustgraph_prompt.worker.telemetry.watch import Watch
from trustgraph_prompt.worker.timeouts import Timeouts


@dataclass(frozen=True, slots=True)
class Services:
    """What the flows of one process share.

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
    timeouts: Timeouts = Timeouts()


@dataclass(slots=True, eq=False)
class RequestContext:
    """One request on its way, with all that it needs.

    `provider` is the flow's, wrapped in limits, circuit breaker, metrics and traces. `entry` is the request's
    in the journal, and the home of its outcome.
    """

    request: Request
    flow: Flow
    provider: Provider
    services: Services
    entry: Entry

    @property
    def outcome(self) -> Outcome:
        """The outcome in the journal, once the model was asked."""
        assert self.entry.result is not None
        return self.entry.result.outcome
