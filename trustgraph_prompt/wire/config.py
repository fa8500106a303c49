"""What TrustGraph's config service is asked and answers, and how it says that something changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from trustgraph_prompt.errors import RequestError
from trustgraph_prompt.json_text.encoding import encode
from trustgraph_prompt.wire.error import Error
from trustgraph_prompt.wire.records import decode, kind, take, take_if_any

_RESPONSE, _PUSH = "ConfigResponse", "ConfigPush"


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """The place of a value in its workspace."""

    type: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """A value: JSON text for whoever reads it, None where there is none.

    `workspace` is empty where only one was asked about.
    """

    type: str = ""
    key: str = ""
    value: str | None = ""
    workspace: str = ""


@dataclass(frozen=True, slots=True)
class ConfigRequest:
    """Asks for `operation`: getvalues of a workspace and a type, getkeys-all-ws of a type, and others."""

    operation: str
    workspace: str = ""
    keys: Sequence[ConfigKey] = ()
    type: str = ""
    values: Sequence[ConfigValue] = ()

    def encode(self) -> bytes:
        """The record as it goes onto the topic."""
        return encode(asdict(self))


@dataclass(frozen=True, slots=True)
class ConfigResponse:
    """The `values` that were asked for, as of `version`; or an error."""

    version: int = 0
    values: Sequence[ConfigValue] = ()
    directory: Sequence[str] = ()
    config: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    error: Error | None = None

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Raises `RequestError` naming the field that is wrong."""
        record = decode(data, _RESPONSE)
        values = take(record, "values", list, [], _RESPONSE)
        return cls(
            version=take(record, "version", int, 0, _RESPONSE),
            values=[_value(value, f"{_RESPONSE}/values/{at}") for at, value in enumerate(values)],
            directory=_texts(record, "directory", _RESPONSE),
            config=take(record, "config", dict, {}, _RESPONSE),
            error=Error.of(record, _RESPONSE),
        )


@dataclass(frozen=True, slots=True)
class WorkspaceChanges:
    """Workspaces that came and went."""

    created: Sequence[str] = ()
    deleted: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ConfigPush:
    """Says what is new in `version`: the workspaces by type; no changes: the service has just started."""

    version: int = 0
    changes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    workspace_changes: WorkspaceChanges | None = None

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Raises `RequestError` naming the field that is wrong."""
        record = decode(data, _PUSH)
        changes = take(record, "changes", dict, {}, _PUSH)
        workspaces = take_if_any(record, "workspace_changes", dict, _PUSH)
        return cls(
            version=take(record, "version", int, 0, _PUSH),
            changes={type: _texts(changes, type, f"{_PUSH}/changes") for type in changes},
            workspace_changes=None
            if workspaces is None
            else WorkspaceChanges(
                *(_texts(workspaces, name, f"{_PUSH}/workspace_changes") for name in ("created", "deleted"))
            ),
        )


def _value(value: object, where: str) -> ConfigValue:
    if not isinstance(value, dict):
        raise RequestError(f"{where}: found {kind(value)}, expected an object")
    return ConfigValue(
        type=take(value, "type", str, "", where),
        key=take(value, "key", str, "", where),
        value=take_if_any(value, "value", str, where),
        workspace=take(value, "workspace", str, "", where),
    )


def _texts(record: Mapping[str, Any], key: str, where: str) -> list[str]:
    texts = take(record, key, list, [], where)
    for at, text in enumerate(texts):
        if not isinstance(text, str):
            raise RequestError(f"{where}/{key}/{at}: found {kind(text)}, expected a string")
    return texts
