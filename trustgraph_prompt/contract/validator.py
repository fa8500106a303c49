"""Compiled schemas, which validate a value only if the cost is known to be acceptable."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, cached_property
from typing import Any, TypeVar
from urllib.parse import quote

import jsonschema_rs
import orjson

from trustgraph_prompt.contract.alternatives import Alternatives
from trustgraph_prompt.contract.limits import MAX_CALL, MAX_STEPS, StepMeter, TooCostly
from trustgraph_prompt.contract.references import Path, References
from trustgraph_prompt.contract.validation_cost import ValidationCost
from trustgraph_prompt.json_text.pointer import pointer

T = TypeVar("T")

_EXPLAINED = 40_000  # steps; each may find an error, which takes a kilobyte or two
_EXPLANATION = 100  # times the steps of validating, as an error takes microseconds
_TOO_LARGE = "too large, or nested too deep, to be held against this schema"
_ADDRESS = "contract:///this"  # the URI by which other schemas refer to this one

_NEWER_FORMATS = (
    *("duration", "uuid", "idn-hostname", "iri", "iri-reference", "uri-reference", "uri-template"),
    *("json-pointer", "relative-json-pointer"),
)


class Validator:
    """A compiled schema. Its methods raise `ValueError` for a value that would take too much to validate.

    Formats are asserted, nothing is fetched, patterns take linear time. Raises `ContractError`, and the
    errors of the library for an invalid schema.
    """

    def __init__(self, schema: dict[str, Any] | bool, depth: int) -> None:
        self._schema = schema
        self._depth = depth
        self._alone: dict[int, tuple[jsonschema_rs.Validator, ValidationCost]] = {}
        self.references = References(schema if isinstance(schema, dict) else {})
        self._compiled = self._compile(schema)
        self._cost = ValidationCost(self.references, depth)
        self._explaining = self._cost
        if self._cost.rules_out:
            self._explaining = ValidationCost(self.references, depth, explained=True)
        self.widest = self._cost.widest  # maximum steps for each character of a value
        self.widest_explained = self._explaining.widest  # the same for explanations
        self._is_bounded = self._cost.is_small and self._cost.has_end
        self.is_valid: Callable[[Any], bool] = self._compiled.is_valid if self._is_bounded else self._is_valid

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of all properties that the schema declares at any level."""
        schemas = self.references.subschemas()
        return frozenset(name for _, schema in schemas for name in schema.get("properties", ()))

    @cached_property
    def union(self) -> Alternatives | None:
        """The schema as a union with a discriminator, if it is one."""
        return Alternatives.of(self.references)

    @cached_property
    def paths(self) -> dict[int, Path]:
        """The path of each subschema, by its `id()`."""
        return {id(schema): path for path, schema in self.references.subschemas()}

    def are_valid(self, values: list[Any], at_once: int | None = None) -> bool:
        """Whether all values are valid; `at_once` is how many are validated in one call of native code."""
        if not (self._is_bounded or self._is_harmless(values)):
            return all(map(self.is_valid, values))
        if at_once is None or at_once >= len(values):
            return self._list.is_valid(values)
        parts = (values[start : start + at_once] for start in range(0, len(values), at_once))
        return all(map(self._list.is_valid, parts))

    def cost(self, value: Any, characters: int | None = None) -> int:
        """The steps to validate a value; `characters` is the length of its text, None if unknown.

        Raises `TooCostly` for more steps than one call of native code may take.
        """
        if characters is not None and characters * self.widest <= MAX_CALL:
            return characters * self.widest
        steps = self._cost.of(value, MAX_CALL)
        if steps > MAX_CALL:
            raise TooCostly(_TOO_LARGE)
        return steps

    def errors(
        self, value: Any, meter: StepMeter, branch: Mapping[str, Any] | None = None
    ) -> Iterable[jsonschema_rs.ValidationError]:
        """The errors of an invalid value; only the first one if there may be many.

        With `branch`, only the errors of that branch; the error of a union contains those of all branches.
        """
        compiled, cost = (self._compiled, self._explaining) if branch is None else self._part_alone(branch)
        steps = cost.of(value, _EXPLAINED)
        if steps <= _EXPLAINED:
            if not meter.may_explain(_EXPLANATION * steps):
                raise TooCostly("does not meet the schema; there is too much of the answer to say where")
            meter.spend(_EXPLANATION * steps)
            return compiled.iter_errors(value)
        meter.spend(self.cost(value))
        if cost.has_alternatives:  # the first error would contain those of all branches
            raise TooCostly("does not meet the schema, and is too large to say where")
        try:
            compiled.validate(value)
        except jsonschema_rs.ValidationError as error:
            return [error]
        return []

    def part(self, path: Iterable[str | int]) -> jsonschema_rs.Validator:
        """Compile the subschema at `path`."""
        return self._compile_beside({"$ref": f"{_ADDRESS}#{quote(pointer(path))}"})

    def pattern(self, pattern: str) -> jsonschema_rs.Validator:
        """Compile a pattern, which then takes linear time."""
        return self._compile({"pattern": pattern})

    def _part_alone(self, part: Mapping[str, Any]) -> tuple[jsonschema_rs.Validator, ValidationCost]:
        if id(part) not in self._alone:
            compiled = self.part(self.paths[id(part)])
            self._alone[id(part)] = (
                compiled,
                ValidationCost(self.references, self._depth, part=part, explained=True),
            )
        return self._alone[id(part)]

    def _is_valid(self, value: Any) -> bool:
        if not self._is_harmless(value) and self._cost.of(value, MAX_STEPS) > MAX_STEPS:
            raise TooCostly(_TOO_LARGE)
        return self._compiled.is_valid(value)

    def _is_harmless(self, value: Any) -> bool:
        """Whether a value certainly costs little: it is not nested deep, which the encoder checks quickly."""
        if not self._cost.is_small:
            return False
        try:
            orjson.dumps(value)
        except TypeError:  # more than 254 levels, or an integer of more than 64 bits
            return False
        return True

    @cached_property
    def _registry(self) -> jsonschema_rs.Registry:
        return jsonschema_rs.Registry([(_ADDRESS, self._schema)])

    @cached_property
    def _list(self) -> jsonschema_rs.Validator:
        return self._compile_beside({"items": {"$ref": _ADDRESS}})

    def _compile_beside(self, schema: dict[str, Any]) -> jsonschema_rs.Validator:
        draft = self.references.root.get("$schema")
        return self._compile(schema if draft is None else {"$schema": draft, **schema}, self._registry)

    def _compile(
        self, schema: dict[str, Any] | bool, registry: jsonschema_rs.Registry | None = None
    ) -> jsonschema_rs.Validator:
        return jsonschema_rs.validator_for(
            schema,
            offline=True,
            validate_formats=True,
            formats=_newer_formats() if self.references.are_old else None,
            pattern_options=jsonschema_rs.RegexOptions(),
            registry=registry,
        )


@cache
def _newer_formats() -> dict[str, Callable[..., bool]]:
    """The formats that drafts 4 to 7, or some of them, do not have."""
    return {
        name: jsonschema_rs.validator_for({"format": name}, offline=True, validate_formats=True).is_valid
        for name in _NEWER_FORMATS
    }


_SURROGATE = re.compile("[\ud800-\udfff]")


def surrogate_safe(function: Callable[[Any], T], value: Any) -> T:
    """Call `function` with a value, with lone surrogates replaced by U+FFFD if there are any.

    JSON may escape lone surrogates, but they cannot be encoded in UTF-8 for native code. Raises `TooCostly`
    if they cannot be replaced.
    """
    try:
        return function(value)
    except UnicodeEncodeError:
        try:
            value = _readable(value)
        except RecursionError:
            raise TooCostly("nested too deep to be held against this schema") from None
        return function(value)


def readable(text: str) -> str:
    """Replace lone surrogates by U+FFFD."""
    return _SURROGATE.sub("\ufffd", text)


def _readable(value: Any) -> Any:
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, list):
        return [_readable(item) for item in value]
    if not isinstance(value, dict):
        return value
    made = {readable(name): _readable(item) for name, item in value.items()}
    if len(made) < len(value):
        raise TooCostly("two keys differ in nothing but halves of surrogate pairs")
    return made
