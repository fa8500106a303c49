"""The questions about gold texts, which a run of `extraction` asks and whose answers it keeps."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trustgraph_prompt import wire
from trustgraph_prompt.evaluation.gold import GoldText, texts_for
from trustgraph_prompt.prompts import PromptDefinition


@dataclass(frozen=True, slots=True)
class GoldQuestion:
    """One prompt to ask about one gold text."""

    position: int
    id: str
    prompt: str
    text: GoldText = field(repr=False)

    @property
    def terms(self) -> Mapping[str, object]:
        """The terms of the text."""
        return self.text.terms

    @property
    def place(self) -> str:
        """File, line and prompt."""
        return f"{self.text.where}, {self.prompt}"


def questions(
    prompts: Sequence[PromptDefinition],
    texts: Sequence[GoldText],
    *,
    model: str,
    terms: Mapping[str, object],
) -> list[GoldQuestion]:
    """Return a question for each prompt and each text that is for it.

    An id covers the prompt's version, the model and the terms, so that an answer is kept for as long as none
    of them changes. What should come is not part of it.
    """
    found: list[GoldQuestion] = []
    for prompt in prompts:
        for text in texts_for(prompt, texts):
            decides = (prompt.id, prompt.version, model, {**terms, **text.terms})
            id = hashlib.sha256(wire.canonical(decides)).hexdigest()[:32]
            found.append(GoldQuestion(len(found), id, prompt.id, text))
    return found
