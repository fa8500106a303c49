"""Checks an answer against its question: the terms its values come from, the examples it must not echo."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.contract.grounding import Echoes
from trustgraph_prompt.prompts import PromptDefinition, Question
from trustgraph_prompt.reader import read

_MOST_PROMPTS = 512  # whose examples are remembered


def judging_by_terms(prompt: PromptDefinition, question: Question) -> PromptDefinition:
    """The prompt with a contract that checks values against the terms, and rejects the prompt's examples."""
    contract, echoes = prompt.contract, None
    if not prompt.keeps_echoes and (contract.format == "jsonl" or contract.sources is not None):
        echoes = _echoes(prompt.template.source, prompt.system.source, contract)
    if question.terms is None or (not contract.asks_terms and echoes is None):
        return prompt  # nothing is searched in the terms
    return prompt.with_contract(contract.with_terms(question.terms, echoes))


def examples_like_answers(prompt: PromptDefinition) -> list[Any]:
    """The examples in the texts of a prompt that its contract would accept as answers."""
    if prompt.contract.format != "jsonl" or prompt.keeps_echoes:
        return []
    written = _examples(prompt.template.source, prompt.system.source)
    return list(filter(prompt.contract.accepts, written))


@lru_cache(_MOST_PROMPTS)
def _echoes(template: str, system: str, contract: Contract) -> Echoes | None:
    objects = _examples(template, system)
    if not objects:
        return None
    return Echoes(objects, contract.schema, lambda value: contract.without_quotes(contract.conform(value)))


def _examples(*texts: str) -> list[Any]:
    found = [read(text, "jsonl") for text in texts]
    return [value for outcome in found for value in (*outcome.value, *outcome.retracted)]
