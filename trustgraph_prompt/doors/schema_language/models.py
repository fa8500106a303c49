"""Schemas of the language as Pydantic models (seed 5; the extra `pydantic`)."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from functools import cached_property, reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, ForwardRef

from trustgraph_prompt.doors.schema_language.types import type_expr_to_python_type
from trustgraph_prompt.errors import ConfigError, excerpt
from trustgraph_prompt.language.constraints import keywords_of, type_of
from trustgraph_prompt.language.inherit import Schemas
from trustgraph_prompt.language.nodes import File, Optional, SchemaDef, SchemaField, TypeExpr, Union
from trustgraph_prompt.language.scalars import BYTES

if TYPE_CHECKING:
    from pydantic import BaseModel

_SETTINGS: Mapping[str, str] = {
    "minimum": "ge",
    "maximum": "le",
    "exclusiveMinimum": "gt",
    "exclusiveMaximum": "lt",
    "multipleOf": "multiple_of",
    "pattern": "pattern",
    **dict.fromkeys(("minLength", "minItems", "minProperties"), "min_length"),
    **dict.fromkeys(("maxLength", "maxItems", "maxProperties"), "max_length"),
}
"""What keywords of JSON Schema are called there."""


def schema_to_pydantic(schema_def: SchemaDef, schemas: Iterable[SchemaDef] = ()) -> type[BaseModel]:
    """The model of a schema; `schemas` are those that it extends and refers to.

    Fields whose names Python or Pydantic would not have get others, and their own as aliases. Raises
    `LanguageError` for what is not there, `ConfigError` without Pydantic.
    """
    return Models((schema_def, *schemas))[schema_def.name]


class Models(Mapping[str, "type[BaseModel]"]):
    """The models of schemas by their names, made together when the first of them is asked for.

    `types` are those of Python that schemas may name beside those of the language.
    """

    def __init__(self, schemas: Iterable[SchemaDef], types: Mapping[str, Any] | None = None) -> None:
        self._schemas = {schema.name: schema for schema in schemas}
        self._types = {
            name: Any if isinstance(kind, Mapping) else kind for name, kind in (types or {}).items()
        }

    def __getitem__(self, name: str) -> type[BaseModel]:
        return self._models[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._schemas)

    def __len__(self) -> int:
        return len(self._schemas)

    @property
    def annotations(self) -> Mapping[str, Any]:
        """What the names in types stand for."""
        return {**self._types, **self}

    @cached_property
    def _models(self) -> dict[str, type[BaseModel]]:
        try:
            return self._made()
        except ConfigError:
            raise
        except ImportError:
            raise ConfigError(
                "models need the extra `pydantic`: pip install 'trustgraph-prompt[pydantic]'"
            ) from None
        except Exception as error:  # types may be anybody's, and circles may be too long
            raise ConfigError(
                f"Pydantic makes no models of these schemas: {excerpt(str(error), 300)}"
            ) from error

    def _made(self) -> dict[str, type[BaseModel]]:
        inherited = Schemas(File(tuple(self._schemas.values())))
        # they may refer to each other in circles, and their names need not be Python's
        references = {name: f"_Schema{number}_" for number, name in enumerate(self._schemas)}
        annotations = {
            "bytes": _base64(),
            **self._types,
            **{name: ForwardRef(reference) for name, reference in references.items()},
        }
        models = {
            name: _model(schema, inherited.fields(name), annotations)
            for name, schema in self._schemas.items()
        }
        namespace = {references[name]: model for name, model in models.items()}
        for model in models.values():
            model.model_rebuild(_types_namespace=namespace)
        return models


def _base64() -> Any:
    """Bytes, with the schema that the language has for them: Pydantic tells of another alphabet."""
    from pydantic import WithJsonSchema

    return Annotated[bytes, WithJsonSchema(dict(BYTES))]


def _model(
    schema: SchemaDef, fields: Iterable[SchemaField], annotations: Mapping[str, Any]
) -> type[BaseModel]:
    from pydantic import BaseModel, ConfigDict, create_model

    definitions: dict[str, Any] = {}
    for field in fields:
        name = _python_name(field.name, {*definitions, *dir(BaseModel)})
        definitions[name] = _definition(field, annotations, field.name if name != field.name else None)
    config = ConfigDict(
        populate_by_name=True,
        extra="forbid" if schema.closed else "ignore",
        serialize_by_alias=True,
        validate_default=True,
        protected_namespaces=(),
        val_json_bytes="base64",
        ser_json_bytes="base64",
    )
    model: type[BaseModel] = create_model(
        schema.name, __config__=config, __doc__=schema.description, **definitions
    )
    return model


def _python_name(name: str, taken: set[str]) -> str:
    """The name itself, or the nearest one that an attribute can have."""
    found = re.sub(r"\W", "_", name).lstrip("_0123456789") or "field"
    while found in taken or keyword.iskeyword(found):
        found += "_"
    return found


def _definition(field: SchemaField, annotations: Mapping[str, Any], alias: str | None) -> tuple[Any, Any]:
    """Type and settings of a field."""
    from pydantic import Field

    settings: dict[str, Any] = {"description": field.description, "alias": alias}
    if field.default is not None:
        settings["default"] = field.default.value
    elif isinstance(field.type, Optional):
        settings["default"] = None
    return _constrained(field.type, field, annotations), Field(**settings)


def _constrained(expr: TypeExpr, field: SchemaField, annotations: Mapping[str, Any]) -> Any:
    """The annotation of a field's type, each part of it with the constraints that it can have."""
    if not field.constraints:
        return type_expr_to_python_type(expr, annotations)
    match expr:
        case Optional(inner):
            return _constrained(inner, field, annotations) | None
        case Union(members):
            return reduce(or_, (_constrained(member, field, annotations) for member in members))
    annotation = type_expr_to_python_type(expr, annotations)
    json_type = type_of(expr, {})
    for constraint in field.constraints:
        for key, value in (keywords_of(constraint, json_type) or {}).items():
            said = _for_integers(key, value) if json_type == "integer" else value
            annotation = Annotated[annotation, *_said(key, said)]
    return annotation


def _for_integers(keyword: str, value: Any) -> Any:
    """A bound of integers as the integer that Pydantic wants there, of which it lets the same pass."""
    match keyword:
        case "minimum" | "exclusiveMaximum":
            return math.ceil(value)
        case "maximum" | "exclusiveMinimum":
            return math.floor(value)
        case "multipleOf":
            return Fraction(str(value)).numerator
    return value


def _said(keyword: str, value: Any) -> tuple[Any, ...]:
    """A keyword of JSON Schema as what Pydantic makes of it."""
    from pydantic import AfterValidator, Field

    if keyword in _SETTINGS:
        return (Field(**{_SETTINGS[keyword]: value}),)
    said = Field(json_schema_extra={keyword: value})
    return (AfterValidator(_unique), said) if keyword == "uniqueItems" else (said,)


def _unique(items: list[Any]) -> list[Any]:
    if len(set(map(repr, items))) < len(items):
        raise ValueError("the items are not unique")
    return items
