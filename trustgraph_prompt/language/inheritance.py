"""The schemas of a file with the fields that they inherit, and the field that discriminates between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trustgraph_prompt.language.nodes import File, Literal, SchemaDef, SchemaField, alternatives
from trustgraph_prompt.language.problem import Problem, complain


class Schemas:
    """The schemas of a file by name, with all their fields."""

    def __init__(self, file: File) -> None:
        self.by_name = {schema.name: schema for schema in file.schemas}
        self._fields: dict[str, dict[str, SchemaField]] = {}
        self._literals: dict[str, dict[str, list[tuple[bool, Any]]]] = {}

    def __getitem__(self, name: str) -> SchemaDef:
        """The schema of that name. Raises `LanguageError` for an unknown name."""
        if name not in self.by_name:
            complain([Problem(f"unknown schema {name}", None)], None)
        return self.by_name[name]

    def fields(self, name: str) -> tuple[SchemaField, ...]:
        """The fields of a schema, those of its bases first; a field that replaces another takes its place."""
        return tuple(self._all(name).values())

    def literals(self, name: str) -> dict[str, list[tuple[bool, Any]]]:
        """The values of each required field whose type consists of literals, by the name of the field."""
        if name not in self._literals:
            self._literals[name] = {
                field.name: values for field in self.fields(name) if (values := _literals(field))
            }
        return self._literals[name]

    def _all(self, name: str) -> dict[str, SchemaField]:
        if name not in self._fields:
            schema = self[name]
            inherited: dict[str, SchemaField] = {}
            for base in schema.bases:
                inherited |= self._all(base.name)
            self._fields[name] = inherited | {field.name: field for field in schema.fields}
        return self._fields[name]


def discriminator(schemas: Schemas, names: Sequence[str]) -> str | None:
    """The field by whose literals each of the named schemas is recognised; None if there is none."""
    candidates = schemas.literals(names[0])
    return next((field for field in candidates if _discriminates(schemas, names, field)), None)


def _discriminates(schemas: Schemas, names: Sequence[str], field: str) -> bool:
    seen: set[tuple[bool, Any]] = set()
    for name in names:
        values = schemas.literals(name).get(field, [])
        if not values or len(values) > len(set(values)) or not seen.isdisjoint(values):
            return False
        seen.update(values)
    return True


def _literals(field: SchemaField) -> list[tuple[bool, Any]]:
    """The values of a required field whose type consists of literals, as JSON compares them; else none."""
    if not field.is_required:
        return []
    members = alternatives(field.type)
    literals = [member.as_json for member in members if isinstance(member, Literal)]
    return literals if len(literals) == len(members) else []
