"""The interface of tracing, which does nothing unless it is set up."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from trustgraph_prompt.broker import Broker, Message
from trustgraph_prompt.llm import Provider
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.worker.flow import Flow

RecordResult = Callable[[Outcome | Exception], None]
"""Records the result of a span."""


class Tracing:
    """Does nothing; `spans.Spans` creates the spans."""

    def broker(self, broker: Broker) -> Broker:
        """Wrap a broker: its messages then carry the trace context."""
        return broker

    def provider(self, provider: Provider) -> Provider:
        """Wrap a provider: its calls then are spans."""
        return provider

    def request(self, flow: Flow, message: Message) -> AbstractContextManager[RecordResult]:
        """A span around the work on a message; yields what records the result."""
        return nullcontext(_ignore)

    def asking(self, prompt: PromptDefinition) -> AbstractContextManager[RecordResult]:
        """A span around all calls for one prompt; yields what records the outcome."""
        return nullcontext(_ignore)

    async def close(self) -> None:
        """Send what has not been sent, for a few seconds at most."""


def _ignore(result: Outcome | Exception) -> None:
    """Record nothing."""
