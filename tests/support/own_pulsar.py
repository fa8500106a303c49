"""A Pulsar of our own, with settings that other tests could not live with."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import pulsar_server
from tests.support.certificates import Authority
from tests.support.pulsar_server import PulsarServer, Unavailable
from tests.support.requirements import unavailable

KEY = b"a secret of thirty-two bytes, or"


def token(subject: str, key: bytes = KEY, **claims: Any) -> str:
    """A JSON Web Token, signed with the broker's key (RFC 7519, HS256)."""

    def part(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    head = part(json.dumps({"alg": "HS256", "typ": "JWT"}).encode())
    body = part(json.dumps({"sub": subject, **claims}).encode())
    signature = hmac.digest(key, f"{head}.{body}".encode(), hashlib.sha256)
    return f"{head}.{body}.{part(signature)}"


class Locked:
    """A broker that lets in who has a token for `admin`, or the certificate of `admin`.

    It takes messages of a mebibyte at most.
    """

    def __init__(self, server: PulsarServer, tls_port: int, authority: Authority) -> None:
        self.server = server
        self.authority = authority
        self.tls_url = f"pulsar+ssl://127.0.0.1:{tls_port}"
        self.certificate, self.key = authority.issue("admin", "DNS:admin")


@pytest.fixture(scope="session")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Locked]:
    authority = Authority(tmp_path_factory.mktemp("authority"))
    certificate, key = authority.issue("broker", "IP:127.0.0.1")
    [tls_port] = pulsar_server.free_ports(1)
    admin = token("admin")
    providers = "org.apache.pulsar.broker.authentication.AuthenticationProvider"
    try:
        server = pulsar_server.start_configured(
            {
                "maxMessageSize": 1_048_576,
                "authenticationEnabled": "true",
                "authenticationProviders": f"{providers}Token,{providers}Tls",
                "tokenSecretKey": f"data:;base64,{base64.b64encode(KEY).decode()}",
                "authorizationEnabled": "true",
                "superUserRoles": "admin",
                "authenticationRefreshCheckSeconds": 1,
                "brokerClientAuthenticationPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationToken",
                "brokerClientAuthenticationParameters": f"token:{admin}",
                "brokerServicePortTls": tls_port,
                "tlsCertificateFilePath": certificate,
                "tlsKeyFilePath": key,
                "tlsTrustCertsFilePath": authority.file,
            },
            admin,
        )
    except Unavailable as reason:
        unavailable(f"no Pulsar: {reason}")
    try:
        server.create_space("tg")
        yield Locked(server, tls_port, authority)
    finally:
        server.end()
