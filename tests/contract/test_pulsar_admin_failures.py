"""Whatever answers where the admin API should be: a clear error of ours, in bounded time."""

from __future__ import annotations

import json
import ssl
from pathlib import Path

import pytest

from tests.support.certificates import Authority
from tests.support.model_server import ModelServer, Reply, Then
from trustgraph_prompt.broker.pulsar.admin.client import PulsarAdmin
from trustgraph_prompt.broker.pulsar.admin.plan import AdminStep, RequiredTopics, Topic
from trustgraph_prompt.broker.pulsar.admin.prepare import carry_out, look
from trustgraph_prompt.errors import BrokerError, BrokerUnavailable, ConfigError

WANTED = RequiredTopics.of([Topic("persistent://t/n/x", ("s",)), Topic("persistent://t/n/table", table=True)])
STEP = AdminStep("create tenant t", "PUT", "tenants/t", {"allowedClusters": ["c"]})


def reply(body: object, status: int = 200) -> Reply:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Reply([data], status, content_type="application/json")


HTML = Reply([b"<html><body>It works!</body></html>"], content_type="text/html")
NOT_FOUND = Reply([b"<h1>Not Found</h1>"], status=404, content_type="text/html")


@pytest.mark.parametrize(
    "answer",
    [
        HTML,
        NOT_FOUND,
        reply({"detail": "Not Found"}, 404),
        reply({"clusters": ["c"]}),
        reply(b"\xff\xfe\x00"),
        reply(b"[" * 100_000),
        reply(b"[" + b"9" * 100_000 + b"]x"),
    ],
    ids=["a page", "no page", "another API", "another shape", "no text", "deep", "large numbers"],
)
async def test_answer_of_something_else_is_a_wrong_url(server: ModelServer, answer: Reply) -> None:
    server.reply = lambda body: answer
    async with PulsarAdmin(server.url) as admin:
        with pytest.raises(ConfigError, match="not the admin API of a Pulsar: GET clusters") as caught:
            await look(admin, WANTED)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (reply({"reason": "Don't have permission"}, 401), "may not GET clusters.*401: Don't have permission"),
        (Reply([b"no"], status=403, content_type="text/plain"), "may not GET clusters.*403"),
        (reply({"reason": "not now"}, 500), "GET clusters: HTTP 500: not now"),
        (Reply([b"<b>Bad\n Gateway</b>"], status=502), "HTTP 502: <b>Bad Gateway</b>"),
        (reply({"reason": "x" * 100_000}, 412), "HTTP 412: x+…$"),
        (reply({"reason": 7}, 409), "HTTP 409"),
        (reply([]), "no cluster registered yet"),
        (reply([None, {}, 7, "global"]), "no cluster registered yet"),
        (reply(b""), "no cluster registered yet"),
        (reply(b" " * 5_000_000), "more than 4,194,304 bytes"),
        (Reply([b'["c', Then.DROP]), "not completed"),
        (Reply([], 307, {"Location": "/admin/v2/clusters"}), "redirected more than 5 times"),
        (Reply([], 307, {"Location": "file:///etc/passwd"}), "not safe to follow"),
        (Reply([], 307, {"Location": "http://[::bad/"}), "Invalid IPv6 URL"),
        (Reply([b"[]"], headers={"Content-Encoding": "gzip"}), "decode content-encoding"),
    ],
)
async def test_refusal_is_an_error_with_its_reason(server: ModelServer, answer: Reply, told: str) -> None:
    server.reply = lambda body: answer
    async with PulsarAdmin(server.url) as admin:
        with pytest.raises(BrokerError, match=told) as caught:
            await look(admin, WANTED)
    assert str(caught.value).startswith(server.url)
    assert len(str(caught.value)) < 500


async def test_silent_server_is_unavailable_after_the_timeout(server: ModelServer) -> None:
    server.reply = lambda body: Reply([b"[", Then.HANG])
    async with PulsarAdmin(server.url, timeout=0.2) as admin:
        with pytest.raises(BrokerUnavailable, match=r"no response to GET clusters in 0\.2 s"):
            await look(admin, WANTED)


async def test_refused_connection_is_unavailable() -> None:
    async with PulsarAdmin("http://127.0.0.1:1") as admin:
        with pytest.raises(BrokerUnavailable, match=r"^http://127\.0\.0\.1:1: Connection refused$"):
            await look(admin, WANTED)


async def test_malformed_answer_to_a_later_request_names_the_request(server: ModelServer) -> None:
    def answer(body: object) -> Reply:
        path = server.paths[-1].removeprefix("/admin/v2/")
        if path == "clusters":
            return reply(["c"])
        if path == "namespaces/t":
            return reply(["t/n", 7, None, {}, ["t/n"]])
        return HTML

    server.reply = answer
    async with PulsarAdmin(server.url) as admin:
        with pytest.raises(ConfigError, match="GET namespaces/t/n"):
            await look(admin, WANTED)


async def test_step_that_others_have_done_meanwhile_is_no_failure(server: ModelServer) -> None:
    server.reply = lambda body: reply({"reason": "Tenant already exist"}, 409)
    async with PulsarAdmin(server.url) as admin:
        assert await carry_out(admin, STEP) is False
    assert server.lines == ["PUT /admin/v2/tenants/t"]
    assert server.bodies == [{"allowedClusters": ["c"]}]


async def test_failed_step_is_an_error_with_status_and_reason(server: ModelServer) -> None:
    server.reply = lambda body: reply({"reason": "Clusters do not exist"}, 412)
    async with PulsarAdmin(server.url) as admin:
        with pytest.raises(BrokerError, match="PUT tenants/t: HTTP 412: Clusters do not exist"):
            await carry_out(admin, STEP)


async def test_redirected_request_keeps_its_body_and_credentials(server: ModelServer) -> None:
    async with ModelServer() as owner:
        server.reply = lambda body: Reply([], 307, {"Location": f"{owner.url}/admin/v2/tenants/t?auth=1"})
        owner.reply = lambda body: Reply([], status=204)
        async with PulsarAdmin(server.url, authorization="Bearer secret") as admin:
            assert await carry_out(admin, STEP)
    assert owner.paths == ["/admin/v2/tenants/t?auth=1"]
    assert owner.bodies == [{"allowedClusters": ["c"]}]
    assert owner.headers[0]["Authorization"] == "Bearer secret"


async def test_credentials_do_not_leave_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with ModelServer(authority.server("IP:127.0.0.1")) as server, ModelServer() as elsewhere:
        server.reply = lambda body: Reply([], 307, {"Location": elsewhere.url})
        trust = ssl.create_default_context(cafile=authority.file)
        async with PulsarAdmin(server.url, authorization="Bearer secret", trust=trust) as admin:
            with pytest.raises(BrokerError, match="not safe to follow"):
                await look(admin, WANTED)
    assert server.headers[0]["Authorization"] == "Bearer secret"
    assert elsewhere.lines == []


async def test_unknown_certificate_authority_is_not_trusted(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with ModelServer(authority.server("IP:127.0.0.1")) as server, PulsarAdmin(server.url) as admin:
        with pytest.raises(BrokerUnavailable, match="certificate"):
            await look(admin, WANTED)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "pulsar://h:6650",
        "http://",
        "http://h:no",
        "http://h:99999",
        "h:8080",
        "http://h/?a=b",
        "http://[h",
    ],
)
def test_invalid_admin_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="not an admin URL"):
        PulsarAdmin(url)


def test_a_password_in_the_url_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigError, match="not an admin URL") as caught:
        PulsarAdmin("http://user:secret@h:8080")
    assert "secret" not in str(caught.value)
