"""Schemas by version: the `schema_version` of a value picks the schema to validate it (AION)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

from trustgraph_prompt.contract.adapt_values import Decode
from trustgraph_prompt.contract.canonical_schema import JsonSchema, shown
from trustgraph_prompt.contract.compile_schema import Schema, plain_versions
from trustgraph_prompt.contract.explain import show
from trustgraph_prompt.contract.judge import Extra, Judge
from trustgraph_prompt.contract.limits import StepMeter
from trustgraph_prompt.errors import ContractError, Issue, Reason
from trustgraph_prompt.json_text.pointer import pointer

PROPERTY = "schema_version"
"""The property that names the version."""

MAX_VERSIONS = 50

_WRITTEN = re.compile(r"(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})")


class Version(NamedTuple):
    """A version of a schema. A minor version may only add optional properties to the one before."""

    major: int
    minor: int

    @classmethod
    def parse(cls, written: object) -> Version | None:
        """Parse a version such as `1.0`; None if it is invalid."""
        match = _WRITTEN.fullmatch(written) if isinstance(written, str) else None
        return cls(int(match[1]), int(match[2])) if match else None

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


def parse_versions(schemas: Mapping[str, Any]) -> dict[Version, Schema]:
    """Copy schemas by version, oldest first. Raises `ContractError`."""
    if not isinstance(schemas, Mapping) or not 1 <= len(schemas) <= MAX_VERSIONS:
        expected = f"1 to {MAX_VERSIONS} versions, each with its schema"
        raise ContractError("invalid versions", path="/versions", found=schemas, expected=expected)
    found = {}
    for written in schemas:
        if (version := Version.parse(written)) is None:
            raise ContractError("invalid version", path="/versions", found=written, expected='such as "1.0"')
        found[version] = written
    plain = plain_versions(schemas)
    return {version: plain[written] for version, written in sorted(found.items())}


class Versioned(NamedTuple):
    """The judge of a version, and the more tolerant one for values of a newer minor version.

    `names_property`: the schema mentions the property `schema_version`.
    """

    judge: Judge
    newer: Judge
    names_property: bool


class Versions:
    """Validates each value against the schema of its version.

    That is the newest schema of the same major version that is not newer than the value, else the oldest.
    Values without a version are validated by `unversioned`. Keys that a newer minor version adds are dropped
    if the schema rejects them. The schemas need not declare `schema_version`.
    """

    is_plain: Literal[False] = False  # no single schema decides

    @classmethod
    def of(
        cls,
        schemas: Mapping[Version, Schema],
        unversioned: Schema | None,
        extra: Extra | None,
        judge_of: Callable[[Schema | None, Extra | None], Judge],
    ) -> Versions:
        """Compile the schemas with `judge_of`. Raises `ContractError` with the version."""
        versions = {}
        of_unversioned: Judge | None = None
        for version, schema in schemas.items():
            place = pointer(("versions", str(version)))
            try:
                judge = replace(judge_of(schema, extra), place=place)
            except ContractError as error:
                raise error.at("", place) from None
            newer = judge if extra else replace(judge_of(schema, "ignore"), place=place)  # it may add keys
            versions[version] = Versioned(judge, newer, names_version(schema))
            if unversioned is schema:
                of_unversioned = judge
        return cls(versions, of_unversioned or judge_of(unversioned, extra))

    def __init__(self, versions: Mapping[Version, Versioned], unversioned: Judge) -> None:
        self._versions = versions
        self._unversioned = unversioned
        self._judges = judges = [unversioned, *(version.judge for version in versions.values())]
        self._widest = max(judges, key=lambda judge: judge.widest)
        self.widest = 2 * self._widest.widest
        self.demand = 2 * max(judge.demand for judge in judges)

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of all properties that the schemas declare at any level."""
        return frozenset().union(*(judge.names for judge in self._judges))

    def cost(self, value: Any, characters: int | None) -> int:
        """The steps to validate a value, against at most two of the schemas."""
        return 2 * self._widest.cost(value, characters)

    def conform(self, value: Any, meter: StepMeter) -> Any:
        """As `Judge.conform`."""
        judge, judged = self._chosen(value, meter)
        return value if judge is None else _unshown(judge.conform(judged, meter), judged, value)

    def opened(self, value: Any, meter: StepMeter, decode: Decode) -> Any:
        """As `Judge.opened`."""
        judge, judged = self._chosen(value, meter)
        return value if judge is None else _unshown(judge.opened(judged, meter, decode), judged, value)

    def take(self, value: Any, meter: StepMeter) -> tuple[Any, bool]:
        """As `Judge.take`."""
        judge, judged = self._chosen(value, meter)
        if judge is None:
            return value, False
        made, accepted = judge.take(judged, meter)
        return _unshown(made, judged, value), accepted

    def issues(self, value: Any, meter: StepMeter) -> tuple[Issue, ...]:
        """As `Judge.issues`."""
        judge, judged = self._chosen(value, meter)
        if judge is not None:
            return judge.issues(judged, meter)
        known = " or ".join(f"{major}.x" for major in sorted({version.major for version in self._versions}))
        message = f"expected {known}, found {show(value[PROPERTY])}"
        return (Issue(Reason.UNSUPPORTED_VERSION, message, f"/{PROPERTY}"),)

    def _chosen(self, value: Any, meter: StepMeter) -> tuple[Judge | None, Any]:
        """The judge of a value, and the value to pass to it; None if the version is not supported."""
        if not isinstance(value, dict) or PROPERTY not in value:
            return self._unversioned, value
        named = Version.parse(value[PROPERTY])
        version = None if named is None else nearest(named, self._versions)
        if named is None or version is None:
            return None, value
        judge, newer, names_property = self._versions[version]
        shown = value
        if not names_property:
            shown = {name: item for name, item in value.items() if name != PROPERTY}
        elif version != named:
            shown = {**value, PROPERTY: str(version)}
        return (newer if version < named and not judge.take(shown, meter)[1] else judge), shown


def names_version(schema: JsonSchema) -> bool:
    """Whether the schema mentions the property `schema_version`, apart from remarks such as examples."""
    return f'"{PROPERTY}"' in json.dumps(shown(schema, extra=None, coerce=False))


def naming_version(schema: JsonSchema, version: str) -> JsonSchema:
    """The schema with `schema_version` required: a value without it would be validated as the oldest."""
    keywords = schema if isinstance(schema, Mapping) else {}
    properties = {PROPERTY: {"const": version}}
    declared = keywords.get("properties", {})
    properties |= {name: declared[name] for name in declared if name != PROPERTY}
    required = [PROPERTY, *(name for name in keywords.get("required", ()) if name != PROPERTY)]
    return {"type": "object", **keywords, "properties": properties, "required": required}


def nearest(named: Version, versions: Iterable[Version]) -> Version | None:
    """The newest version with the same major number that is not newer, else the oldest of them, if any."""
    related = [version for version in versions if version.major == named.major]
    return max((each for each in related if each <= named), default=related[0] if related else None)


def _unshown(made: Any, judged: Any, value: Any) -> Any:
    """Put the original `schema_version` of a value back into the result for `judged`."""
    if made is judged:
        return value
    if judged is value:
        return made
    shown = {**made, PROPERTY: value[PROPERTY]}
    return {name: shown[name] for name in value if name in shown}
