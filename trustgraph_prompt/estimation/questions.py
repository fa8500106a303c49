"""The questions of a run, as it would ask them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from trustgraph_prompt.ask.step import first_call
from trustgraph_prompt.estimation.tokenizer import Tokenizer
from trustgraph_prompt.llm import Call
from trustgraph_prompt.llm.token_estimates import estimate
from trustgraph_prompt.prompts import PromptDefinition

_AT_A_TIME = 8


@dataclass(frozen=True, slots=True)
class PlannedQuestion:
    """A question that would be asked: its first call, and about how many tokens its terms have."""

    prompt: PromptDefinition
    call: Call
    term_tokens: int

    @classmethod
    def of(cls, prompt: PromptDefinition, terms: Mapping[str, object]) -> Self:
        """Render the question. Raises `RequestError` for a missing term, and `RenderError`."""
        prompt.require(terms)
        call = first_call(prompt, prompt.question(terms))
        return cls(prompt, call, sum(estimate(str(value)) for value in terms.values()))


async def count_tokens(questions: Sequence[PlannedQuestion], tokenizer: Tokenizer) -> list[int]:
    """Return the tokens of each question. Raises `ProviderError` if the server that counts them fails."""
    slots = asyncio.Semaphore(_AT_A_TIME)

    async def count(question: PlannedQuestion) -> int:
        async with slots:
            return await tokenizer.count(question.call)

    return await asyncio.gather(*map(count, questions))
