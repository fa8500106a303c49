"""The way to an OpenAI-compatible server: proxies, certificates, who asks; and whether it is ready."""

from __future__ import annotations

import itertools
import logging
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest

from tests.support.certificates import Authority
from tests.support.deltas import heard, text
from tests.support.model_server import ModelServer, Reply, Then
from tests.support.proxy import Proxy
from trustgraph_prompt import errors
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.llm import OpenAIProvider, Timeout

PASSWORD = "p@ss/word-0123456789"
QUOTED = "p%40ss%2Fword-0123456789"
BASIC = "bWU6cEBzcy93b3JkLTAxMjM0NTY3ODk="
NETWORK = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "NETRC")

needs_openssl = pytest.mark.skipif(not shutil.which("openssl"), reason="the openssl program is not there")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that says nothing of networks."""
    for name in NETWORK:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    proxy = Proxy()
    await proxy.start()
    yield proxy
    await proxy.stop()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
async def secure(authority: Authority) -> AsyncIterator[ModelServer]:
    """A server that only who knows the authority believes."""
    async with ModelServer(authority.server("DNS:model.test,IP:127.0.0.1")) as server:
        yield server


async def answer(url: str) -> str:
    async with OpenAIProvider(url, "small") as provider:
        return await text(provider)


class TestProxies:
    async def test_request_goes_through_the_http_proxy(
        self, server: ModelServer, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        url = f"http://model.test:{server.port}/v1"

        assert await answer(url) == "Hello."
        assert proxy.lines == [f"POST {url}/chat/completions HTTP/1.1"]

    async def test_a_proxy_needs_no_scheme(
        self, server: ModelServer, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("http_proxy", proxy.url.removeprefix("http://"))

        assert await answer(f"http://model.test:{server.port}") == "Hello."
        assert len(proxy.heads) == 1

    @needs_openssl
    async def test_https_request_goes_through_a_tunnel_of_the_proxy(
        self, secure: ModelServer, proxy: Proxy, authority: Authority, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))

        assert await answer(f"https://model.test:{secure.port}") == "Hello."
        assert proxy.lines == [f"CONNECT model.test:{secure.port} HTTP/1.1"]

    @pytest.mark.parametrize("exempt", ["127.0.0.1", "*", "example.org, 127.0.0.1", "127.0.0.1:{port}"])
    async def test_hosts_of_no_proxy_are_asked_directly(
        self, server: ModelServer, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, exempt: str
    ) -> None:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", exempt.format(port=server.port))

        assert await answer(server.url) == "Hello."
        assert proxy.heads == []

    async def test_the_proxy_of_another_scheme_is_not_asked(
        self, server: ModelServer, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)

        assert await answer(server.url) == "Hello."
        assert proxy.heads == []

    async def test_credentials_of_the_proxy_url_go_to_the_proxy_alone(
        self, server: ModelServer, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HTTP_PROXY", proxy.url.replace("//", f"//me:{QUOTED}@"))

        await answer(f"http://model.test:{server.port}")

        assert f"Proxy-Authorization: Basic {BASIC}" in proxy.heads[0]
        assert "Authorization" not in server.headers[0]

    async def test_credentials_of_a_netrc_file_are_not_sent(
        self, server: ModelServer, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        netrc = tmp_path / "netrc"
        netrc.write_text("machine 127.0.0.1 login me password word\ndefault login me password word\n")
        netrc.chmod(0o600)
        monkeypatch.setenv("NETRC", str(netrc))
        monkeypatch.setenv("HTTP_PROXY", proxy.url)

        await answer(server.url)

        assert "authorization" not in proxy.heads[0].lower()

    @needs_openssl
    async def test_credentials_of_the_proxy_url_do_not_go_through_the_tunnel(
        self, secure: ModelServer, proxy: Proxy, authority: Authority, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("//", f"//me:{QUOTED}@"))
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))

        await answer(f"https://model.test:{secure.port}")

        assert f"Proxy-Authorization: Basic {BASIC}" in proxy.heads[0]
        assert not any("authorization" in name.lower() for name in secure.headers[0])

    @pytest.mark.parametrize(
        ("status", "kind"),
        [
            ("407 Proxy Authentication Required", errors.ProviderAuthentication),
            ("403 Forbidden", errors.ProviderAuthentication),
            ("502 Bad Gateway", errors.ProviderUnavailable),
        ],
    )
    @pytest.mark.parametrize("scheme", ["http", "https"])
    async def test_refusal_of_the_proxy_is_a_provider_error(
        self, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, scheme: str, status: str, kind: type[Exception]
    ) -> None:
        quoted = f"{BASIC} {PASSWORD} {QUOTED}"
        body = f"I do not know {quoted}".encode()
        proxy.refusal = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        monkeypatch.setenv(f"{scheme.upper()}_PROXY", proxy.url.replace("//", f"//me:{QUOTED}@"))

        with pytest.raises(kind) as caught:
            await answer(f"{scheme}://model.test/v1")

        assert shows_nothing(caught.value)

    async def test_a_proxy_that_is_not_there_is_unavailable(
        self, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await proxy.stop()
        monkeypatch.setenv("HTTP_PROXY", proxy.url.replace("//", f"//me:{QUOTED}@"))

        with pytest.raises(errors.ProviderUnavailable, match=r"the proxy 127\.0\.0\.1") as caught:
            await answer("http://model.test")

        assert shows_nothing(caught.value)
        assert isinstance(caught.value.__cause__, ConnectionRefusedError)

    @pytest.mark.parametrize("proxy_url", ["socks5://localhost:1080", "http://", "http://[::1", "http://a:b"])
    async def test_invalid_proxy_url_is_refused_without_its_credentials(
        self, monkeypatch: pytest.MonkeyPatch, proxy_url: str
    ) -> None:
        monkeypatch.setenv("HTTP_PROXY", proxy_url.replace("//", f"//me:{QUOTED}@"))

        with pytest.raises(ConfigError, match="HTTP_PROXY: the URL of the proxy is not valid") as caught:
            OpenAIProvider("http://model.test", "small")
        assert shows_nothing(caught.value)


def shows_nothing(error: BaseException) -> bool:
    """Whether no secret stands in what is shown of an error."""
    causes = (error, error.__cause__)
    shown = " ".join(f"{one} {one!r} {one.args} {vars(one)}" for one in causes if one is not None)
    return not any(secret in shown for secret in (PASSWORD, QUOTED, BASIC))


@needs_openssl
class TestCertificates:
    async def test_server_with_an_unknown_certificate_is_not_asked(self, secure: ModelServer) -> None:
        with pytest.raises(errors.ProviderUnavailable, match="verify failed"):
            await answer(secure.url)

        assert secure.bodies == []

    @pytest.mark.parametrize("name", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
    async def test_certificate_authorities_come_from_the_environment(
        self, secure: ModelServer, authority: Authority, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        path = authority.file if name == "SSL_CERT_FILE" else authority.hashed
        monkeypatch.setenv(name, str(path))

        assert await answer(secure.url) == "Hello."

    async def test_a_certificate_is_for_its_own_host(
        self, authority: Authority, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))

        async with ModelServer(authority.server("DNS:other.test")) as other:
            with pytest.raises(errors.ProviderUnavailable, match="verify failed"):
                await answer(other.url)

    @pytest.mark.parametrize("name", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
    async def test_missing_certificate_file_is_a_config_error(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
    ) -> None:
        monkeypatch.setenv(name, str(tmp_path / "nothing"))

        with pytest.raises(ConfigError, match=f"{name}: cannot be read"):
            OpenAIProvider("https://model.test", "small")

    async def test_invalid_certificate_file_is_a_config_error(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        (tmp_path / "ca.pem").write_text("hello")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))

        with pytest.raises(ConfigError, match="SSL_CERT_FILE: cannot be read"):
            OpenAIProvider("https://model.test", "small")


class TestSecrets:
    async def test_secrets_are_not_logged(
        self,
        server: ModelServer,
        proxy: Proxy,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        caplog.set_level(logging.DEBUG)
        monkeypatch.setenv("HTTP_PROXY", proxy.url.replace("//", f"//me:{QUOTED}@"))
        url = f"http://model.test:{server.port}/v1?key={PASSWORD}"
        async with OpenAIProvider(url, "small", api_key=PASSWORD) as provider:
            await heard(provider)
            server.reply = lambda _: Reply([f"not you: {PASSWORD}".encode()], 401)
            with pytest.raises(errors.ProviderAuthentication):
                await heard(provider)

            assert PASSWORD not in repr(provider) + str(provider.identity)
        ours = [record.getMessage() for record in caplog.records if record.name != "aiohttp.access"]
        assert not any(PASSWORD in text or QUOTED in text or BASIC in text for text in ours)

    async def test_a_user_of_the_base_url_is_not_shown(self, server: ModelServer) -> None:
        server.reply = lambda _: Reply([f"not you: {BASIC}".encode()], 401)

        with pytest.raises(errors.ProviderAuthentication, match="not you") as caught:
            await answer(server.url.replace("//", f"//me:{QUOTED}@"))

        assert shows_nothing(caught.value)


def models(*listed: object) -> Reply:
    return Reply([orjson.dumps({"object": "list", "data": listed})], content_type="application/json")


DEEP = b"[" * 1_000 + b"]" * 1_000


class TestReadiness:
    @pytest.mark.parametrize(
        "listed",
        [
            [{"id": "large"}, {"id": "small", "object": "model"}],
            [{"id": "small", "status": "loaded"}],
            [7, {"id": None}, {"id": "small", "status": {"value": "loaded"}}],
        ],
    )
    async def test_a_model_that_is_listed_is_ready(self, server: ModelServer, listed: list[object]) -> None:
        server.reply = lambda _: models(*listed)
        async with OpenAIProvider(f"{server.url}/v1?key=1", "small", api_key="abc") as provider:
            await provider.ready()
            await provider.ready()

        assert server.lines == ["GET /v1/models"] * 2
        assert server.paths == ["/v1/models?key=1"] * 2
        assert server.headers[0]["Authorization"] == "Bearer abc"

    async def test_each_request_has_the_current_key_and_no_error_shows_an_old_one(
        self, server: ModelServer
    ) -> None:
        keys = ["first-key"]
        server.reply = lambda _: Reply([b'{"error": {"message": "wrong: first-key second-key"}}'], 401)
        async with OpenAIProvider(f"{server.url}/v1", "small", api_key=lambda: keys[-1]) as provider:
            shown = []
            for key in ("first-key", "second-key", "third\nkey"):
                keys.append(key)
                with pytest.raises(errors.ProviderAuthentication) as raised:
                    await provider.ready()
                shown.append(str(raised.value))

        sent = [headers["Authorization"] for headers in server.headers]
        assert sent == ["Bearer first-key", "Bearer second-key", "Bearer second-key"]
        assert not any("first-key" in text or "second-key" in text for text in shown[1:])

    @pytest.mark.parametrize(
        ("reply", "kind"),
        [
            (models({"id": "large"}), errors.ProviderInvalidModel),
            (models(), errors.ProviderInvalidModel),
            (models({"id": "small", "status": "not_loaded"}), errors.ProviderModelNotLoaded),
            (Reply([b"who are you"], 401), errors.ProviderAuthentication),
            (Reply([b"slow down"], 429, {"Retry-After": "3"}), errors.ProviderRateLimit),
            (Reply([b"oops"], 500), errors.ProviderUnavailable),
            (Reply([b'{"error": {"message": "Loading model"}}'], 503), errors.ProviderModelNotLoaded),
            (Reply([b"not found"], 404), errors.ProviderInvalidRequest),
            (Reply([b""], 302, {"Location": "/login"}), errors.ProviderInvalidRequest),
            (Reply([b"<html>"]), errors.ProviderInvalidResponse),
            (Reply([b"[]"]), errors.ProviderInvalidResponse),
            (Reply([b'{"data": {}}']), errors.ProviderInvalidResponse),
            (
                Reply([b'{"data": [{"id": ' + b"[" * 1000 + b"]" * 1000 + b"}]}"]),
                errors.ProviderInvalidResponse,
            ),
            (Reply([b"{", Then.DROP]), errors.ProviderUnavailable),
            (Reply(itertools.repeat(b" " * 1_000_000)), errors.ProviderInvalidResponse),
        ],
    )
    async def test_provider_that_is_not_ready_raises_the_kind_of_its_trouble(
        self, server: ModelServer, reply: Reply, kind: type[errors.ProviderError]
    ) -> None:
        server.reply = lambda _: reply
        async with OpenAIProvider(server.url, "small") as provider:
            with pytest.raises(errors.ProviderError, match="/v1/models") as caught:
                await provider.ready()

        assert type(caught.value) is kind

    async def test_a_server_that_says_nothing_is_not_waited_for(self, server: ModelServer) -> None:
        server.reply = lambda _: Reply([Then.HANG])
        async with OpenAIProvider(server.url, "small", timeout=Timeout(total=0.2)) as provider:
            with pytest.raises(errors.ProviderUnavailable, match=r"0\.2 seconds"):
                await provider.ready()

    async def test_a_server_that_is_not_there_is_unavailable(self, server: ModelServer) -> None:
        await server.stop()
        async with OpenAIProvider(server.url, "small") as provider:
            with pytest.raises(errors.ProviderUnavailable):
                await provider.ready()

    async def test_calls_do_not_ask_for_readiness(self, server: ModelServer) -> None:
        await answer(server.url)

        assert server.lines == ["POST /v1/chat/completions"]

    async def test_readiness_is_asked_through_the_proxy(
        self, server: ModelServer, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        server.reply = lambda _: models({"id": "small"})
        async with OpenAIProvider(f"http://model.test:{server.port}", "small") as provider:
            await provider.ready()

        assert proxy.lines == [f"GET http://model.test:{server.port}/v1/models HTTP/1.1"]
