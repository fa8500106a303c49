"""What a value leaves out, and its schema says."""

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
"""How many values may be filled in within a default."""

_UNDER_WAY = object()


class Defaults:
    """Fills in defaults where fields are missing, and null for a `T?`; in values that are as declared.

    Raises `LanguageError` for defaults that hold each other without an end; `where` names their text.
    """

    def __init__(self, file: File, types: Mapping[str, Mapping[str, Any]], where: str | None) -> None:
        self._file = file
        self._types = types
        self._where = where
        self._schemas = Schemas(file)
        self._contracts: dict[TypeExpr, Contract] = {}
        self._whole: dict[int, Any] = {}
        for schema in file.schemas:
            for field in schema.fields:
                if field.default is not None:
                    self._default(field, field.default)

    def filled(self, value: Any, expr: TypeExpr) -> Any:
        """A value of a type, whole, its fields in the order of their schema."""
        match expr, value:
            case Annotated(inner), _:
                return self.filled(value, inner)
            case Optional(inner), _ if value is not None:
                return self.filled(value, inner)
            case Union(members), _:
                meant = (member for member in members if self._is_a(value, member))
                return self.filled(value, next(meant, members[0]))
            case ListOf(item), list():
                return [self.filled(one, item) for one in value]
            case MapOf(item), dict():
                return {key: self.filled(one, item) for key, one in value.items()}
            case Name(name), dict() if name in self._schemas.by_name:
                return self._object(value, name)
        return value

    def _object(self, value: dict[str, Any], name: str) -> dict[str, Any]:
        whole: dict[str, Any] = {}
        for field in self._schemas.fields(name):
            if field.name in value:
                whole[field.name] = self.filled(value[field.name], field.type)
            elif field.default is not None:
                whole[field.name] = copy.deepcopy(self._default(field, field.default))
            elif not field.may_be_missing:
                whole[field.name] = None
        return {**whole, **{key: one for key, one in value.items() if key not in whole}}

    def _default(self, field: SchemaField, default: Default) -> Any:
        """The default of a field, whole itself."""
        key = id(field)  # which lives as long as the file
        if key not in self._whole:
            self._whole[key] = _UNDER_WAY
            try:
                whole = self.filled(default.value, field.type)
            except RecursionError:
                whole = _UNDER_WAY
            if whole is _UNDER_WAY or _count(whole) > _count(default.value) + MAX_VALUES:
                self._refuse(default, "more and more")
            self._whole[key] = whole
        if self._whole[key] is _UNDER_WAY:
            self._refuse(default, "itself")
        return self._whole[key]

    def _refuse(self, default: Default, found: str) -> None:
        wrong = "what is filled in for this holds others without an end"
        complain([Problem(wrong, default.at, found, f"at most {MAX_VALUES:,} values")], self._where)

    def _is_a(self, value: Any, expr: TypeExpr) -> bool:
        if expr not in self._contracts:
            schema = to_json_schema(self._file, expr, types=self._types)
            self._contracts[expr] = Contract.from_schema(schema)
        return self._contracts[expr].accepts(value)


def _count(value: Any) -> int:
    """A value and all that is in it."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_count, parts))
