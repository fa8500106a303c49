"""Prompts that are declared in the schema language (seed 5), as entries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trustgraph_prompt.errors import ConfigError, LanguageError
from trustgraph_prompt.language import File, to_json_schema
from trustgraph_prompt.language.nodes import ListOf, Position, PromptDef, Scalar
from trustgraph_prompt.prompts.definition import PromptDefinition

Types = Mapping[str, Mapping[str, Any]]


def entry_of(
    file: File, prompt: PromptDef, *, types: Types | None = None, defaults: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A prompt of a file as the entry that says the same.

    `defaults` are keys about answers, for prompts that do not say otherwise and expect more than a text.
    `types` are those beside the language's own, as in `parse`. Raises `LanguageError` for what is said twice.
    """
    declared: dict[str, Any] = {"prompt": prompt.text, **_answer(file, prompt, types)}
    if prompt.escalation is not None:
        declared["escalate"] = {"op": prompt.escalation.op, "value": prompt.escalation.value}
    settings = dict(prompt.settings)
    if prompt.model is not None:
        declared["model"] = {**settings.pop("model", {}), "name": prompt.model}
    for key in settings:
        if key in declared:
            at = prompt.places.get(f"/{key}", prompt.at)
            raise LanguageError(
                f"prompt {prompt.name} says `{key}` twice",
                where=f"line {at.line}, column {at.column}" if at else None,
            )
    by_default = {} if prompt.expecting is None else defaults or {}
    return {"dialect": "jinja", **by_default, **declared, **settings}


def definition_of(
    file: File,
    prompt: PromptDef,
    *,
    types: Types | None = None,
    defaults: Mapping[str, Any] | None = None,
    where: str | None = None,
) -> PromptDefinition:
    """A prompt of a file, compiled; `where` names the file in errors.

    Raises what `entry_of` and `PromptDefinition.from_entry` do, with the line that says it.
    """
    entry = entry_of(file, prompt, types=types, defaults=defaults)
    try:
        return PromptDefinition.from_entry(prompt.name, entry, where=f"prompt {prompt.name}")
    except ConfigError as error:
        at = _place(prompt, error.path)
        if at is not None:
            error.where = f"{where}:{at.line}:{at.column}" if where else f"line {at.line}, column {at.column}"
        raise


def _place(prompt: PromptDef, path: str) -> Position | None:
    """Where the prompt says what stands under a key of its entry, or nearest above it."""
    while path and path not in prompt.places:
        path = path.rpartition("/")[0]
    return prompt.places.get(path, prompt.at)


def _answer(file: File, prompt: PromptDef, types: Types | None) -> dict[str, Any]:
    """What the answer must be."""
    expecting = prompt.expecting
    if expecting is None:
        return {}
    is_list = isinstance(expecting, ListOf)
    one = expecting.item if isinstance(expecting, ListOf) else expecting
    schema = None if one == Scalar("any") else to_json_schema(file, one, types=types)
    if prompt.layout == "jsonl":
        return {"response-type": "jsonl", "schema": schema}
    return {"response-type": "json", "schema": schema, **({"many": True} if is_list else {})}
