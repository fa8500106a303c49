"""Checks an answer against its question: the terms its values come from, the examples it must not echo."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.contract.grounding import Echoes, NearestEchoes
from trustgraph_prompt.json_text.encoding import encode
from trustgraph_prompt.prompts import PromptDefinition, Question
from trustgraph_prompt.reader import read

_MOST_PROMPTS = 512  # whose examples are remembered


def judging_by_terms(prompt: PromptDefinition, question: Question) -> PromptDefinition:
    """The prompt with a contract that checks values against the terms, and rejects the prompt's examples."""
    contract, echoes = prompt.contract, None
    if not prompt.keeps_echoes and (contract.format == "jsonl" or contract.sources is not None):
        shown = [encode(turn.answer).decode() for turn in prompt.examples]
        echoes = _echoes((prompt.template.source, prompt.system.source, *shown), contract)
    nearest = _nearest_echoes(prompt, question)
    if question.terms is None or (not contract.asks_terms and echoes is None and nearest is None):
        return prompt  # nothing is searched in the terms
    return prompt.with_contract(contract.with_terms(question.terms, echoes, nearest))


def _nearest_echoes(prompt: PromptDefinition, question: Question) -> NearestEchoes | None:
    """The objects of the examples that were chosen for the question, if there are any to reject."""
    answers = [turn.answer for turn in question.examples if turn.id]
    if not answers or prompt.pool is None or prompt.keeps_echoes:
        return None
    contract = prompt.contract
    labels = {"is_label": prompt.reading.vocabulary.names.is_shown} if prompt.reading else {}
    echoes = Echoes(answers, contract.schema, partial(_said, contract), nearest=True, **labels)
    return NearestEchoes(echoes, prompt.pool.term)


def examples_like_answers(prompt: PromptDefinition) -> list[Any]:
    """The examples in the texts of a prompt that its contract would accept as answers."""
    if prompt.contract.format != "jsonl" or prompt.keeps_echoes:
        return []
    written = _examples(prompt.template.source, prompt.system.source)
    return list(filter(prompt.contract.accepts, written))


@lru_cache(_MOST_PROMPTS)
def _echoes(texts: tuple[str, ...], contract: Contract) -> Echoes | None:
    objects = _examples(*texts)
    return Echoes(objects, contract.schema, partial(_said, contract)) if objects else None


def _said(contract: Contract, value: Any) -> Any:
    """What an example says, as an answer is judged: converted, and without its quotes."""
    return contract.without_quotes(contract.conform(value))


def _examples(*texts: str) -> list[Any]:
    found = [read(text, "jsonl") for text in texts]
    return [value for outcome in found for value in (*outcome.value, *outcome.retracted)]
