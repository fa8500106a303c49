"""Converts a JSON Schema (2020-12) to schemas of the language, where they can express the same."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Mapping
from typing import Any

from trustgraph_prompt.errors import excerpt
from trustgraph_prompt.json_text.pointer import steps
from trustgraph_prompt.language.check import MAX_SCHEMAS, Names, check, check_field
from trustgraph_prompt.language.from_json_type import (
    Schema,
    Types,
    description_of,
    is_record,
    refuse,
    within,
)
from trustgraph_prompt.language.inheritance import Schemas, discriminator
from trustgraph_prompt.language.nodes import Default, File, Optional, SchemaDef, SchemaField, nullable
from trustgraph_prompt.language.scalars import RESERVED
from trustgraph_prompt.language.write import NAME

_DEFINITIONS = ("$defs", "definitions")
_REFERENCE = re.compile(r"#/(?:\$defs|definitions)/([^/]+)")
_ROOT_KEYWORDS = frozenset(("$schema", "$id", *_DEFINITIONS))
_RECORD_KEYWORDS = frozenset(
    ("type", "properties", "required", "description", "title", "$comment", "additionalProperties")
)


def from_json_schema(schema: Mapping[str, Any], name: str) -> File:
    """Convert a JSON Schema to a file with equivalent schemas.

    One of that `name` for the object at the root, one for each definition that it uses, and one for each
    object within an object, named after its title or its field. `to_json_schema` converts them back, without
    titles, `$id` and keywords that limit nothing; converted once more, the result is the same file.

    Raises `LanguageError`, whose `path` is a JSON Pointer, for what the language cannot express.
    """
    try:
        json.dumps(schema, ensure_ascii=False, allow_nan=False, default=dict).encode()
    except (TypeError, ValueError, RecursionError) as error:
        refuse("", f"this is not JSON: {excerpt(str(error))}")
    return _Converter(schema, name).file()


class _Converter:
    """Converts one JSON Schema, object by object: those that a converted one contains are queued."""

    def __init__(self, schema: Mapping[str, Any], name: str) -> None:
        if not isinstance(schema, Mapping):
            refuse("", "this is not a schema", schema, "an object")
        _check_name(name, "")
        self._name = name
        self._root = {key: value for key, value in schema.items() if key not in _ROOT_KEYWORDS}
        self._definitions: dict[str, tuple[Any, str]] = {}
        for keyword in _DEFINITIONS:
            definitions = schema.get(keyword, {})
            if not isinstance(definitions, Mapping):
                refuse(within("", keyword), "these are not definitions", definitions, "schemas by name")
            for key, definition in definitions.items():
                self._definitions.setdefault(key, (definition, within("", keyword, key)))
        place = ""
        if self._root.keys() == {"$ref"}:  # Pydantic writes a schema that contains itself this way
            self._root, place = self._definitions[self._key(self._root["$ref"], "/$ref")]
        if not _is_record(self._root):
            expected = '"type": "object", "properties"'
            refuse(place, "the root must be an object with properties", self._root, expected)
        self._types = Types(self._follow, self._record)
        self._waiting: deque[tuple[str, Schema, str]] = deque([(name, self._root, place)])
        self._names = {name}
        self._reading = name

    def file(self) -> File:
        """All schemas: the root, the definitions in their order, then those named here."""
        schemas: dict[str, SchemaDef] = {}
        while self._waiting:
            self._reading, schema, path = self._waiting.popleft()
            schemas[self._reading] = self._schema(schema, path)
        in_order = [name for name in (self._name, *self._definitions) if name in schemas]
        file = File(tuple(schemas[name] for name in dict.fromkeys((*in_order, *schemas))))
        for names, path in self._types.exclusive:
            if discriminator(Schemas(file), names) is None:
                expected = "a field with different literals in each"
                refuse(path, "the alternatives of oneOf overlap", names, expected)
        for problem in check(file, {}):
            refuse("", problem.message, problem.found, problem.expected)
        return file

    def _schema(self, schema: Schema, path: str) -> SchemaDef:
        for keyword in schema:
            if keyword not in _RECORD_KEYWORDS:
                refuse(within(path, keyword), "the language cannot express this keyword here", keyword)
        others = schema.get("additionalProperties", True)
        if not isinstance(others, bool) and others != {}:
            at = within(path, "additionalProperties")
            refuse(at, "the language cannot give a type to keys beside the fields", others, "true or false")
        properties, required = schema["properties"], schema.get("required", [])
        if not isinstance(required, list) or not all(
            isinstance(name, str) and name in properties for name in required
        ):
            refuse(within(path, "required"), "these are not properties", required, ", ".join(properties))
        names = set(required)
        fields = tuple(
            self._field(name, value, name in names, within(path, "properties", name))
            for name, value in properties.items()
        )
        return SchemaDef(self._reading, fields, (), description_of(schema, path), others is False)

    def _field(self, name: str, schema: Any, is_required: bool, path: str) -> SchemaField:
        default = None
        if isinstance(schema, Mapping):
            default = Default(schema["default"]) if "default" in schema else None
            schema = {key: value for key, value in schema.items() if key != "default"}
        typed = self._types.of(schema, path)
        expr = typed.type
        if default is not None and is_required:
            expected = f"{name} not in `required`"
            refuse(within(path, "default"), "a field with a default cannot be required", name, expected)
        if not is_required:
            expr = nullable(expr)
        may_be_missing = not (is_required or default is not None or isinstance(expr, Optional))
        field = SchemaField(name, expr, typed.constraints, default, typed.description, may_be_missing)
        for problem in check_field(field, Names(frozenset(self._names), {})):
            refuse(path, problem.message, problem.found, problem.expected)
        return field

    def _follow(self, reference: Any, path: str) -> str | tuple[Any, str]:
        """The name of the schema that a reference leads to; for others, the JSON Schema and its path."""
        path = within(path, "$ref")
        if reference == "#":
            return self._name
        key = self._key(reference, path)
        definition, place = self._definitions[key]
        if not _is_record(definition):
            return definition, place
        if key in (self._root.get("title"), self._name) and _without_title(definition) == _without_title(
            self._root
        ):
            return self._name
        if key == self._name:
            refuse(place, "the root has the same name", key, "another name")
        if key not in self._names:
            _check_name(key, place)
            self._enqueue(key, definition, place)
        return key

    def _key(self, reference: Any, path: str) -> str:
        """The definition that a reference names."""
        match = _REFERENCE.fullmatch(reference) if isinstance(reference, str) else None
        key = steps(f"/{match[1]}")[0] if match else ""
        if match is None or key not in self._definitions:
            refuse(path, "the reference has no definition", reference, "#/$defs/ and a name")
        return key

    def _record(self, schema: Schema, path: str) -> str:
        """Name an object after its title or its field, and queue it."""
        field = re.findall(r"/properties/([^/]*)", path)[-1]
        title = schema.get("title")
        made = "".join(part[:1].upper() + part[1:] for part in re.findall(r"[^\W_]+", field))
        name = title if isinstance(title, str) and NAME.fullmatch(title) else f"{self._reading}{made}"
        taken = self._names | self._definitions.keys() | RESERVED
        candidates = (name, *(f"{name}{number}" for number in range(2, len(taken) + 3)))
        free = next(candidate for candidate in candidates if candidate not in taken)
        self._enqueue(free, schema, path)
        return free

    def _enqueue(self, name: str, schema: Schema, path: str) -> None:
        self._names.add(name)
        if len(self._names) > MAX_SCHEMAS:
            refuse(path, "too many schemas", len(self._names), f"at most {MAX_SCHEMAS} in a file")
        self._waiting.append((name, schema, path))


def _is_record(schema: Any) -> bool:
    return isinstance(schema, Mapping) and is_record(schema) and isinstance(schema["properties"], Mapping)


def _without_title(schema: Schema) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != "title"}


def _check_name(name: str, path: str) -> None:
    if not NAME.fullmatch(name) or name in RESERVED:
        refuse(path, "invalid name of a schema", name, "letters, digits, _ and -, and no name of a type")
