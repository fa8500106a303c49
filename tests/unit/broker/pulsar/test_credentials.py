"""What the environment may say about access to Pulsar."""

from __future__ import annotations

from pathlib import Path

import pytest

from trustgraph_prompt.broker.pulsar.credentials import Credentials
from trustgraph_prompt.errors import ConfigError


def test_empty_environment_gives_no_credentials() -> None:
    assert Credentials.from_environment({}) == Credentials()


def test_token_is_never_shown() -> None:
    access = Credentials.from_environment({"PULSAR_TOKEN": "hush"})
    assert access.token == "hush"
    assert "hush" not in repr(access)


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({"PULSAR_TOKEN": "hush", "PULSAR_TOKEN_FILE": __file__}, "PULSAR_TOKEN', 'PULSAR_TOKEN_FILE"),
        ({"PULSAR_TOKEN_FILE": "/nowhere"}, "PULSAR_TOKEN_FILE: cannot be read"),
        ({"PULSAR_TLS_TRUST_CERTS_FILE": "/nowhere"}, "PULSAR_TLS_TRUST_CERTS_FILE: cannot be read"),
        ({"PULSAR_TLS_CERTIFICATE_FILE": __file__}, "PULSAR_TLS_KEY_FILE"),
        ({"PULSAR_OAUTH2_ISSUER_URL": "https://issuer"}, "PULSAR_OAUTH2_CREDENTIALS_FILE"),
        ({"PULSAR_OAUTH2_AUDIENCE": "urn:pulsar"}, "PULSAR_OAUTH2_ISSUER_URL"),
    ],
)
def test_incomplete_or_contradictory_variables_are_named(environment: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told) as error:
        Credentials.from_environment(environment)
    assert "hush" not in str(error.value)


def test_empty_variable_counts_as_not_set(tmp_path: Path) -> None:
    assert Credentials.from_environment({"PULSAR_TOKEN": "", "PULSAR_TLS_KEY_FILE": ""}) == Credentials()
