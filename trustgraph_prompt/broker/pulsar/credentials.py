"""Credentials and trusted certificates for Pulsar, from the environment: command lines hold no secrets."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pulsar

from trustgraph_prompt.errors import ConfigError

TOKEN: Final = "PULSAR_TOKEN"
TOKEN_FILE: Final = "PULSAR_TOKEN_FILE"
ISSUER: Final = "PULSAR_OAUTH2_ISSUER_URL"
CREDENTIALS_FILE: Final = "PULSAR_OAUTH2_CREDENTIALS_FILE"
AUDIENCE: Final = "PULSAR_OAUTH2_AUDIENCE"
SCOPE: Final = "PULSAR_OAUTH2_SCOPE"
TRUST_FILE: Final = "PULSAR_TLS_TRUST_CERTS_FILE"
CERTIFICATE_FILE: Final = "PULSAR_TLS_CERTIFICATE_FILE"
KEY_FILE: Final = "PULSAR_TLS_KEY_FILE"

_FILES: Final = {
    TOKEN_FILE: "token_file",
    CERTIFICATE_FILE: "certificate_file",
    KEY_FILE: "key_file",
    TRUST_FILE: "trust_file",
}


@dataclass(frozen=True, slots=True)
class Credentials:
    """A token, a token file (read again for every connection: tokens rotate), or OAuth2 client credentials.

    `oauth2` has `issuer_url` and `private_key`, a file with `client_id` and `client_secret`; also `audience`
    and `scope` if the issuer requires them. Without a token, the client certificate is the credential as
    well. `trust_file` has the trusted certificate authorities, instead of the public ones.
    """

    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    oauth2: Mapping[str, str] | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
    trust_file: Path | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Credentials:
        """Read the `PULSAR_…` variables. Raises `ConfigError`, which names the variable but no token."""
        given = {name: value for name, value in environment.items() if value}
        oauth2 = _oauth2(given)
        methods = (TOKEN, TOKEN_FILE, ISSUER)
        if len(found := [name for name in methods if name in given]) > 1:
            expected = "one of " + ", ".join(methods)
            raise ConfigError("more than one credential", where="environment", found=found, expected=expected)
        if len(found := [name for name in (CERTIFICATE_FILE, KEY_FILE) if name in given]) == 1:
            raise ConfigError(
                "a client certificate needs its key, and a key its certificate",
                where="environment",
                found=found,
                expected=f"{CERTIFICATE_FILE} and {KEY_FILE}",
            )
        for name in (CREDENTIALS_FILE, *_FILES):
            if name in given:
                _check_readable(name, Path(given[name]))
        files = {field: Path(given[name]) for name, field in _FILES.items() if name in given}
        return cls(token=given.get(TOKEN), oauth2=oauth2, **files)

    def options(self) -> dict[str, Any]:
        """Return the arguments for Pulsar's client."""
        options: dict[str, Any] = {"tls_validate_hostname": True}
        if self.trust_file:
            options["tls_trust_certs_file_path"] = str(self.trust_file)
        if authentication := self._authentication():
            options["authentication"] = authentication
            if self.certificate_file:
                options["tls_certificate_file_path"] = str(self.certificate_file)
                options["tls_private_key_file_path"] = str(self.key_file)
        elif self.certificate_file:
            options["authentication"] = pulsar.AuthenticationTLS(
                str(self.certificate_file), str(self.key_file)
            )
        return options

    def _authentication(self) -> pulsar.Authentication | None:
        if self.token:
            return pulsar.AuthenticationToken(self.token)
        if self.token_file:
            return pulsar.Authentication("token", f"file://{self.token_file.absolute()}")
        if self.oauth2:
            return pulsar.AuthenticationOauth2(json.dumps(self.oauth2))
        return None


def _check_readable(name: str, file: Path) -> None:
    try:
        file.open("rb").close()
    except OSError as error:
        detail = f"cannot be read: {error.strerror}"
        raise ConfigError(detail, where=name, found=str(file), expected="a readable file") from None


def _oauth2(environment: Mapping[str, str]) -> Mapping[str, str] | None:
    names = {ISSUER: "issuer_url", CREDENTIALS_FILE: "private_key", AUDIENCE: "audience", SCOPE: "scope"}
    oauth2 = {key: environment[name] for name, key in names.items() if environment.get(name)}
    if oauth2 and not {"issuer_url", "private_key"} <= oauth2.keys():
        raise ConfigError(
            "incomplete OAuth2 credentials",
            where="environment",
            found=[name for name, key in names.items() if key in oauth2],
            expected=f"{ISSUER} and {CREDENTIALS_FILE}",
        )
    return oauth2 or None
