"""Pydantic models, and its dataclasses, as contracts: their own schema, their own validation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ErrorDetails
from pydantic_core.core_schema import DataclassSchema, DecimalSchema

from trustgraph_prompt.contract.explain import MAX_ISSUES
from trustgraph_prompt.contract.schema import of_sources
from trustgraph_prompt.contract.types.annotations import Described
from trustgraph_prompt.contract.types.build import Build, Refused
from trustgraph_prompt.contract.validator import surrogate_safe
from trustgraph_prompt.errors import ContractError, Issue, Reason, excerpt
from trustgraph_prompt.json_text.pointer import pointer
from trustgraph_prompt.language.scalars import DECIMAL

_VALIDATORS = ("value_error", "assertion_error")  # what pydantic calls a refusal by the author's own code


def described(cls: type) -> Described:
    """The schema of a model, with `$defs`, and what validates a value into an instance.

    Raises `ContractError` for a model that has no JSON Schema.
    """
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(cls)
        schema = adapter.json_schema(schema_generator=_Schema)
    except (PydanticUserError, PydanticUndefinedAnnotation) as error:
        raise ContractError(
            f"this model has no JSON Schema: {error.message}", where=cls.__qualname__
        ) from error
    definitions = schema.pop("$defs", {})
    root = definitions.get(schema.get("$ref", "").removeprefix("#/$defs/"), schema)
    for name, one in {**definitions, cls.__name__: root}.items():
        if one.get("title") == name:  # which nobody wrote
            del one["title"]
    return Described({**root, "$defs": definitions}, _build(adapter))


def _build(adapter: TypeAdapter[Any]) -> Build:
    def validated(value: Any) -> Any:
        return adapter.validate_json(json.dumps(value, ensure_ascii=False).encode())

    def build(value: Any) -> Any:
        try:
            return surrogate_safe(validated, value)
        except ValidationError as error:
            details = error.errors(include_url=False, include_input=False)
            raise Refused(_issue(detail, value) for detail in details[:MAX_ISSUES]) from error
        except RecursionError:
            raise
        except Exception as error:  # of the author's own validators
            raise Refused.by_code(error) from error

    return build


def _issue(detail: ErrorDetails, value: Any) -> Issue:
    own = detail["type"] in _VALIDATORS
    said = str(detail.get("ctx", {}).get("error", detail["msg"])) if own else detail["msg"]
    reason = Reason.INVARIANT_VIOLATION if own else Reason.SCHEMA_VALUE_ERROR
    return Issue(reason, excerpt(said, 200), pointer(_steps(detail["loc"], value)))


def _steps(location: tuple[int | str, ...], value: Any) -> list[int | str]:
    """Where in the value that is: pydantic's own words for branches and validators lead nowhere."""
    steps = []
    for step in location:
        try:
            value = value[step]
        except (LookupError, TypeError):
            continue
        steps.append(step)
    return steps


class _Schema(GenerateJsonSchema):
    """Pydantic's schema without titles made up from names, in the author's order, a dataclass as ours."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def sort(self, value: Any, parent_key: str | None = None) -> Any:
        return value

    def dataclass_schema(self, schema: DataclassSchema) -> dict[str, Any]:
        said = super().dataclass_schema(schema)
        for field in fields(schema["cls"]):
            notes = said.get("properties", {}).get(field.name, {})
            notes.update(of_sources(field.metadata))  # Pydantic reads its own Field only
        return {**said, "additionalProperties": said.get("additionalProperties", False)}

    def decimal_schema(self, schema: DecimalSchema) -> dict[str, Any]:
        said, keywords = dict(DECIMAL), self.ValidationsMapping.numeric
        given: Mapping[str, Any] = schema
        bounds: Any = {name: float(given[name]) for name in keywords if name in given}
        self.update_with_validations(said, bounds, keywords)
        return said
