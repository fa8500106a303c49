"""Objects in the terms of an ontology as facts, so that all kinds of them are compared by the same keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from trustgraph_prompt.errors import ConfigError, Reason
from trustgraph_prompt.evaluation.gold import GoldText
from trustgraph_prompt.graph.ontology_choice import OntologyIndex
from trustgraph_prompt.json_text.pointer import pointer
from trustgraph_prompt.outcome import Outcome
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.prompts.within_ontology import within

_ENDS: Final = {
    "entity": ("entity", "type", "entity_type"),
    "relationship": ("subject", "relation", "object"),
    "attribute": ("entity", "attribute", "value"),
}
"""The keys of subject, relation and object, by the type of an object; an entity is of its class."""


def as_fact(value: Any) -> Any:
    """The subject, the id of the relation and the object that an object says; another value as it is."""
    if not isinstance(value, Mapping) or (keys := _ENDS.get(str(value.get("type")))) is None:
        return value
    subject, relation, object = (value.get(key) for key in keys)
    return {"subject": subject, "relation": relation, "object": object}


def in_terms(text: GoldText, prompt: PromptDefinition, ontology: OntologyIndex) -> GoldText:
    """The text, whose objects are facts: a prompt for facts gives none that is not in these terms.

    What a model writes is read as its answer is; objects with a `type` are as they are published. Raises
    `ConfigError` for an object that can never come.
    """
    reading = within(ontology, prompt, str(text.terms.get("text", "")))[0].reading
    if reading is None:
        return text
    objects = []
    for index, value in enumerate(text.objects):
        is_read = not isinstance(value, dict) or "type" in value
        for issue in () if is_read else reading.check(value):
            wrong, path = f"{prompt.id} can never give this object: {issue}", pointer(("objects", str(index)))
            raise ConfigError(wrong, where=text.where, path=path, found=value)
        outcome = Outcome([value], Reason.SUCCESS, prompt.contract)
        objects += [value] if is_read else reading.read(outcome).value
    return replace(text, objects=tuple(map(as_fact, objects)), are_facts=True)
