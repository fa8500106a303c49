"""TLS, tokens, certificates and OAuth2 against a real Pulsar that demands them; nothing secret is shown."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

import pytest

from tests.support.own_pulsar import Locked, token
from trustgraph_prompt.broker import Broker, connect
from trustgraph_prompt.errors import BrokerError

pytestmark = [pytest.mark.pulsar, pytest.mark.xdist_group("access")]

VARIABLES = [
    *("PULSAR_TOKEN", "PULSAR_TOKEN_FILE", "PULSAR_OAUTH2_ISSUER_URL", "PULSAR_OAUTH2_CREDENTIALS_FILE"),
    *("PULSAR_OAUTH2_AUDIENCE", "PULSAR_OAUTH2_SCOPE"),
    *("PULSAR_TLS_TRUST_CERTS_FILE", "PULSAR_TLS_CERTIFICATE_FILE", "PULSAR_TLS_KEY_FILE"),
]


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


async def works(broker: Broker, name: str) -> bool:
    consumer = await broker.consumer(f"flow:tg:{name}", "s")
    producer = await broker.producer(f"flow:tg:{name}")
    await producer.send(b"x")
    return await asyncio.wait_for(consumer.receive(), 20) is not None


async def test_token_of_the_environment_is_accepted(locked: Locked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULSAR_TOKEN", token("admin"))
    async with await connect(locked.server.url) as broker:
        assert await works(broker, "token")


@pytest.mark.parametrize(
    "wrong", ["", "no token at all", token("admin", key=b"another key of thirty-two bytes.")]
)
async def test_rejected_token_is_an_error_at_once_and_is_not_shown(
    locked: Locked, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, wrong: str
) -> None:
    monkeypatch.setenv("PULSAR_TOKEN", wrong)
    caplog.set_level(logging.DEBUG)
    with pytest.raises(BrokerError, match=r"rejects the credentials .*authentication") as refusal:
        await asyncio.wait_for(connect(locked.server.url), 60)
    if wrong:
        assert wrong not in f"{refusal.value!r} {refusal.value} {caplog.text}"


async def test_topic_without_permission_is_an_authorization_error(
    locked: Locked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULSAR_TOKEN", token("stranger"))
    async with await connect(locked.server.url) as broker:
        with pytest.raises(BrokerError, match="uthoriz"):
            await broker.producer("flow:tg:private")


async def test_a_token_that_expires_is_read_again_from_its_file(
    locked: Locked, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(token("admin", exp=int(time.time()) + 3) + "\n")
    monkeypatch.setenv("PULSAR_TOKEN_FILE", str(file))
    async with await connect(locked.server.url) as broker:
        consumer = await broker.consumer("flow:tg:rotating", "s")
        file.write_text(token("admin", exp=int(time.time()) + 3600) + "\n")
        await asyncio.sleep(6)
        await consumer.check()
        assert await works(broker, "rotated")


async def test_private_authority_is_trusted_when_it_is_configured(
    locked: Locked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULSAR_TOKEN", token("admin"))
    with pytest.raises(BrokerError):
        await connect(locked.tls_url)
    monkeypatch.setenv("PULSAR_TLS_TRUST_CERTS_FILE", str(locked.authority.file))
    async with await connect(locked.tls_url) as broker:
        assert await works(broker, "tls")


async def test_a_certificate_for_another_name_is_refused(
    locked: Locked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULSAR_TOKEN", token("admin"))
    monkeypatch.setenv("PULSAR_TLS_TRUST_CERTS_FILE", str(locked.authority.file))
    with pytest.raises(BrokerError):
        await connect(locked.tls_url.replace("127.0.0.1", "localhost"))


async def test_client_certificate_is_accepted(locked: Locked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULSAR_TLS_TRUST_CERTS_FILE", str(locked.authority.file))
    monkeypatch.setenv("PULSAR_TLS_CERTIFICATE_FILE", str(locked.certificate))
    monkeypatch.setenv("PULSAR_TLS_KEY_FILE", str(locked.key))
    async with await connect(locked.tls_url) as broker:
        assert await works(broker, "certificate")


@pytest.fixture
def issuer() -> Iterator[tuple[str, list[dict[str, list[str]]]]]:
    """Who gives tokens to clients that show their credentials (RFC 6749, section 4.4)."""
    asked: list[dict[str, list[str]]] = []

    class Issuer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({"token_endpoint": f"{url}/oauth/token", "issuer": url})

        def do_POST(self) -> None:
            asked.append(parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode()))
            self._answer({"access_token": token("admin"), "token_type": "Bearer", "expires_in": 3600})

        def _answer(self, body: dict[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Issuer) as http:
        url = f"http://127.0.0.1:{http.server_address[1]}"
        thread = Thread(target=http.serve_forever)
        thread.start()
        yield url, asked
        http.shutdown()
        thread.join()


async def test_client_credentials_are_exchanged_for_tokens(
    locked: Locked,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    issuer: tuple[str, list[dict[str, list[str]]]],
) -> None:
    url, asked = issuer
    file = tmp_path / "credentials.json"
    file.write_text(
        json.dumps({"type": "client_credentials", "client_id": "worker", "client_secret": "hush"})
    )
    monkeypatch.setenv("PULSAR_OAUTH2_ISSUER_URL", url)
    monkeypatch.setenv("PULSAR_OAUTH2_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("PULSAR_OAUTH2_AUDIENCE", "urn:pulsar")
    async with await connect(locked.server.url) as broker:
        assert await works(broker, "oauth2")
    assert asked[0]["grant_type"] == ["client_credentials"]
    assert (asked[0]["client_id"], asked[0]["client_secret"]) == (["worker"], ["hush"])
    assert asked[0]["audience"] == ["urn:pulsar"]
