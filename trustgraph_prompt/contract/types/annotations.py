"""What a type annotation says: a JSON Schema, and how its values become what the type is."""

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
from trustgraph_prompt.contract.limits import DEEPEST
from trustgraph_prompt.contract.schema import compile_schema, of_sources
from trustgraph_prompt.contract.types import build
from trustgraph_prompt.contract.types.bounds import bounded, bounded_in_field
from trustgraph_prompt.contract.types.build import Build
from trustgraph_prompt.contract.validator import surrogate_safe
from trustgraph_prompt.errors import ContractError, excerpt
from trustgraph_prompt.language.scalars import BYTES, DECIMAL

_JSON_TYPES: Mapping[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    types.NoneType: "null",
}
_SCALARS: Mapping[Any, tuple[dict[str, Any], Build]] = {
    str: ({"type": "string"}, build.as_it_is),
    bool: ({"type": "boolean"}, build.as_it_is),
    None: ({"type": "null"}, build.as_it_is),
    types.NoneType: ({"type": "null"}, build.as_it_is),
    int: ({"type": "integer"}, build.converted(int, "an integer")),  # 3.0 is one, too
    float: ({"type": "number"}, build.converted(float, "a number that a float holds")),
    bytes: (BYTES, build.converted(b64decode, "bytes in base64")),
    Decimal: (DECIMAL, build.converted(lambda value: Decimal(str(value)), "a decimal number")),
    datetime: ({"type": "string", "format": "date-time"}, build.converted(datetime.fromisoformat, "a time")),
    date: ({"type": "string", "format": "date"}, build.converted(date.fromisoformat, "a date")),
    time: ({"type": "string", "format": "time"}, build.converted(time.fromisoformat, "a time of day")),
    UUID: ({"type": "string", "format": "uuid"}, build.converted(UUID, "a UUID")),
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

_SAID_IF_ANY = ("required", "description")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]")
_EXPECTED = "a dataclass, a Pydantic model, a type of JSON, or a list, dict, union, Literal or Enum of such"


class Described(NamedTuple):
    """A type as JSON Schema, and what makes its values."""

    schema: dict[str, Any]
    build: Build


class Annotations:
    """Describes types. Classes stand in `definitions`, each once, so that they may refer to themselves."""

    def __init__(self) -> None:
        self.definitions: dict[str, dict[str, Any]] = {}
        self._classes: dict[type, Described] = {}
        self._unions: list[tuple[str, list[dict[str, Any]]]] = []  # where, and the classes in it

    def of(self, annotation: Any, where: str) -> Described:
        """What an annotation says. Raises `ContractError` for one that says nothing; it stands at `where`."""
        if get_origin(annotation) is Annotated:
            schema, make = self.of(annotation.__origin__, where)
            return Described(bounded(schema, annotation.__metadata__, where), make)
        if annotation is Any or annotation is object:
            return Described({}, build.as_it_is)
        try:
            hash(annotation)
        except TypeError:  # an instance, or a list with a class in it
            annotation = repr(annotation)
        if annotation in _SCALARS:
            schema, make = _SCALARS[annotation]
            return Described(dict(schema), make)
        origin, arguments = get_origin(annotation) or annotation, get_args(annotation)
        if origin is Literal:
            schema = _choice(arguments, where)
            if len(arguments) == 1:
                schema = {"const": schema.pop("enum")[0], **schema}
            return Described(schema, build.one_value_of(arguments))
        if origin in _UNIONS:
            return self._union(arguments, where)
        if origin is tuple:
            # tuple[()] has no arguments either, and holds nothing
            return self._tuple(getattr(annotation, "__args__", (Any, ...)), where)
        if origin in _CONTAINERS:
            item = self.of(arguments[0] if arguments else Any, where)
            unique = {"uniqueItems": True} if origin in _SETS else {}
            schema = {"type": "array", **unique, "items": item.schema}
            return Described(schema, build.elements(item.build, _CONTAINERS[origin]))
        if origin in _MAPPINGS:
            return self._mapping(annotation, arguments or (str, Any), where)
        if isinstance(annotation, type) and (described := self._class(annotation)):
            return described
        raise ContractError("this type has no JSON", where=where, found=annotation, expected=_EXPECTED)

    def check_unions(self) -> None:
        """Raise `ContractError` for a union in which one class takes all that another, behind it, takes."""
        for where, classes in self._unions:
            said = {digest({**one, "$defs": self.definitions}, extra=None, coerce=False) for one in classes}
            if len(said) < len(classes):
                found = [one["$ref"].removeprefix("#/$defs/") for one in classes]
                expected = 'a key in each such as `kind: Literal["river"]`'
                problem = "nothing tells two classes of this union apart"
                raise ContractError(problem, where=where, found=found, expected=expected)

    def _union(self, arguments: tuple[Any, ...], where: str) -> Described:
        branches = [self.of(argument, where) for argument in arguments]
        schema = {"anyOf": [branch.schema for branch in branches]}
        self._unions.append((where, [one for one in schema["anyOf"] if "$ref" in one]))
        if len(branches) == 2 and types.NoneType in arguments:
            one = branches[1 - arguments.index(types.NoneType)]
            return Described(schema, build.optional(one.build))
        return Described(schema, build.one_of(cache(lambda: [self._judged(branch) for branch in branches])))

    def _judged(self, branch: Described) -> tuple[Callable[[Any], bool], Build]:
        validator = compile_schema({**branch.schema, "$defs": self.definitions}, DEEPEST)
        return partial(surrogate_safe, validator.is_valid), branch.build

    def _tuple(self, arguments: tuple[Any, ...], where: str) -> Described:
        if arguments[1:] == (...,):
            item = self.of(arguments[0], where)
            return Described({"type": "array", "items": item.schema}, build.elements(item.build, tuple))
        items = [self.of(argument, where) for argument in arguments]
        positions = {"prefixItems": [item.schema for item in items]} if items else {}
        schema = {"type": "array", **positions, "minItems": len(items), "maxItems": len(items)}
        return Described(schema, build.positions([item.build for item in items]))

    def _mapping(self, annotation: Any, arguments: tuple[Any, ...], where: str) -> Described:
        key, value = arguments
        if key is not str:
            raise ContractError(
                "a key of JSON is a string", where=where, found=annotation, expected="str keys"
            )
        item = self.of(value, where)
        return Described(
            {"type": "object", "additionalProperties": item.schema or True}, build.members(item.build)
        )

    def _class(self, cls: type) -> Described | None:
        """What a class is, which stands in the definitions; None for one that cannot."""
        if cls in self._classes:
            return self._classes[cls]
        if issubclass(cls, Enum):
            return self._define(cls, *_enum(cls))
        if hasattr(cls, "__pydantic_core_schema__") or hasattr(cls, "__get_pydantic_core_schema__"):
            return self._model(cls)
        return self._dataclass(cls) if is_dataclass(cls) else None

    def _define(self, cls: type, schema: dict[str, Any], make: Build) -> Described:
        plain = _NOT_IN_NAMES.sub("_", cls.__name__)
        names = (plain, *(f"{plain}{number}" for number in range(2, len(self.definitions) + 3)))
        name = next(name for name in names if name not in self.definitions)
        self.definitions[name] = schema
        self._classes[cls] = Described({"$ref": f"#/$defs/{name}"}, make)
        return self._classes[cls]

    def _model(self, cls: type) -> Described:
        from trustgraph_prompt.contract.types import pydantic_models

        schema, make = pydantic_models.described(cls)
        others = schema.pop("$defs", {})
        described = self._define(cls, schema, make)
        for name, definition in others.items():
            if self.definitions.setdefault(name, definition) != definition:
                raise ContractError(f"two classes are called {name}", where=cls.__qualname__)
        return described

    def _dataclass(self, cls: Any) -> Described:
        hints = _hints(cls)
        own = [field for field in fields(cls) if field.init]
        for field in own:
            _check_default(cls, field)
        _check_made_of(cls, [field.name for field in own])
        schema: dict[str, Any] = {}
        make = build.Instance(cls)
        described = self._define(cls, schema, make.build)  # before its fields, which may refer to it
        of_fields = {
            field.name: self.of(hints[field.name], f"{cls.__qualname__}.{field.name}") for field in own
        }
        make.fields = {name: one.build for name, one in of_fields.items()}
        says = {
            "type": "object",
            "properties": {field.name: _property(cls, field, of_fields[field.name]) for field in own},
            "required": [field.name for field in own if _is_required(field)],
            "description": _docstring(cls),
            "additionalProperties": False,
        }
        schema |= {key: value for key, value in says.items() if value or key not in _SAID_IF_ANY}
        return described


def _enum(cls: type[Enum]) -> Described:
    schema = _choice(tuple(member.value for member in cls), cls.__qualname__)
    return Described(schema, build.converted(cls, f"a {cls.__name__}"))


def _choice(values: tuple[Any, ...], where: str) -> dict[str, Any]:
    """One of several values, with their type where all have the same."""
    kinds = {type(value) for value in values}
    if not kinds or not kinds <= _JSON_TYPES.keys():
        raise ContractError(
            "not all of these have JSON",
            where=where,
            found=values,
            expected="strings, numbers, booleans, None",
        )
    kind = {"type": _JSON_TYPES[kinds.pop()]} if len(kinds) == 1 else {}
    return {"enum": list(values), **kind}


def _hints(cls: type) -> dict[str, Any]:
    """The annotations of a dataclass. Raises `ContractError` for one that cannot be resolved."""
    try:
        try:
            return get_type_hints(cls, include_extras=True)
        except NameError:  # the class itself may be local to a function
            return get_type_hints(cls, localns={cls.__name__: cls}, include_extras=True)
    except Exception as error:
        raise ContractError(
            f"an annotation cannot be resolved: {error}",
            where=cls.__qualname__,
            found={name: text for name, text in cls.__annotations__.items() if isinstance(text, str)},
            expected="names of the module, or of the class itself",
        ) from error


def _check_made_of(cls: type, names: list[str]) -> None:
    try:
        inspect.signature(cls).bind(**dict.fromkeys(names))
    except TypeError as error:
        raise ContractError(
            f"cannot be made of its fields: {error}",
            where=cls.__qualname__,
            found=names,
            expected="every argument a field",
        ) from None


def _check_default(cls: type, field: Field[Any]) -> None:
    """What Pydantic's `Field` says as a default of a plain dataclass, nobody but Pydantic would hear."""
    if type(field.default).__module__ == "pydantic.fields":
        raise ContractError(
            "a Field of Pydantic's is no default of a plain dataclass",
            where=f"{cls.__qualname__}.{field.name}",
            found=field.default,
            expected="Annotated[…, Field(…)]",
        )


def _is_required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _property(cls: type, field: Field[Any], described: Described) -> dict[str, Any]:
    where = f"{cls.__qualname__}.{field.name}"
    bounded = bounded_in_field(described.schema, field.metadata, where)
    return {**bounded, **of_sources(field.metadata), **_remarks(field)}


def _remarks(field: Field[Any]) -> dict[str, Any]:
    """What a schema says beside the type: description and default."""
    remarks = {name: field.metadata[name] for name in ("description",) if name in field.metadata}
    default = field.default.value if isinstance(field.default, Enum) else field.default
    return {**remarks, "default": default} if type(default) in _JSON_TYPES else remarks


def _docstring(cls: type) -> str | None:
    """What the author wrote; a dataclass without a docstring gets its signature as one."""
    text = cls.__dict__.get("__doc__")
    return inspect.cleandoc(text) if text and not text.startswith(f"{cls.__name__}(") else None


class Type(NamedTuple):
    """A type, described. Of a list, schema and builder are those of one element."""

    name: str | None
    schema: dict[str, Any]
    many: bool
    build: Build
    check_unions: Callable[[], None]  # once the schema is known to be one


def describe(kind: Any) -> Type:
    """What a dataclass, a model, or a list of such is for a contract. Raises `ContractError`.

    The class itself stands at the root of its schema, also where it refers to itself: wires want an object
    there, and no reference. Its name is the title, after which wires call the schema. Other types have none.
    """
    many = get_origin(kind) is list
    element = get_args(kind)[0] if many else kind
    annotations = Annotations()
    described = annotations.of(element, getattr(element, "__qualname__", excerpt(str(element), 80)))
    schema = _with_class_at_root(described.schema, annotations.definitions)
    name = element.__name__ if isinstance(element, type) and "$ref" in described.schema else None
    return Type(name, schema, many, described.build, annotations.check_unions)


def _with_class_at_root(schema: dict[str, Any], definitions: dict[str, dict[str, Any]]) -> dict[str, Any]:
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        root, others = definitions[name], {key: one for key, one in definitions.items() if key != name}
        refers_to_itself = json.dumps(schema["$ref"]) in json.dumps([root, others], default=str)
        schema, definitions = {"title": name, **root}, definitions if refers_to_itself else others
    return {**schema, "$defs": dict(sorted(definitions.items()))} if definitions else schema
