"""A provider wrapper that keeps what calls cost within a limit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from math import inf

from trustgraph_prompt.cost import Price, Usage
from trustgraph_prompt.errors import ProviderError
from trustgraph_prompt.llm.delta_accumulator import DeltaAccumulator
from trustgraph_prompt.llm.provider import ProviderWrapper
from trustgraph_prompt.llm.records import Call, Delta
from trustgraph_prompt.llm.token_estimates import estimate, estimate_question

#: How many times its estimate a question is reserved at: no usual text has more than a token in two bytes.
CAUTION = 2

#: Tokens that are reserved for an answer without a limit, unless a longer one has come.
LONG_ANSWER = 4_000


class SpendingLimitReached(ProviderError):
    """No call was made: what it may cost exceeds what is left of the money."""

    category = "spending_limit"


@dataclass(eq=False, repr=False)
class SpendingLimit(ProviderWrapper):
    """Counts what calls cost, and makes none that may cost more than is left of `limit`.

    Money is in the currency of the price. A call reserves what it may cost until it has ended: twice the
    estimate of its question, and the token limit of its answer, or without one the longest answer so far, at
    least `LONG_ANSWER` tokens. A call for which too little is left waits until others have ended. If none is
    in progress, the limit is `reached`: this call and all later ones raise `SpendingLimitReached`.

    Tokens that the provider does not report are estimated. A call that fails before anything came is free.
    """

    price: Price
    limit: float = inf
    spent: float = field(default=0.0, init=False)
    reached: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._reserves: list[float] = []  # of the calls in progress
        self._longest_answer = LONG_ANSWER
        self._ended = asyncio.Event()

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        """Stream the answer, once its cost is reserved. Raises `SpendingLimitReached`."""
        reserve = self.price.of(self._at_most(call))
        await self._until_affordable(reserve)
        self._reserves.append(reserve)
        received = DeltaAccumulator()
        try:
            async with aclosing(self.provider.stream(call)) as deltas:
                async for delta in deltas:
                    received.take(delta)
                    yield delta
        finally:
            usage = received.usage_of(call)
            self.spent += self.price.of(usage)
            self._longest_answer = max(self._longest_answer, usage.completion_tokens or 0)
            self._reserves.remove(reserve)
            self._ended.set()

    async def _until_affordable(self, reserve: float) -> None:
        while self.reached or self.spent + sum(self._reserves) + reserve > self.limit:
            if self.reached or not self._reserves:
                self.reached = True
                left = max(0.0, self.limit - self.spent)
                raise SpendingLimitReached(f"{left:.4g} of {self.limit:g} are left, too little for a call")
            self._ended.clear()
            await self._ended.wait()

    def _at_most(self, call: Call) -> Usage:
        schema = call.response_schema and estimate(json.dumps(call.response_schema, default=str))
        answer = call.config.answer_limit
        return Usage(
            CAUTION * (estimate_question(call) + (schema or 0)),
            self._longest_answer if answer is None else answer,
        )
