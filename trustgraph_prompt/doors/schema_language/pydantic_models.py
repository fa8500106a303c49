"""Converts schemas of the language to Pydantic models (StreetRace; the extra `pydantic`)."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ForwardRef

from trustgraph_prompt.doors.schema_language.types import type_expr_to_python_type
from trustgraph_prompt.errors import ConfigError, excerpt
from trustgraph_prompt.json_text.values_in_strings import BYTES
from trustgraph_prompt.language.inheritance import Schemas
from trustgraph_prompt.language.nodes import File, Optional, Scalar, SchemaDef, SchemaField

if TYPE_CHECKING:
    from pydantic import BaseModel


def schema_to_pydantic(schema_def: SchemaDef, schemas: Iterable[SchemaDef] = ()) -> type[BaseModel]:
    """Make the model of a schema; `schemas` are those that it extends and refers to.

    A field whose name is invalid in Python or Pydantic gets another one, and its own as an alias. Raises
    `LanguageError` for a missing schema or type, `ConfigError` without Pydantic.
    """
    return Models((schema_def, *schemas))[schema_def.name]


class Models(Mapping[str, "type[BaseModel]"]):
    """The models of schemas by their names, all made when the first one is requested.

    `types` are Python types that schemas may name, in addition to those of the language.
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
        """The Python types of all names."""
        return {**self._types, **self}

    @cached_property
    def _models(self) -> dict[str, type[BaseModel]]:
        try:
            return self._make()
        except ConfigError:
            raise
        except ImportError:
            raise ConfigError(
                "models need the extra `pydantic`: pip install 'trustgraph-prompt[pydantic]'"
            ) from None
        except Exception as error:  # of a caller's types, or a RecursionError
            raise ConfigError(
                f"Pydantic cannot make models of these schemas: {excerpt(str(error), 300)}"
            ) from error

    def _make(self) -> dict[str, type[BaseModel]]:
        from pydantic import WithJsonSchema

        inherited = Schemas(File(tuple(self._schemas.values())))
        # schemas may refer to each other in circles, and their names need not be valid in Python
        references = {name: f"_Schema{number}_" for number, name in enumerate(self._schemas)}
        annotations = {
            # Pydantic's own schema of base64 names another alphabet
            "bytes": Annotated[bytes, WithJsonSchema(dict(BYTES))],
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


def _model(
    schema: SchemaDef, fields: Iterable[SchemaField], annotations: Mapping[str, Any]
) -> type[BaseModel]:
    from pydantic import BaseModel, ConfigDict, create_model

    definitions: dict[str, Any] = {}
    missing: dict[str, str] = {}
    for field in fields:
        name = _python_name(field.name, {*definitions, *dir(BaseModel)})
        if field.may_be_missing:
            missing[name] = field.name
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
        schema.name,
        __config__=config,
        __doc__=schema.description,
        __validators__={"_without_missing": _without_missing(missing)} if missing else {},
        **definitions,
    )
    return model


def _python_name(name: str, taken: set[str]) -> str:
    """The name, or a similar one that is valid for an attribute."""
    valid = re.sub(r"\W", "_", name).lstrip("_0123456789") or "field"
    while valid in taken or keyword.iskeyword(valid):
        valid += "_"
    return valid


def _definition(field: SchemaField, annotations: Mapping[str, Any], alias: str | None) -> tuple[Any, Any]:
    """The type and the `Field` of a field."""
    from pydantic import Field

    settings: dict[str, Any] = {"description": field.description, "alias": alias}
    if field.default is not None:
        settings["default"] = field.default.value
    elif isinstance(field.type, Optional):
        settings["default"] = None
    annotation = type_expr_to_python_type(field.type, annotations, field.constraints)
    if field.may_be_missing:
        may_be_null = field.type in (Scalar("any"), Scalar("null"))
        return annotation if may_be_null else _or_missing(annotation), Field(
            default=None, validate_default=False, json_schema_extra=_without_default, **settings
        )
    return annotation, Field(**settings)


def _or_missing(annotation: Any) -> Any:
    """The type of a field that may be missing, which is None then, but not null."""
    from pydantic import BeforeValidator
    from pydantic.json_schema import SkipJsonSchema

    return Annotated[annotation | SkipJsonSchema[None], BeforeValidator(_not_null)]  # type: ignore[misc]


def _not_null(value: Any) -> Any:
    if value is None:
        raise ValueError("the field may be missing, but not null")
    return value


def _without_default(json_schema: dict[str, Any]) -> None:
    del json_schema["default"]


def _without_missing(fields: Mapping[str, str]) -> Any:
    """A serializer that omits those of the fields (aliases by name) that were not set."""
    from pydantic import model_serializer

    def serialize(self: Any, handler: Callable[[Any], dict[str, Any]], info: Any) -> dict[str, Any]:
        serialized = handler(self)
        for name, alias in fields.items():
            if name not in self.model_fields_set:
                serialized.pop(name if info.by_alias is False else alias, None)
        return serialized

    return model_serializer(mode="wrap")(serialize)
