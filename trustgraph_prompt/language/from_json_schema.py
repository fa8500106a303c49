"""A JSON Schema (2020-12) as schemas of the language, where it can say the same."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Mapping
from typing import Any

from trustgraph_prompt.errors import excerpt
from trustgraph_prompt.json_text.pointer import steps
from trustgraph_prompt.language.check import MAX_SCHEMAS, check, check_field
from trustgraph_prompt.language.from_json_type import Schema, Types, description_of, refuse, within
from trustgraph_prompt.language.inheritance import Schemas, discriminator
from trustgraph_prompt.language.names import Names
from trustgraph_prompt.language.nodes import Default, File, Optional, SchemaDef, SchemaField, nullable
from trustgraph_prompt.language.scalars import RESERVED
from trustgraph_prompt.language.write import NAME

_DEFINITIONS = ("$defs", "definitions")
_OF_THE_WHOLE = frozenset(("$schema", "$id", *_DEFINITIONS))
_OF_A_SCHEMA = frozenset(
    ("type", "properties", "required", "description", "title", "$comment", "additionalProperties")
)


def from_json_schema(schema: Mapping[str, Any], name: str) -> File:
    """The schemas that say the same: one of that `name` for the object at the root, one for each definition
    that it uses, and one for each object within an object, named after its title or its field.

    What is read can be written as it was, but for what says nothing: `to_json_schema` gives the normal form,
    and from that this function gives the same file again. Titles go, and formats and ids of schemas.

    Raises `LanguageError` whose `path` is a JSON Pointer to what has no word in the language.
    """
    try:
        json.dumps(schema, ensure_ascii=False, allow_nan=False, default=dict).encode()
    except (TypeError, ValueError, RecursionError) as error:
        refuse("", f"this is not JSON: {excerpt(str(error))}")
    return _Whole(schema, name).file()


class _Whole:
    """Reads one JSON Schema: the objects that are still to be read wait until the one before is done."""

    def __init__(self, schema: Mapping[str, Any], name: str) -> None:
        if not isinstance(schema, Mapping):
            refuse("", "this is not a schema", schema, "an object")
        _check_name(name, "")
        self._name = name
        self._root = {key: value for key, value in schema.items() if key not in _OF_THE_WHOLE}
        self._definitions: dict[str, tuple[Any, str]] = {}
        for keyword in _DEFINITIONS:
            held = schema.get(keyword, {})
            if not isinstance(held, Mapping):
                refuse(within("", keyword), "these are not definitions", held, "schemas by name")
            for key, one in held.items():
                self._definitions.setdefault(key, (one, within("", keyword, key)))
        place = ""
        if self._root.keys() == {"$ref"}:  # as Pydantic writes a schema that holds itself
            self._root, place = self._definitions[self._key(self._root["$ref"], "/$ref")]
        if not _is_record(self._root):
            refuse(
                place,
                "the root must be an object with properties",
                self._root,
                '"type": "object", "properties"',
            )
        self._types = Types(self._follow, self._record)
        self._waiting: deque[tuple[str, Schema, str]] = deque([(name, self._root, place)])
        self._names = {name}
        self._reading = name

    def file(self) -> File:
        """All schemas: the root, the definitions in their order, then those that had no name."""
        schemas: dict[str, SchemaDef] = {}
        while self._waiting:
            self._reading, schema, path = self._waiting.popleft()
            schemas[self._reading] = self._schema(schema, path)
        in_order = [name for name in (self._name, *self._definitions) if name in schemas]
        file = File(tuple(schemas[name] for name in dict.fromkeys((*in_order, *schemas))))
        for names, path in self._types.exclusive:
            if discriminator(Schemas(file), names) is None:
                refuse(
                    path,
                    "the alternatives of oneOf overlap",
                    names,
                    "a field with different literals in each",
                )
        for problem in check(file, {}):
            refuse("", problem.message, problem.found, problem.expected)
        return file

    def _schema(self, schema: Schema, path: str) -> SchemaDef:
        for keyword in schema:
            if keyword not in _OF_A_SCHEMA:
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
        needed = set(required)
        fields = tuple(
            self._field(name, one, name in needed, within(path, "properties", name))
            for name, one in properties.items()
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
            refuse(
                within(path, "default"),
                "a field with a default cannot be required",
                name,
                f"{name} not in `required`",
            )
        if not is_required:
            expr = nullable(expr)
        may_be_missing = not (is_required or default is not None or isinstance(expr, Optional))
        field = SchemaField(name, expr, typed.constraints, default, typed.description, may_be_missing)
        for problem in check_field(field, Names(frozenset(self._names), {})):
            refuse(path, problem.message, problem.found, problem.expected)
        return field

    def _follow(self, reference: Any, path: str) -> str | tuple[Any, str]:
        """The schema that a reference leads to, or what there is instead of one."""
        path = within(path, "$ref")
        if reference == "#":
            return self._name
        key = self._key(reference, path)
        definition, place = self._definitions[key]
        if not _is_record(definition):
            return definition, place
        if key in (self._root.get("title"), self._name) and _bare(definition) == _bare(self._root):
            return self._name
        if key == self._name:
            refuse(place, "the root has the same name", key, "another name")
        if key not in self._names:
            _check_name(key, place)
            self._wait(key, definition, place)
        return key

    def _key(self, reference: Any, path: str) -> str:
        """The definition that a reference names."""
        match = _REFERENCE.fullmatch(reference) if isinstance(reference, str) else None
        key = steps(f"/{match[1]}")[0] if match else ""
        if match is None or key not in self._definitions:
            refuse(path, "the reference has no definition", reference, "#/$defs/ and a name")
        return key

    def _record(self, schema: Schema, path: str) -> str:
        """The name for an object that has none."""
        field = re.findall(r"/properties/([^/]*)", path)[-1]
        title = schema.get("title")
        made = "".join(part[:1].upper() + part[1:] for part in re.findall(r"[^\W_]+", field))
        name = title if isinstance(title, str) and NAME.fullmatch(title) else f"{self._reading}{made}"
        taken = self._names | self._definitions.keys() | RESERVED
        candidates = (name, *(f"{name}{number}" for number in range(2, len(taken) + 3)))
        free = next(one for one in candidates if one not in taken)
        self._wait(free, schema, path)
        return free

    def _wait(self, name: str, schema: Schema, path: str) -> None:
        self._names.add(name)
        if len(self._names) > MAX_SCHEMAS:
            refuse(path, "too many schemas", len(self._names), f"at most {MAX_SCHEMAS} in a file")
        self._waiting.append((name, schema, path))


_REFERENCE = re.compile(r"#/(?:\$defs|definitions)/([^/]+)")


def _is_record(schema: Any) -> bool:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return isinstance(properties, Mapping) and bool(properties) and schema.get("type") == "object"


def _bare(schema: Schema) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != "title"}


def _check_name(name: str, path: str) -> None:
    if not NAME.fullmatch(name) or name in RESERVED:
        refuse(path, "invalid name of a schema", name, "letters, digits, _ and -, and no name of a type")
