"""Who we are to the admin API is what the broker is told, too; nothing secret is shown."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.support.certificates import Authority
from tests.support.model_server import ModelServer, Reply
from trustgraph_prompt.broker.pulsar.admin.client import PulsarAdmin, authorization, trust
from trustgraph_prompt.broker.pulsar.admin.plan import RequiredTopics
from trustgraph_prompt.broker.pulsar.admin.prepare import look
from trustgraph_prompt.broker.pulsar.credentials import Credentials
from trustgraph_prompt.errors import BrokerError, ConfigError


class Issuer:
    """An OAuth2 issuer on loopback that answers as a test tells it to."""

    def __init__(self) -> None:
        self.answer: Any = {"access_token": "issued"}
        self.status = 200
        self.asked: list[dict[str, Any]] = []
        self.url = ""

    async def configuration(self, request: web.Request) -> web.Response:
        return web.json_response({"token_endpoint": f"{self.url}/token"})

    async def token(self, request: web.Request) -> web.Response:
        self.asked.append(dict(await request.post()))
        return web.json_response(self.answer, status=self.status)


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    issuer = Issuer()
    app = web.Application()
    app.router.add_get("/.well-known/openid-configuration", issuer.configuration)
    app.router.add_post("/token", issuer.token)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    issuer.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield issuer
    await runner.cleanup()


@pytest.fixture
def key(tmp_path: Path) -> Path:
    file = tmp_path / "key.json"
    file.write_text(json.dumps({"client_id": "me", "client_secret": "hush"}))
    return file


async def sent(server: ModelServer, access: Credentials) -> str | None:
    """The header with which the admin API is asked."""
    server.reply = lambda body: Reply([b'["c"]' if server.paths[-1].endswith("clusters") else b"[]"])
    async with PulsarAdmin(
        server.url, authorization=await authorization(access), trust=trust(access)
    ) as admin:
        await look(admin, RequiredTopics({"t/n": {}}))
    return server.headers[-1].get("Authorization")


async def test_token_is_sent_as_bearer_authorization(server: ModelServer, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-a-file\n")
    assert await sent(server, Credentials(token="given")) == "Bearer given"
    assert await sent(server, Credentials(token_file=tmp_path / "token")) == "Bearer from-a-file"
    assert await sent(server, Credentials()) is None


async def test_client_credentials_are_exchanged_for_a_token(
    server: ModelServer, issuer: Issuer, key: Path
) -> None:
    oauth2 = {"issuer_url": issuer.url, "private_key": str(key), "audience": "pulsar", "scope": "all"}
    assert await sent(server, Credentials(oauth2=oauth2)) == "Bearer issued"
    asked = {"grant_type": "client_credentials", "client_id": "me", "client_secret": "hush"}
    assert issuer.asked == [{**asked, "audience": "pulsar", "scope": "all"}]


@pytest.mark.parametrize(
    ("status", "answer"),
    [(401, {"error": "invalid_client"}), (200, {"no": "token"}), (200, [7]), (200, {"access_token": None})],
)
async def test_issuer_that_gives_no_token_is_named(
    issuer: Issuer, key: Path, status: int, answer: Any
) -> None:
    issuer.status, issuer.answer = status, answer
    access = Credentials(oauth2={"issuer_url": issuer.url, "private_key": str(key)})
    with pytest.raises(BrokerError, match=f"{issuer.url}: no token") as caught:
        await authorization(access)
    assert "hush" not in str(caught.value)


async def test_unreachable_issuer_is_named(key: Path) -> None:
    access = Credentials(oauth2={"issuer_url": "http://127.0.0.1:1", "private_key": str(key)})
    with pytest.raises(BrokerError, match=r"127\.0\.0\.1:1: no token"):
        await authorization(access)


@pytest.mark.parametrize("text", ["", "[]", "{}", "no", '{"client_id": "me"}'])
async def test_file_without_client_credentials_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "key.json").write_text(text)
    access = Credentials(oauth2={"issuer_url": "http://h", "private_key": str(tmp_path / "key.json")})
    with pytest.raises(ConfigError, match=r"key\.json.*client_id and client_secret"):
        await authorization(access)


@pytest.mark.parametrize("token", ["two words", "two\nlines", "hüsh"])
async def test_invalid_token_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(
        ConfigError, match="the token is not valid: it has characters other than printable ASCII"
    ) as caught:
        await authorization(Credentials(token=token))
    assert token not in str(caught.value)


async def test_private_authority_is_trusted_when_it_is_configured(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with ModelServer(authority.server("IP:127.0.0.1")) as server:
        assert await sent(server, Credentials(token="given", trust_file=authority.file)) == "Bearer given"


@pytest.mark.parametrize("name", ["trust_file", "certificate_file"])
def test_file_without_certificates_is_named(tmp_path: Path, name: str) -> None:
    file = tmp_path / "odd.pem"
    file.write_text("odd")
    with pytest.raises(ConfigError, match=r"odd\.pem: the certificates cannot be read"):
        trust(Credentials(**{name: file, "key_file": file}))  # type: ignore[arg-type]
