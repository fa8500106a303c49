"""Who answers: the one primitive every provider has."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from trustgraph_prompt.llm.complete import Completer
from trustgraph_prompt.llm.records import Call, Delta, Identity


class Provider(Completer, Protocol):
    """Answers calls. Its `stream` neither judges nor retries; any number of calls at a time.

    Whoever makes one inherits from `Completer`, and has `complete` of it.
    """

    @property
    def identity(self) -> Identity:
        """Who answers, for caches and traces."""

    @property
    def prefill(self) -> bool:
        """Whether an answer goes on from a last message of the assistant's."""


class ProviderWrapper(Completer):
    """A provider around a provider; what it does not say itself is what the one within says."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider

    @property
    def identity(self) -> Identity:
        return self.provider.identity

    @property
    def prefill(self) -> bool:
        return self.provider.prefill

    def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        """The answer of the provider within."""
        return self.provider.stream(call)

    async def close(self) -> None:
        """Close the provider within."""
        await self.provider.close()
