"""How long answers will be: as long as those that are known, or as the examples of the prompt suggest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

from trustgraph_prompt.estimation.calls import Calls
from trustgraph_prompt.llm.token_estimates import estimate
from trustgraph_prompt.prompts.example import Example

TOKENS_PER_TERM_TOKEN = 2.0
"""Tokens of a long answer for each token of the terms, where no example has both."""


class Sample(NamedTuple):
    """What one question took: the tokens of its first answer, and the calls after it, None if unknown."""

    tokens_out: int
    later: Calls | None = None

    @classmethod
    def of(cls, calls: Sequence[Mapping[str, Any]]) -> Self | None:
        """Return what the calls of an answer record took; None if the provider did not report it."""
        used = [
            Calls(1, call["usage"]["prompt_tokens"] or 0, call["usage"]["completion_tokens"] or 0)
            for call in calls
        ]
        return cls(used[0].tokens_out, sum(used[1:], Calls())) if used and used[0].tokens_in else None


class AnswerLengths:
    """What is known of the answers of prompts, by id: `samples` of them, and the examples in prompt files."""

    def __init__(self, samples: Mapping[str, Sequence[Sample]], examples: Iterable[Example] = ()) -> None:
        self.samples = samples
        self._examples: dict[str, list[Example]] = {}
        for example in examples:
            self._examples.setdefault(example.prompt, []).append(example)

    def basis(self, prompt: str) -> str:
        """What the length of the answers to a prompt is estimated from."""
        if samples := self.samples.get(prompt):
            return f"{len(samples)} kept answer{'s' if len(samples) > 1 else ''}"
        return "the prompt's examples" if prompt in self._examples else "the length of the texts"

    def of(self, prompt: str, term_tokens: int) -> tuple[int, int]:
        """The tokens of a short answer, and those of a long one about terms of so many tokens.

        By the examples, a long answer has as many tokens for each token of the terms as the example with the
        most.
        """
        if samples := self.samples.get(prompt):
            known = [sample.tokens_out for sample in samples]
            return min(known), max(known)
        examples = self._examples.get(prompt, [])
        lengths = [estimate(example.answer) for example in examples]
        ratios = [
            length / terms
            for example, length in zip(examples, lengths, strict=True)
            if (terms := sum(estimate(str(value)) for value in (example.terms or {}).values()))
        ]
        long = term_tokens * max(ratios, default=TOKENS_PER_TERM_TOKEN)
        return min(lengths, default=1), max(*lengths, 1, round(long))
