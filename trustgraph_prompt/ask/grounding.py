"""Validation of an answer against its question: the terms, and the examples in the prompt."""

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
    contract = prompt.contract.with_terms(question.terms, echoes_of(prompt))
    return prompt if contract is prompt.contract else prompt.with_contract(contract)


def echoes_of(prompt: PromptDefinition) -> Echoes | None:
    """The examples in the texts of a prompt, which are rejected as answers; None without any."""
    contract = prompt.contract
    is_judged = contract.format == "jsonl" or contract.sources is not None
    if prompt.keeps_echoes or not is_judged:
        return None
    return _echoes(prompt.template.source, prompt.system.source, contract)


def examples_like_answers(prompt: PromptDefinition) -> list[Any]:
    """The examples in the texts of a prompt that its contract would accept as answers."""
    if prompt.contract.format != "jsonl" or prompt.keeps_echoes:
        return []
    written = _examples(prompt.template.source, prompt.system.source)
    return list(filter(prompt.contract.accepts, written))


@lru_cache(_MOST_PROMPTS)
def _echoes(template: str, system: str, contract: Contract) -> Echoes | None:
    objects = _examples(template, system)
    return Echoes(objects, contract.schema, contract.conform) if objects else None


def _examples(*texts: str) -> list[Any]:
    found = [read(text, "jsonl") for text in texts]
    return [value for outcome in found for value in (*outcome.value, *outcome.retracted)]
