"""Requests, responses and change notifications of TrustGraph's config service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from trustgraph_prompt.errors import RequestError
from trustgraph_prompt.wire.records import Error, Record, decode, json_type, take, take_optional

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
        values = take(record, "values", list, [], _RESPONSE)
        return cls(
            version=take(record, "version", int, 0, _RESPONSE),
            values=[_value(value, f"{_RESPONSE}/values/{index}") for index, value in enumerate(values)],
            directory=_strings(record, "directory", _RESPONSE),
            config=take(record, "config", dict, {}, _RESPONSE),
            error=Error.of(record, _RESPONSE),
        )


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
        changes = take(record, "changes", dict, {}, _PUSH)
        workspaces = take_optional(record, "workspace_changes", dict, _PUSH)
        return cls(
            version=take(record, "version", int, 0, _PUSH),
            changes={type: _strings(changes, type, f"{_PUSH}/changes") for type in changes},
            workspace_changes=None
            if workspaces is None
            else WorkspaceChanges(
                *(_strings(workspaces, name, f"{_PUSH}/workspace_changes") for name in ("created", "deleted"))
            ),
        )


def _value(value: object, where: str) -> ConfigValue:
    if not isinstance(value, dict):
        raise RequestError(f"{where}: found {json_type(value)}, expected an object")
    return ConfigValue(
        type=take(value, "type", str, "", where),
        key=take(value, "key", str, "", where),
        value=take_optional(value, "value", str, where),
        workspace=take(value, "workspace", str, "", where),
    )


def _strings(record: Mapping[str, Any], key: str, where: str) -> list[str]:
    strings = take(record, key, list, [], where)
    for index, string in enumerate(strings):
        if not isinstance(string, str):
            raise RequestError(f"{where}/{key}/{index}: found {json_type(string)}, expected a string")
    return strings
