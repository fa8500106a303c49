"""Which of several schemas a value is held against: the one of the version that it names (seed 3)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from trustgraph_prompt.contract.conform import Decode
from trustgraph_prompt.contract.explain import show
from trustgraph_prompt.contract.judge import Judge
from trustgraph_prompt.contract.limits import StepMeter
from trustgraph_prompt.contract.schema import Schema, plain_versions
from trustgraph_prompt.errors import ContractError, Issue, Reason

PROPERTY = "schema_version"
"""The property that names the version."""

MAX_VERSIONS = 50

_WRITTEN = re.compile(r"(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})")


class Version(NamedTuple):
    """Within a major version, each minor one has at most more optional properties than the one before."""

    major: int
    minor: int

    @classmethod
    def parse(cls, written: object) -> Version | None:
        """From `1.0`; None where that is no version."""
        match = _WRITTEN.fullmatch(written) if isinstance(written, str) else None
        return cls(int(match[1]), int(match[2])) if match else None

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


def parse_versions(schemas: Mapping[str, Any]) -> dict[Version, Schema]:
    """Copies of the schemas by their versions, the oldest first. Raises `ContractError`."""
    if not isinstance(schemas, Mapping) or not 1 <= len(schemas) <= MAX_VERSIONS:
        expected = f"1 to {MAX_VERSIONS} versions, each with its schema"
        raise ContractError("no usable versions", path="/versions", found=schemas, expected=expected)
    found = {}
    for written in schemas:
        if (version := Version.parse(written)) is None:
            raise ContractError("no version", path="/versions", found=written, expected='such as "1.0"')
        found[version] = written
    plain = plain_versions(schemas)
    return {version: plain[written] for version, written in sorted(found.items())}


class Versioned(NamedTuple):
    """How values of one version are judged, and how those of a newer minor one that are refused so.

    `names_property` is whether the schema speaks of the property that names the version.
    """

    judge: Judge
    newer: Judge
    names_property: bool


class Versions:
    """Judges values, each by the schema of the version that it names.

    That is the newest one of the same major version which is not newer than the value, else the oldest; a
    value that names no version is held against `unversioned`. What a newer minor version adds is dropped
    where the schema does not let it pass. The property itself need not be in the schemas.
    """

    is_plain = False

    def __init__(self, versions: Mapping[Version, Versioned], unversioned: Judge) -> None:
        self._versions = versions
        self._unversioned = unversioned
        judges = [unversioned, *(one.judge for one in versions.values())]
        self._widest = max(judges, key=lambda judge: judge.widest)
        self.widest = 2 * self._widest.widest
        self.demand = 2 * max(judge.demand for judge in judges)

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of all properties that the schemas declare anywhere."""
        judges = [self._unversioned, *(one.judge for one in self._versions.values())]
        return frozenset().union(*(judge.names for judge in judges))

    def cost(self, value: Any, characters: int | None) -> int:
        """How many steps the schemas take for a value, which is held against two of them at most."""
        return 2 * self._widest.cost(value, characters)

    def conform(self, value: Any, meter: StepMeter) -> Any:
        """What is judged in place of the value."""
        judge, judged = self._chosen(value, meter)
        return value if judge is None else _unshown(judge.conform(judged, meter), judged, value)

    def opened(self, value: Any, meter: StepMeter, decode: Decode) -> Any:
        """The value with the lists and objects that strings say, as its version wants them."""
        judge, judged = self._chosen(value, meter)
        return value if judge is None else _unshown(judge.opened(judged, meter, decode), judged, value)

    def take(self, value: Any, meter: StepMeter) -> tuple[Any, bool]:
        """What is judged in place of the value, and whether that is what its version says."""
        judge, judged = self._chosen(value, meter)
        if judge is None:
            return value, False
        made, accepted = judge.take(judged, meter)
        return _unshown(made, judged, value), accepted

    def accepts_plainly(self, values: list[Any], at_once: int | None = None) -> bool:
        """Never asked: there is no one schema for all."""
        raise NotImplementedError

    def issues(self, value: Any, meter: StepMeter) -> tuple[Issue, ...]:
        """What is wrong: empty exactly where `take` accepts it."""
        judge, judged = self._chosen(value, meter)
        return (self._unsupported(value),) if judge is None else judge.issues(judged, meter)

    def _chosen(self, value: Any, meter: StepMeter) -> tuple[Judge | None, Any]:
        """The judge of a value, and what it is shown; none where the version is not supported."""
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

    def _unsupported(self, value: Any) -> Issue:
        known = " or ".join(f"{major}.x" for major in sorted({one.major for one in self._versions}))
        message = f"expected {known}, found {show(value[PROPERTY])}"
        return Issue(Reason.UNSUPPORTED_VERSION, message, f"/{PROPERTY}")


def nearest(named: Version, versions: Iterable[Version]) -> Version | None:
    """The newest version of the same major one that is not newer, else the oldest; None without any."""
    related = [one for one in versions if one.major == named.major]
    return max((one for one in related if one <= named), default=related[0] if related else None)


def _unshown(made: Any, judged: Any, value: Any) -> Any:
    """What became of a value of which `judged` was shown: with the version that it names."""
    if made is judged:
        return value
    if judged is value:
        return made
    shown = {**made, PROPERTY: value[PROPERTY]}
    return {name: shown[name] for name in value if name in shown}
