"""A prompt that keeps to an ontology: its terms, its check, and the texts that need no answer."""

from __future__ import annotations

from typing import Any

import pytest

from trustgraph_prompt.errors import RequestError
from trustgraph_prompt.graph.ontology_choice import MOST_CHOSEN, OntologyIndex
from trustgraph_prompt.graph.ontology_config import make_ontology
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.prompts.within_ontology import ATTEMPTS, why_not_within, within

CLASSES: dict[str, Any] = {"Pump": {}, "Room": {}}
MANY: dict[str, Any] = {f"Filler{n}": {} for n in range(MOST_CHOSEN)}


def index(classes: dict[str, Any]) -> OntologyIndex:
    return OntologyIndex(make_ontology("b", {"classes": classes}, "b"))


def prompt(**entry: Any) -> PromptDefinition:
    found = {"dialect": "jinja", "prompt": "{{ classes }} {{ text }}", "response-type": "jsonl"} | entry
    return PromptDefinition.from_entry("p", found)


def test_terms_are_those_of_a_small_ontology_whatever_the_text_says() -> None:
    _, terms = within(index(CLASSES), prompt(), "Nothing of it.")
    assert terms is not None
    assert [*terms["classes"]] == ["Pump", "Room"]  # type: ignore[misc]


def test_answer_is_checked_and_asked_for_again() -> None:
    original = prompt()
    kept, _ = within(index(CLASSES), original, "A pump.")
    stray = {"type": "entity", "entity": "x", "entity_type": "Ghost"}
    assert original.contract.accepts(stray)
    assert not kept.contract.accepts(stray)
    assert kept.contract.accepts(stray | {"entity_type": "Pump"})
    assert (kept.attempts, kept.version) == (ATTEMPTS, original.version)
    assert within(index(CLASSES), prompt(attempts=5), "A pump.")[0].attempts == 5


@pytest.mark.parametrize(("kind", "is_asked"), [("jsonl", False), ("text", True)])
def test_text_without_a_word_of_a_large_ontology_needs_no_answer_if_that_may_be_empty(
    kind: str, is_asked: bool
) -> None:
    _, terms = within(index(CLASSES | MANY), prompt(**{"response-type": kind}), "Nothing of it.")
    assert (terms is not None) is is_asked


def test_prompt_with_versions_is_refused() -> None:
    versions = {"1.0": {"type": "object"}}
    with pytest.raises(RequestError, match="prompt p has versions, which cannot keep to an ontology"):
        within(index(CLASSES), prompt(versions=versions), "A pump.")


def test_prompt_that_asks_for_facts_needs_relations_or_attributes() -> None:
    keys = {"properties": {key: {"type": "string"} for key in ("subject", "relation", "object")}}
    facts = prompt(**{"object-schema": keys})
    why = why_not_within(facts, index(CLASSES).ontology)
    assert why == "prompt `p` asks for relations and attributes, and the ontology has none"
    assert why_not_within(prompt(), index(CLASSES).ontology) is None
