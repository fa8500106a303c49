"""TrustGraph's config service on the wire."""

from __future__ import annotations

import json

import pytest

from trustgraph_prompt.errors import RequestError
from trustgraph_prompt.wire import (
    ConfigKey,
    ConfigPush,
    ConfigRequest,
    ConfigResponse,
    ConfigValue,
    Error,
    WorkspaceChanges,
)


def test_config_request_has_every_field_of_the_record() -> None:
    request = ConfigRequest(
        "get", "default", [ConfigKey("prompt", "system")], "prompt", [ConfigValue("prompt", "system", '"x"')]
    )
    assert json.loads(request.encode()) == {
        "operation": "get",
        "workspace": "default",
        "keys": [{"type": "prompt", "key": "system"}],
        "type": "prompt",
        "values": [{"type": "prompt", "key": "system", "value": '"x"', "workspace": ""}],
    }


def test_config_response_is_read_with_missing_or_unknown_fields() -> None:
    response = ConfigResponse.decode(
        b'{"version": 3, "values": [{"type": "t", "key": "k", "value": null, "new": 1}], "more": {}}'
    )
    assert response == ConfigResponse(3, [ConfigValue("t", "k", None)], [], {})
    assert ConfigResponse.decode(b'{"error": {"type": "bad-operation"}}').error == Error("bad-operation", "")


def test_config_push_has_the_changed_types_and_workspaces() -> None:
    push = ConfigPush.decode(
        b'{"version":3,"changes":{"prompt":["default"]},"workspace_changes":{"created":["w"],"deleted":[]}}'
    )
    assert push == ConfigPush(3, {"prompt": ["default"]}, WorkspaceChanges(["w"], []))
    assert ConfigPush.decode(b'{"version":4,"changes":{},"workspace_changes":null}') == ConfigPush(4)


@pytest.mark.parametrize(
    ("record", "text", "place"),
    [
        (ConfigResponse, '{"values": [1]}', "ConfigResponse/values/0"),
        (ConfigResponse, '{"values": [{"value": {}}]}', "ConfigResponse/values/0/value"),
        (ConfigResponse, '{"version": "3"}', "ConfigResponse/version"),
        (ConfigResponse, '{"directory": [null]}', "ConfigResponse/directory/0"),
        (ConfigPush, '{"changes": ["prompt"]}', "ConfigPush/changes"),
        (ConfigPush, '{"changes": {"prompt": "default"}}', "ConfigPush/changes/prompt"),
        (ConfigPush, '{"workspace_changes": {"created": [7]}}', "ConfigPush/workspace_changes/created/0"),
        (ConfigPush, "[]", "ConfigPush"),
    ],
)
def test_invalid_record_is_refused_with_the_place(
    record: type[ConfigResponse] | type[ConfigPush], text: str, place: str
) -> None:
    with pytest.raises(RequestError, match=place):
        record.decode(text.encode())
