"""Chooses the examples that a question shows: the prompt's own, and the nearest texts of its pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trustgraph_prompt.prompts.nearest_texts import CHOOSING, READING, By, NearestTexts
from trustgraph_prompt.prompts.shown_examples import Turn


@dataclass(frozen=True, eq=False)
class Examples:
    """Examples of which a question shows at most `count`. `term` is the term in which its passage stands.

    `index` has their passages, at the positions of `turns`.
    """

    term: str
    turns: Sequence[Turn]
    index: NearestTexts
    count: int
    by: By = "first"

    def choose(self, terms: Mapping[str, object]) -> tuple[list[Turn], int]:
        """Choose those to show, the nearest last, and count those that are left out for their passage."""
        if not self.turns:
            return [], 0
        passage = terms.get(self.term)
        rows, left_out = self.index.choose(passage if isinstance(passage, str) else "", self.count, self.by)
        return [self.turns[row] for row in (rows if self.by == "first" else reversed(rows))], left_out


NO_EXAMPLES: Final = Examples("", (), NearestTexts(()), 0)


@dataclass(frozen=True, slots=True)
class ExampleChooser:
    """Chooses examples for the questions of one prompt: of its `own`, and of its `pool`."""

    own: Examples = NO_EXAMPLES
    pool: Examples = NO_EXAMPLES

    def examples(self, terms: Mapping[str, object]) -> tuple[Turn, ...]:
        """The examples to show before a question with these terms, in order."""
        return (*self.own.choose(terms)[0], *self.nearest(terms))

    def nearest(self, terms: Mapping[str, object]) -> tuple[Turn, ...]:
        """Those of the pool."""
        return tuple(self.pool.choose(terms)[0])

    def left_out(self, terms: Mapping[str, object]) -> int:
        """How many examples are not shown because they have the passage of the terms, or it has them."""
        return self.own.choose(terms)[1] + self.pool.choose(terms)[1]

    def effort(self, terms: Mapping[str, object]) -> int:
        """About how many steps it takes to choose, as `compute_thread.beside` counts them."""
        passages = [terms.get(each.term) for each in (self.own, self.pool) if each.turns]
        return sum(CHOOSING + READING * len(passage) for passage in passages if isinstance(passage, str))


def passage_term(terms: Mapping[str, Any]) -> str:
    """The term in which a passage stands: `text`, or else the first one that is a text."""
    named = [name for name, value in terms.items() if isinstance(value, str)]
    return "text" if "text" in named else next(iter(named), "text")
