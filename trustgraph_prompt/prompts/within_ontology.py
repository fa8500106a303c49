"""Lets a prompt keep to an ontology: what the question says of it, and how the answer is read."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.contract.roles import Role
from trustgraph_prompt.errors import ConfigError, RequestError
from trustgraph_prompt.graph.ontology import TERMS, Ontology
from trustgraph_prompt.graph.ontology_answer import AnswerReading, asks_for_facts
from trustgraph_prompt.graph.ontology_choice import OntologyIndex
from trustgraph_prompt.graph.ontology_config import ontology_of_terms
from trustgraph_prompt.graph.ontology_question import question_terms
from trustgraph_prompt.prompts.definition import PromptDefinition

ATTEMPTS: Final = 2
"""At least, so that an object that violates an ontology is asked for again. TrustGraph's entries say one."""

log = logging.getLogger(__name__)

FACT: Final = Role("subject", "relation", "object")
"""What an object says that is read in the terms of an ontology."""

_VERSIONS = "has versions, which cannot keep to an ontology"


def why_not_within(prompt: PromptDefinition, ontology: Ontology) -> str | None:
    """Why a prompt cannot keep to an ontology; None if it can."""
    if prompt.contract.versions:
        return f"prompt `{prompt.id}` {_VERSIONS}"
    if TERMS.isdisjoint(prompt.named):
        terms = ", ".join(sorted(TERMS))
        return f"prompt `{prompt.id}` uses nothing of the ontology: it names none of the terms {terms}"
    if asks_for_facts(prompt.contract) and not (ontology.object_properties or ontology.datatype_properties):
        return f"prompt `{prompt.id}` asks for relations and attributes, and the ontology has none"
    return None


def ontology_in(terms: Mapping[str, object], contract: Contract, prompt: str) -> OntologyIndex | None:
    """The ontology that the terms of a request have, for a prompt that is read in its terms.

    None without any, or if it cannot be read: then the objects stay as the model writes them.
    """
    if TERMS.isdisjoint(terms) or not asks_for_facts(contract):
        return None
    try:
        ontology = ontology_of_terms(terms)
    except ConfigError as error:
        log.warning("prompt %s: its answer is not read in the terms of an ontology: %s", prompt, error)
        return None
    return OntologyIndex(ontology) if ontology else None


def within(
    ontology: OntologyIndex, prompt: PromptDefinition, text: str
) -> tuple[PromptDefinition, Mapping[str, object] | None]:
    """The prompt that keeps to the part of an ontology that a text needs, and the terms of that part.

    A prompt whose objects are facts without classes is read in the terms of the ontology; the objects of
    another one are checked. None instead of terms if the text has no word of the ontology, and the answer may
    be empty: then the model need not be asked. Choosing from a large ontology takes milliseconds. Raises
    `RequestError`.
    """
    if prompt.contract.versions:
        raise RequestError(f"prompt {prompt.id} {_VERSIONS}")
    part = ontology.choose(text)
    may_be_empty = prompt.contract.format == "jsonl"
    if not asks_for_facts(prompt.contract):
        prompt = prompt.with_contract(prompt.contract.checked(part.check), attempts=ATTEMPTS)
        return prompt, part.terms if part or not may_be_empty else None
    vocabulary = ontology.vocabulary
    reading = AnswerReading(vocabulary, text, prompt.strict_ontology)
    is_whole = len(part) == len(ontology.ontology)
    contract = replace(
        prompt.contract.with_roles([FACT]).checked(reading.check),
        discriminator="type",  # of the objects as they are read
        offered={"relation": [*vocabulary.names.shown.values()]} if is_whole and part else {},
    )
    prompt = prompt.with_contract(contract, attempts=ATTEMPTS, reading=reading)
    return prompt, question_terms(vocabulary, part) if part else None
