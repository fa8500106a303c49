"""What a worker asks of another system that defines its flows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping
from typing import Protocol

from trustgraph_prompt.broker import Broker
from trustgraph_prompt.llm import Provider
from trustgraph_prompt.worker.config.recent_changes import RecentChanges
from trustgraph_prompt.worker.config.source import ConfigSource, Prompts
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.telemetry.call_metrics import Ended
from trustgraph_prompt.worker.telemetry.watch import Watch


class FlowOrigin(Protocol):
    """Another system, in whose place the worker stands. `trustgraph.TrustGraph` is one, in a room above."""

    def source(
        self,
        broker: Broker,
        prompts: Prompts,
        serve: Callable[[Iterable[Flow]], None],
        notes: MutableMapping[str, str],
        watch: Watch,
        changes: RecentChanges,
    ) -> ConfigSource:
        """What keeps prompts up to date, and calls `serve` with all flows whenever one has changed.

        `notes` gets the reasons why something cannot be fetched.
        """

    def broker(self, broker: Broker) -> Broker:
        """Wrap the broker of the process, around traces."""

    def calls(self, flow: Flow, provider: Provider) -> Ended:
        """What is to hear of the end of each call of a flow that starts."""

    def forget(self, flow: Flow) -> None:
        """Forget a flow that has ended."""
