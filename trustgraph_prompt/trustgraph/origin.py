"""TrustGraph as the origin of flows: a worker in the place of its services."""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping, Sequence

from trustgraph_prompt.broker import Broker
from trustgraph_prompt.trustgraph.config_follower import ConfigFollower
from trustgraph_prompt.trustgraph.flow_definitions import Processor
from trustgraph_prompt.trustgraph.tg_metrics import TrustGraphMetrics
from trustgraph_prompt.worker.config.recent_changes import RecentChanges
from trustgraph_prompt.worker.config.source import Prompts
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.telemetry.metrics import Metrics
from trustgraph_prompt.worker.telemetry.watch import Watch


class TrustGraphOrigin:
    """A `FlowOrigin`: the flows and prompts of the config service, for the `processors` that are replaced.

    `metrics` are those of the process, which show `tg_*` beside their own.
    """

    def __init__(self, processors: Sequence[Processor], metrics: Metrics) -> None:
        self._processors = processors
        self._metrics = metrics
        theirs = TrustGraphMetrics({each.id: each.facts for each in processors}, metrics.registry)
        self.broker, self.calls, self.forget = theirs.broker, theirs.calls, theirs.forget
        self._fetched = theirs.configured

    def source(
        self,
        broker: Broker,
        prompts: Prompts,
        serve: Callable[[Iterable[Flow]], None],
        notes: MutableMapping[str, str],
        watch: Watch,
        changes: RecentChanges,
    ) -> ConfigFollower:
        """The config service; the metrics show the version that was fetched last."""
        return ConfigFollower(
            broker, prompts, self._processors, serve, self._metrics, notes, watch, changes, self._fetched
        )
