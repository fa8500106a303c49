"""What a schema has from its bases."""

from __future__ import annotations

from trustgraph_prompt.language.nodes import File, SchemaDef, SchemaField
from trustgraph_prompt.language.problem import Problem, complain


class Schemas:
    """The schemas of a file by name, with all their fields."""

    def __init__(self, file: File) -> None:
        self.by_name = {schema.name: schema for schema in file.schemas}
        self._fields: dict[str, dict[str, SchemaField]] = {}

    def __getitem__(self, name: str) -> SchemaDef:
        """The schema of that name. Raises `LanguageError` where there is none."""
        if name not in self.by_name:
            complain([Problem(f"there is no schema {name}", None)], None)
        return self.by_name[name]

    def fields(self, name: str) -> tuple[SchemaField, ...]:
        """The fields of a schema and of all its bases: those of the bases first, in their order; one that is
        said again stands in the place of the former."""
        return tuple(self._all(name).values())

    def _all(self, name: str) -> dict[str, SchemaField]:
        if name not in self._fields:
            schema = self[name]
            found: dict[str, SchemaField] = {}
            for base in schema.bases:
                found |= self._all(base.name)
            self._fields[name] = found | {field.name: field for field in schema.fields}
        return self._fields[name]
