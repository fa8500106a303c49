"""Lets a prompt keep to an ontology: what the question says of it, and how each object is checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trustgraph_prompt.errors import RequestError
from trustgraph_prompt.graph.ontology import TERMS
from trustgraph_prompt.graph.ontology_choice import OntologyIndex
from trustgraph_prompt.prompts.definition import PromptDefinition

ATTEMPTS: Final = 2
"""At least, so that an object that violates an ontology is asked for again. TrustGraph's entries say one."""

_VERSIONS = "has versions, which cannot keep to an ontology"


def why_not_within(prompt: PromptDefinition) -> str | None:
    """Why a prompt cannot keep to an ontology; None if it can."""
    if prompt.contract.versions:
        return f"prompt `{prompt.id}` {_VERSIONS}"
    if TERMS.isdisjoint(prompt.named):
        terms = ", ".join(sorted(TERMS))
        return f"prompt `{prompt.id}` uses nothing of the ontology: it names none of the terms {terms}"
    return None


def within(
    ontology: OntologyIndex, prompt: PromptDefinition, text: str
) -> tuple[PromptDefinition, Mapping[str, object] | None]:
    """The prompt that keeps to the part of an ontology that a text needs, and the terms of that part.

    None instead of terms if the text has no word of the ontology, and the answer may be empty: then the model
    need not be asked. Choosing from a large ontology takes milliseconds. Raises `RequestError`.
    """
    if prompt.contract.versions:
        raise RequestError(f"prompt {prompt.id} {_VERSIONS}")
    part = ontology.choose(text)
    prompt = prompt.with_contract(prompt.contract.checked(part.check), attempts=ATTEMPTS)
    return prompt, part.terms if part or prompt.contract.format != "jsonl" else None
