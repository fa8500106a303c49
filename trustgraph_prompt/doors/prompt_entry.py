"""Converts a prompt in sections to an entry of the config topic, from which workers serve it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import MISSING, fields
from typing import Any

from trustgraph_prompt.doors.declared_output import ResponseFormatSection, StructuredOutputConfig
from trustgraph_prompt.doors.sections import MarkdownSection, Placed, written
from trustgraph_prompt.errors import ConfigError, PromptValidationError
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.prompts.jinja_dialect import literally


def entry_of(sections: Sequence[Placed], output: StructuredOutputConfig | None) -> dict[str, Any]:
    """The entry with the template of the sections and the format of the answer.

    Each `${name}` becomes the term `name`; default parameters and defaults of fields become terms. Raises
    `PromptValidationError` for `enabled`, and for fields with the same name but other types or defaults.
    """
    return {
        "dialect": "jinja",
        "prompt": "\n\n".join(_template(place) for place in sections),
        **_terms(sections),
        **(_answer(output) if output is not None else {"response-type": "text"}),
    }


def definition_of(id: str, entry: dict[str, Any], sections: Sequence[Placed]) -> PromptDefinition:
    """Compile the entry of these sections. Raises `PromptValidationError`."""
    try:
        definition = PromptDefinition.from_entry(id, entry)
    except ConfigError as error:
        raise PromptValidationError(str(error)) from error
    for place in _filled(sections):
        for name in sorted(place.section.names - definition.template.needs.named):
            raise _error(place, f"the template language reserves the name `{name}`")
    return definition


def _template(place: Placed) -> str:
    section = place.section
    if isinstance(section, ResponseFormatSection):
        return literally(place.text({}) or "")
    if section.enabled is not None:
        raise _error(place, "an entry cannot express when a section is `enabled`")
    return section.fill(place.depth, lambda name: f"{{{{ {name} }}}}", literally)


def _terms(sections: Sequence[Placed]) -> dict[str, Any]:
    terms: dict[str, str] = {}
    declared: dict[str, tuple[type[Any] | None, str | None]] = {}
    for place in _filled(sections):
        defaults = dict(_defaults(place.section))
        for name in sorted(place.section.names):
            declaration = place.section.params_type, defaults.get(name)
            if declared.setdefault(name, declaration) != declaration:
                raise _error(place, f"`{name}` is a field of two types, or has two defaults")
            if name in defaults:
                terms[name] = defaults[name]
    return {"terms": terms} if terms else {}


def _defaults(section: MarkdownSection[Any]) -> Iterator[tuple[str, str]]:
    """The default of each field, as text."""
    for field in fields(section.params_type) if section.params_type else ():
        if section.default_params is not None:
            yield field.name, written(getattr(section.default_params, field.name))
        elif field.default_factory is not MISSING:
            yield field.name, written(field.default_factory())
        elif field.default is not MISSING:
            yield field.name, written(field.default)


def _answer(output: StructuredOutputConfig) -> dict[str, Any]:
    contract = output.contract
    return {
        "response-type": contract.format,
        "schema": contract.schema,
        "many": contract.many,
        "extra": contract.extra,
        "coerce": contract.coerce,
        "fences": contract.fences,
        "answer-format": "none",  # a section contains the instructions, unless they are not wanted
    }


def _filled(sections: Sequence[Placed]) -> list[Placed]:
    return [place for place in sections if not isinstance(place.section, ResponseFormatSection)]


def _error(place: Placed, message: str) -> PromptValidationError:
    return PromptValidationError(message, dataclass_type=place.section.params_type, section=place.path)
