"""Fills in the defaults that a schema declares."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.language import File, to_json_schema
from trustgraph_prompt.language.inheritance import Schemas
from trustgraph_prompt.language.nodes import (
    Annotated,
    Default,
    ListOf,
    MapOf,
    Name,
    Optional,
    SchemaField,
    TypeExpr,
    Union,
)
from trustgraph_prompt.language.problem import Problem, complain

MAX_VALUES = 1_000
"""The maximum number of values that are filled in within one default."""

_IN_PROGRESS = object()


class Defaults:
    """Fills in missing fields of valid values: their default, or null for a `T?`.

    Raises `LanguageError` for defaults that contain each other endlessly; `where` names their text.
    """

    def __init__(self, file: File, types: Mapping[str, Mapping[str, Any]], where: str | None) -> None:
        self._file = file
        self._types = types
        self._where = where
        self._schemas = Schemas(file)
        self._contracts: dict[TypeExpr, Contract] = {}
        self._completed: dict[int, Any] = {}
        for schema in file.schemas:
            for field in schema.fields:
                if field.default is not None:
                    self._default(field, field.default)

    def filled(self, value: Any, expr: TypeExpr) -> Any:
        """A value of a type with its defaults filled in and its fields in the order of their schema."""
        match expr, value:
            case Annotated(inner), _:
                return self.filled(value, inner)
            case Optional(inner), _ if value is not None:
                return self.filled(value, inner)
            case Union(members), _:
                matching = (member for member in members if self._matches(value, member))
                return self.filled(value, next(matching, members[0]))
            case ListOf(item), list():
                return [self.filled(element, item) for element in value]
            case MapOf(item), dict():
                return {key: self.filled(element, item) for key, element in value.items()}
            case Name(name), dict() if name in self._schemas.by_name:
                completed: dict[str, Any] = {}
                for field in self._schemas.fields(name):
                    if field.name in value:
                        completed[field.name] = self.filled(value[field.name], field.type)
                    elif field.default is not None:
                        completed[field.name] = copy.deepcopy(self._default(field, field.default))
                    elif not field.may_be_missing:
                        completed[field.name] = None
                return completed | {key: extra for key, extra in value.items() if key not in completed}
        return value

    def _default(self, field: SchemaField, default: Default) -> Any:
        """The default of a field, with its own defaults filled in."""
        key = id(field)  # which lives as long as the file
        if key not in self._completed:
            self._completed[key] = _IN_PROGRESS
            try:
                completed = self.filled(default.value, field.type)
            except RecursionError:
                completed = _IN_PROGRESS
            if completed is _IN_PROGRESS or _count(completed) > _count(default.value) + MAX_VALUES:
                self._refuse(default, "more")
            self._completed[key] = completed
        if self._completed[key] is _IN_PROGRESS:
            self._refuse(default, "itself")
        return self._completed[key]

    def _refuse(self, default: Default, found: str) -> None:
        message = "the defaults within this default never end"
        complain([Problem(message, default.at, found, f"at most {MAX_VALUES:,} values")], self._where)

    def _matches(self, value: Any, expr: TypeExpr) -> bool:
        if expr not in self._contracts:
            schema = to_json_schema(self._file, expr, types=self._types)
            self._contracts[expr] = Contract.from_schema(schema)
        return self._contracts[expr].accepts(value)


def _count(value: Any) -> int:
    """The number of values in a value, itself included."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_count, parts))
