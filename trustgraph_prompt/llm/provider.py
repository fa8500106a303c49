"""Who answers: the one primitive every provider has."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from trustgraph_prompt.llm.records import Call, Delta


class Provider(Protocol):
    """Answers calls. Neither judges the answer nor retries; any number of calls at a time."""

    def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        """The answer as it comes. Raises a `ProviderError`, before the first delta or between two.

        Leaving it (`aclosing`) ends the call on the wire.
        """

    async def close(self) -> None:
        """Give back connections. Idempotent."""
