"""What a value leaves out, and its schema says."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.language import File, to_json_schema
from trustgraph_prompt.language.inherit import Schemas
from trustgraph_prompt.language.nodes import ListOf, MapOf, Name, Optional, TypeExpr, Union


class Defaults:
    """Fills in defaults where fields are missing, null for a `T?`; in values that are as declared."""

    def __init__(self, file: File, types: Mapping[str, Mapping[str, Any]]) -> None:
        self._file = file
        self._types = types
        self._schemas = Schemas(file)
        self._contracts: dict[TypeExpr, Contract] = {}

    def filled(self, value: Any, expr: TypeExpr) -> Any:
        """A value of a type, whole, its fields in the order of their schema."""
        match expr, value:
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
                whole[field.name] = copy.deepcopy(field.default.value)
            else:
                whole[field.name] = None
        return {**whole, **{key: one for key, one in value.items() if key not in whole}}

    def _is_a(self, value: Any, expr: TypeExpr) -> bool:
        if expr not in self._contracts:
            schema = to_json_schema(self._file, expr, types=self._types)
            self._contracts[expr] = Contract.from_schema(schema)
        return self._contracts[expr].accepts(value)
