"""The interface of providers, and the base class of wrappers around them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol

from trustgraph_prompt.llm.complete import Completer
from trustgraph_prompt.llm.records import Call, Delta, Identity


class Provider(Completer, Protocol):
    """Calls a model. `stream` neither validates nor retries; any number of calls at a time.

    Implementations inherit from `Completer`, which adds `complete`.
    """

    @property
    def identity(self) -> Identity:
        """Identifies the model, for caches and traces."""

    @property
    def prefill(self) -> bool:
        """Whether a last message of the assistant's is continued."""


@dataclass(eq=False, repr=False)
class ProviderWrapper(Completer):
    """Wraps a provider; delegates everything that a subclass does not override."""

    provider: Provider

    def __post_init__(self) -> None:
        self.thinking = getattr(self.provider, "thinking", None)

    @property
    def identity(self) -> Identity:
        return self.provider.identity

    @property
    def prefill(self) -> bool:
        return self.provider.prefill

    def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        """Stream the answer of the wrapped provider."""
        return self.provider.stream(call)

    async def close(self) -> None:
        """Close the wrapped provider."""
        await self.provider.close()
