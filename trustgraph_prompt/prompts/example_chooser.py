"""Chooses the examples that a question shows: the prompt's own, and the nearest texts of its pool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from trustgraph_prompt.prompts.nearest_texts import CHOOSING, NO_CHOICE, READING, Choice, NearestTexts
from trustgraph_prompt.prompts.pool import PoolText, passage_term
from trustgraph_prompt.prompts.shown_examples import Turn, example_of

if TYPE_CHECKING:
    from trustgraph_prompt.prompts.definition import PromptDefinition


@dataclass(frozen=True, eq=False)
class ExampleChooser:
    """Chooses examples for the questions of one prompt, and leaves out those that have the same passage."""

    prompt: PromptDefinition

    def examples(self, terms: Mapping[str, object]) -> tuple[Turn, ...]:
        """The examples to show before a question with these terms, in order."""
        return (*self._own(terms), *self.nearest(terms))

    def nearest(self, terms: Mapping[str, object]) -> tuple[Turn, ...]:
        """Those of the pool, the nearest last."""
        if self.prompt.pool is None or self.prompt.pool_clause is None:
            return ()
        rows, texts = self._chosen(terms).rows, self.prompt.pool.texts
        in_order = rows if self.prompt.pool_clause.by == "first" else reversed(rows)
        return tuple(self._turn(texts[row]) for row in in_order)

    def left_out(self, terms: Mapping[str, object]) -> int:
        """How many examples are not shown because they have the passage of the terms, or it has them."""
        return len(self.prompt.shown) - len(self._own(terms)) + self._chosen(terms).left_out

    def effort(self, terms: Mapping[str, object]) -> int:
        """About how many steps it takes to choose from the pool, as `compute_thread.beside` counts them."""
        passage = terms.get(self.prompt.pool.term) if self.prompt.pool else None
        return CHOOSING + READING * len(passage) if isinstance(passage, str) else 0

    def _chosen(self, terms: Mapping[str, object]) -> Choice:
        pool, clause = self.prompt.pool, self.prompt.pool_clause
        return pool.choose(terms, clause) if pool and clause else NO_CHOICE

    def _own(self, terms: Mapping[str, object]) -> tuple[Turn, ...]:
        examples = self.prompt.examples
        passage = terms.get(self._own_term) if examples else None
        if not isinstance(passage, str):
            return examples
        rows, left_out = self._own_passages.choose(passage, len(examples), "first")
        return tuple(examples[row] for row in rows) if left_out else examples

    @cached_property
    def _own_term(self) -> str:
        return passage_term(self.prompt.shown[0]["terms"])

    @cached_property
    def _own_passages(self) -> NearestTexts:
        terms = (example["terms"] for example in self.prompt.shown)
        return NearestTexts(str(given.get(self._own_term, "")) for given in terms)

    def _turn(self, text: PoolText) -> Turn:
        return replace(self.prompt.turn(example_of(text, self.prompt.contract)), id=text.id)
