"""The verdict on a value, at a price that is known before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jsonschema_rs

from trustgraph_prompt.contract.effort import MAX_EFFORT, Effort

_EXPLAINED = 50_000  # subschemas; each may find an error, which takes a kilobyte or two


class Validator:
    """A compiled schema. Its methods raise `ValueError` for a value that takes too much to judge."""

    def __init__(self, compiled: jsonschema_rs.Validator, effort: Effort | None) -> None:
        self._compiled = compiled
        self._effort = effort
        self.is_valid = compiled.is_valid if effort is None or effort.is_small else self._is_valid

    def errors(self, value: Any) -> Iterable[jsonschema_rs.ValidationError]:
        """What is wrong with a value that is not valid; only the first of it where that may be much."""
        if self._effort is None or not self._effort.exceeds(_EXPLAINED, value):
            return self._compiled.iter_errors(value)
        if self._effort.exceeds(MAX_EFFORT, value):
            raise ValueError("too large, or nested too deep, to be held against this schema")
        if self._effort.has_alternatives:  # the first error would come with all of theirs
            raise ValueError("does not meet the schema, and is too large to say where")
        try:
            self._compiled.validate(value)
        except jsonschema_rs.ValidationError as error:
            return [error]
        return []

    def _is_valid(self, value: Any) -> bool:
        if self._effort is not None and self._effort.exceeds(MAX_EFFORT, value):
            raise ValueError("too large, or nested too deep, to be held against this schema")
        return self._compiled.is_valid(value)
