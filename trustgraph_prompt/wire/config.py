"""Requests, responses and change notifications of TrustGraph's config service."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from trustgraph_prompt.errors import RequestError
from trustgraph_prompt.wire.records import Error, Record, decode, json_type, take

_RESPONSE, _PUSH = "ConfigResponse", "ConfigPush"


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """The key of a value in its workspace."""

    type: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """A value as JSON text, None if there is none. `workspace` is empty in a response about one workspace."""

    type: str = ""
    key: str = ""
    value: str | None = ""
    workspace: str = ""


@dataclass(frozen=True, slots=True)
class ConfigRequest(Record):
    """A request for an `operation`, such as getvalues (workspace and type) or getkeys-all-ws (type)."""

    operation: str
    workspace: str = ""
    keys: Sequence[ConfigKey] = ()
    type: str = ""
    values: Sequence[ConfigValue] = ()


@dataclass(frozen=True, slots=True)
class ConfigResponse:
    """The requested `values` as of `version`, or an error."""

    version: int = 0
    values: Sequence[ConfigValue] = ()
    directory: Sequence[str] = ()
    config: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    error: Error | None = None

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode a record. Raises `RequestError`, which names the invalid field."""
        record = decode(data, _RESPONSE)
        fields = {"values": [], **take(record, _RESPONSE, values=list, version=int)}
        fields["values"] = [_value(*numbered) for numbered in enumerate(fields["values"])]
        fields |= _strings(record, _RESPONSE, ("directory",))
        fields |= take(record, _RESPONSE, config=dict)
        return cls(**fields, error=Error.of(record, _RESPONSE))


@dataclass(frozen=True, slots=True)
class WorkspaceChanges:
    """Workspaces that were created or deleted."""

    created: Sequence[str] = ()
    deleted: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ConfigPush:
    """Announces `version` and the changed workspaces by type. A service that starts sends no changes."""

    version: int = 0
    changes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    workspace_changes: WorkspaceChanges | None = None

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode a record. Raises `RequestError`, which names the invalid field."""
        record = decode(data, _PUSH)
        fields = take(record, _PUSH, changes=dict, workspace_changes=dict, version=int)
        if changes := fields.get("changes"):
            fields["changes"] = _strings(changes, f"{_PUSH}/changes", changes)
        if (workspaces := fields.get("workspace_changes")) is not None:
            both = _strings(workspaces, f"{_PUSH}/workspace_changes", ("created", "deleted"))
            fields["workspace_changes"] = WorkspaceChanges(**both)
        return cls(**fields)


def _value(index: int, value: object) -> ConfigValue:
    where = f"{_RESPONSE}/values/{index}"
    if not isinstance(value, dict):
        raise RequestError(f"{where}: found {json_type(value)}, expected an object")
    return ConfigValue(**{"value": None, **take(value, where, type=str, key=str, value=str, workspace=str)})


def _strings(record: Mapping[str, Any], where: str, names: Iterable[str]) -> dict[str, list[str]]:
    """Take lists of strings; one that is missing or null is empty."""
    lists: dict[str, list[str]] = {}
    for name in names:
        lists[name] = take(record, where, **{name: list}).get(name, [])
        for index, string in enumerate(lists[name]):
            if not isinstance(string, str):
                raise RequestError(f"{where}/{name}/{index}: found {json_type(string)}, expected a string")
    return lists
