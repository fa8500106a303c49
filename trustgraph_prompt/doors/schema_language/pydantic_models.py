"""Schemas of the language as Pydantic models (seed 5; the extra `pydantic`)."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ForwardRef

from trustgraph_prompt.doors.schema_language.types import type_expr_to_python_type
from trustgraph_prompt.errors import ConfigError, excerpt
from trustgraph_prompt.language.inheritance import Schemas
from trustgraph_prompt.language.nodes import File, Optional, Scalar, SchemaDef, SchemaField
from trustgraph_prompt.language.scalars import BYTES

if TYPE_CHECKING:
    from pydantic import BaseModel


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
    annotation = type_expr_to_python_type(field.type, annotations, field.constraints)
    if field.may_be_missing:
        may_be_null = field.type in (Scalar("any"), Scalar("null"))
        return annotation if may_be_null else _or_missing(annotation), Field(
            default=None, validate_default=False, json_schema_extra=_without_default, **settings
        )
    return annotation, Field(**settings)


def _or_missing(annotation: Any) -> Any:
    """What a field may have that may be missing, but not be null: None where it is missing."""
    from pydantic import BeforeValidator
    from pydantic.json_schema import SkipJsonSchema

    return Annotated[annotation | SkipJsonSchema[None], BeforeValidator(_not_null)]  # type: ignore[misc]


def _not_null(value: Any) -> Any:
    if value is None:
        raise ValueError("this may be missing, but not be null")
    return value


def _without_default(json_schema: dict[str, Any]) -> None:
    del json_schema["default"]


def _without_missing(fields: Mapping[str, str]) -> Any:
    """A serializer that leaves out those of the fields (by name, with their alias) which nobody set."""
    from pydantic import model_serializer

    def written(self: Any, handler: Callable[[Any], dict[str, Any]], info: Any) -> dict[str, Any]:
        said = handler(self)
        for name, alias in fields.items():
            if name not in self.model_fields_set:
                said.pop(name if info.by_alias is False else alias, None)
        return said

    return model_serializer(mode="wrap")(written)
