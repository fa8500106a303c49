"""Converts types and type annotations to JSON Schemas, with the builders of their instances."""

from __future__ import annotations

import inspect
import json
import re
import types
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from functools import cache, partial
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from trustgraph_prompt.contract.canonical_schema import digest
from trustgraph_prompt.contract.compile_schema import compile_schema, of_sources
from trustgraph_prompt.contract.limits import DEEPEST
from trustgraph_prompt.contract.types import instances
from trustgraph_prompt.contract.types.bounds import bounded, bounded_in_field, from_text
from trustgraph_prompt.contract.types.instances import Build, TypeSchema
from trustgraph_prompt.contract.validator import surrogate_safe
from trustgraph_prompt.errors import ContractError, excerpt
from trustgraph_prompt.json_text.values import JSON_TYPES
from trustgraph_prompt.json_text.values_in_strings import BYTES, DECIMAL

_OF_JSON = JSON_TYPES.keys() - {dict, list}
_SCALARS: Mapping[Any, tuple[dict[str, Any], Build]] = {
    str: ({"type": "string"}, instances.as_it_is),
    bool: ({"type": "boolean"}, instances.as_it_is),
    None: ({"type": "null"}, instances.as_it_is),
    types.NoneType: ({"type": "null"}, instances.as_it_is),
    int: ({"type": "integer"}, instances.converted(int, "an integer")),  # 3.0 is an integer, too
    float: ({"type": "number"}, instances.converted(float, "a number that a float holds")),
    bytes: (BYTES, instances.converted(b64decode, "bytes in base64")),
    Decimal: (DECIMAL, instances.converted(lambda value: Decimal(str(value)), "a decimal number")),
    datetime: (
        {"type": "string", "format": "date-time"},
        instances.converted(datetime.fromisoformat, "a time"),
    ),
    date: ({"type": "string", "format": "date"}, instances.converted(date.fromisoformat, "a date")),
    time: ({"type": "string", "format": "time"}, instances.converted(time.fromisoformat, "a time of day")),
    UUID: ({"type": "string", "format": "uuid"}, instances.converted(UUID, "a UUID")),
}
_CONTAINERS: Mapping[Any, Callable[[list[Any]], Any]] = {
    list: list,
    Sequence: list,
    set: set,
    frozenset: frozenset,
}
_SETS = (set, frozenset)
_MAPPINGS = (dict, Mapping)
_UNIONS = (Union, types.UnionType)

_OMITTED_IF_EMPTY = ("required", "description")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]")
_EXPECTED = "a dataclass, a Pydantic model, a JSON type, or a list, dict, union, Literal or Enum of these"


class Annotations:
    """Converts types. Each class is in `definitions` once, so that it can refer to itself."""

    def __init__(self) -> None:
        self.definitions: dict[str, dict[str, Any]] = {}
        self._classes: dict[type, TypeSchema] = {}
        self._unions: list[tuple[str, list[dict[str, Any]]]] = []  # where, and references to the classes

    def of(self, annotation: Any, where: str) -> TypeSchema:
        """Convert an annotation; `where` names it in a `ContractError`, raised if it has no JSON Schema."""
        if isinstance(annotation, str):
            expected = "the type itself, without quotes"
            raise ContractError("a string is not a type", where=where, found=annotation, expected=expected)
        if get_origin(annotation) is Annotated:
            schema, make = self.of(annotation.__origin__, where)
            return TypeSchema(bounded(schema, annotation.__metadata__, where), make)
        if annotation is Any or annotation is object:
            return TypeSchema({}, instances.as_it_is)
        try:
            hash(annotation)
        except TypeError:  # an instance, or a list with a class in it
            annotation = repr(annotation)
        if annotation in _SCALARS:
            schema, make = _SCALARS[annotation]
            return TypeSchema(dict(schema), make)
        origin, arguments = get_origin(annotation) or annotation, get_args(annotation)
        if origin is Literal:
            schema = _choice(arguments, where)
            if len(arguments) == 1:
                schema = {"const": schema.pop("enum")[0], **schema}
            return TypeSchema(schema, instances.one_value_of(arguments))
        if origin in _UNIONS:
            return self._union(arguments, where)
        if origin is tuple:
            # tuple[()] has no arguments either, but is the empty tuple
            return self._tuple(getattr(annotation, "__args__", (Any, ...)), where)
        if origin in _CONTAINERS:
            item = self.of(arguments[0] if arguments else Any, where)
            unique = {"uniqueItems": True} if origin in _SETS else {}
            schema = {"type": "array", **unique, "items": item.schema}
            return TypeSchema(schema, instances.elements(item.build, _CONTAINERS[origin]))
        if origin in _MAPPINGS:
            return self._mapping(annotation, arguments or (str, Any), where)
        if isinstance(annotation, type) and (described := self._class(annotation)):
            return described
        raise ContractError(
            "not a type with a JSON Schema", where=where, found=annotation, expected=_EXPECTED
        )

    def check_unions(self) -> None:
        """Raise `ContractError` for a union of classes with equal schemas: only the first would be built."""
        for where, classes in self._unions:
            digests = {
                digest({**schema, "$defs": self.definitions}, extra=None, coerce=False) for schema in classes
            }
            if len(digests) < len(classes):
                found = [schema["$ref"].removeprefix("#/$defs/") for schema in classes]
                expected = 'a key in each such as `kind: Literal["river"]`'
                problem = "two classes of this union have the same schema"
                raise ContractError(problem, where=where, found=found, expected=expected)

    def _union(self, arguments: tuple[Any, ...], where: str) -> TypeSchema:
        branches = [self.of(argument, where) for argument in arguments]
        schema = {"anyOf": [branch.schema for branch in branches]}
        self._unions.append((where, [branch for branch in schema["anyOf"] if "$ref" in branch]))
        if len(branches) == 2 and types.NoneType in arguments:
            branch = branches[1 - arguments.index(types.NoneType)]
            return TypeSchema(schema, instances.optional(branch.build))
        return TypeSchema(
            schema, instances.one_of(cache(lambda: [self._judged(branch) for branch in branches]))
        )

    def _judged(self, branch: TypeSchema) -> tuple[Callable[[Any], bool], Build]:
        validator = compile_schema({**branch.schema, "$defs": self.definitions}, DEEPEST)
        return partial(surrogate_safe, validator.is_valid), branch.build

    def _tuple(self, arguments: tuple[Any, ...], where: str) -> TypeSchema:
        if arguments[1:] == (...,):
            item = self.of(arguments[0], where)
            return TypeSchema({"type": "array", "items": item.schema}, instances.elements(item.build, tuple))
        items = [self.of(argument, where) for argument in arguments]
        positions = {"prefixItems": [item.schema for item in items]} if items else {}
        schema = {"type": "array", **positions, "minItems": len(items), "maxItems": len(items)}
        return TypeSchema(schema, instances.positions([item.build for item in items]))

    def _mapping(self, annotation: Any, arguments: tuple[Any, ...], where: str) -> TypeSchema:
        key, value = arguments
        if key is not str:
            raise ContractError(
                "a JSON object has string keys", where=where, found=annotation, expected="str keys"
            )
        item = self.of(value, where)
        return TypeSchema(
            {"type": "object", "additionalProperties": item.schema or True}, instances.members(item.build)
        )

    def _class(self, cls: type) -> TypeSchema | None:
        """Convert a class and put it into the definitions; None if it has no JSON Schema."""
        if cls in self._classes:
            return self._classes[cls]
        if issubclass(cls, Enum):
            schema = _choice(tuple(member.value for member in cls), cls.__qualname__)
            return self._define(cls, schema, instances.converted(cls, f"a {cls.__name__}"))
        if hasattr(cls, "__pydantic_core_schema__") or hasattr(cls, "__get_pydantic_core_schema__"):
            return self._model(cls)
        return self._dataclass(cls) if is_dataclass(cls) else None

    def _define(self, cls: type, schema: dict[str, Any], make: Build) -> TypeSchema:
        plain = _NOT_IN_NAMES.sub("_", cls.__name__)
        names = (plain, *(f"{plain}{number}" for number in range(2, len(self.definitions) + 3)))
        name = next(name for name in names if name not in self.definitions)
        self.definitions[name] = schema
        self._classes[cls] = TypeSchema({"$ref": f"#/$defs/{name}"}, make)
        return self._classes[cls]

    def _model(self, cls: type) -> TypeSchema:
        from trustgraph_prompt.contract.types import pydantic_models

        schema, make = pydantic_models.described(cls)
        others = schema.pop("$defs", {})
        described = self._define(cls, schema, make)
        for name, definition in others.items():
            if self.definitions.setdefault(name, definition) != definition:
                raise ContractError(f"two classes have the name {name}", where=cls.__qualname__)
        return described

    def _dataclass(self, cls: Any) -> TypeSchema:
        hints = _hints(cls)
        own = [field for field in fields(cls) if field.init]
        for field in own:
            _check_default(cls, field)
        _check_made_of(cls, [field.name for field in own])
        schema: dict[str, Any] = {}
        builds: dict[str, Build] = {}
        described = self._define(cls, schema, instances.instance(cls, builds))  # its fields may refer to it
        of_fields = {
            field.name: self.of(hints[field.name], f"{cls.__qualname__}.{field.name}") for field in own
        }
        builds |= {name: each.build for name, each in of_fields.items()}
        keywords = {
            "type": "object",
            "properties": from_text(
                cls, {field.name: _property(cls, field, of_fields[field.name]) for field in own}
            ),
            "required": [f.name for f in own if f.default is MISSING and f.default_factory is MISSING],
            "description": _docstring(cls),
            "additionalProperties": False,
        }
        schema |= {key: value for key, value in keywords.items() if value or key not in _OMITTED_IF_EMPTY}
        return described


def _choice(values: tuple[Any, ...], where: str) -> dict[str, Any]:
    """The schema of a choice of values, with their type if all have the same."""
    kinds = {type(value) for value in values}
    if not kinds or not kinds <= _OF_JSON:
        raise ContractError(
            "these values are not all JSON",
            where=where,
            found=values,
            expected="strings, numbers, booleans, None",
        )
    kind = {"type": JSON_TYPES[kinds.pop()]} if len(kinds) == 1 else {}
    return {"enum": list(values), **kind}


def _hints(cls: type) -> dict[str, Any]:
    """The resolved annotations of a dataclass. Raises `ContractError` if one cannot be resolved."""
    try:
        try:
            return get_type_hints(cls, include_extras=True)
        except NameError:  # a local class may refer to itself
            return get_type_hints(cls, localns={cls.__name__: cls}, include_extras=True)
    except Exception as error:
        raise ContractError(
            f"cannot resolve an annotation: {error}",
            where=cls.__qualname__,
            found={name: text for name, text in cls.__annotations__.items() if isinstance(text, str)},
            expected="names defined in the module, or the class itself",
        ) from error


def _check_made_of(cls: type, names: list[str]) -> None:
    try:
        inspect.signature(cls).bind(**dict.fromkeys(names))
    except TypeError as error:
        raise ContractError(
            f"the class cannot be constructed from its fields: {error}",
            where=cls.__qualname__,
            found=names,
            expected="a constructor with its fields as arguments",
        ) from None


def _check_default(cls: type, field: Field[Any]) -> None:
    """Reject Pydantic's `Field` as a default: only Pydantic would apply it."""
    if type(field.default).__module__ == "pydantic.fields":
        raise ContractError(
            "Pydantic's Field is not a valid default in a plain dataclass",
            where=f"{cls.__qualname__}.{field.name}",
            found=field.default,
            expected="Annotated[…, Field(…)]",
        )


def _property(cls: type, field: Field[Any], described: TypeSchema) -> dict[str, Any]:
    """The schema of a field: its type with bounds, sources, description and default."""
    where = f"{cls.__qualname__}.{field.name}"
    schema = {**bounded_in_field(described.schema, field.metadata, where), **of_sources(field.metadata)}
    if "description" in field.metadata:
        schema["description"] = field.metadata["description"]
    default = field.default.value if isinstance(field.default, Enum) else field.default
    return {**schema, "default": default} if type(default) in _OF_JSON else schema


def _docstring(cls: type) -> str | None:
    """The docstring of the author; a dataclass without one has its signature instead."""
    text = cls.__dict__.get("__doc__")
    return inspect.cleandoc(text) if text and not text.startswith(f"{cls.__name__}(") else None


class Type(NamedTuple):
    """A converted type; for a list (`many`), schema and builder are those of its elements."""

    name: str | None
    schema: dict[str, Any]
    many: bool
    build: Build
    check_unions: Callable[[], None]  # to be called once the schema has been compiled


def describe(type_: Any) -> Type:
    """Convert a dataclass, a model, another type, or a list of these. Raises `ContractError`.

    A class is at the root of its schema, even if it refers to itself, as servers require an object at the
    root. Its name is the title, which servers use as the name of the schema. Other types have no name.
    """
    many = get_origin(type_) is list
    element = get_args(type_)[0] if many else type_
    annotations = Annotations()
    described = annotations.of(element, getattr(element, "__qualname__", excerpt(str(element), 80)))
    schema = _with_class_at_root(described.schema, annotations.definitions)
    name = element.__name__ if isinstance(element, type) and "$ref" in described.schema else None
    return Type(name, schema, many, described.build, annotations.check_unions)


def _with_class_at_root(schema: dict[str, Any], definitions: dict[str, dict[str, Any]]) -> dict[str, Any]:
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        root, others = definitions[name], {key: definitions[key] for key in definitions if key != name}
        is_recursive = json.dumps(schema["$ref"]) in json.dumps([root, others], default=str)
        schema, definitions = {"title": name, **root}, definitions if is_recursive else others
    return {**schema, "$defs": dict(sorted(definitions.items()))} if definitions else schema
