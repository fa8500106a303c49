"""`topics create` and `topics check` as a person runs them, against a real Pulsar and against none."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from uuid import uuid4

import pytest

from tests.support.command import run
from tests.support.model_server import ModelServer, Reply
from tests.support.pulsar_server import PulsarServer, free_ports

FLOW = """\
name: f
input:
  topic: persistent://{tenant}/flow/requests
outputs:
  response: persistent://{tenant}/flow/responses
  answers: persistent://{tenant}/flow/answers
  objects: persistent://{tenant}/flow/objects
"""

Topics = Callable[..., CompletedProcess[str]]


@pytest.fixture
def tenant() -> str:
    """One that does not exist."""
    return f"test-{uuid4().hex[:12]}"


@pytest.fixture
def topics(pulsar: PulsarServer, tenant: str, tmp_path: Path) -> Topics:
    """The command, for a flow under that tenant."""
    (tmp_path / "flow.yaml").write_text(FLOW.format(tenant=tenant))

    def topics(*arguments: str, flows: str = "flow.yaml") -> CompletedProcess[str]:
        return run(
            *("topics", *arguments, "--flows", flows, "--id", "mine"),
            folder=tmp_path,
            TRUSTGRAPH_PROMPT_BROKER=pulsar.url,
            TRUSTGRAPH_PROMPT_ADMIN_URL=pulsar.admin_url,
            TRUSTGRAPH_PROMPT_CONFIG_TOPIC=f"persistent://{tenant}/config/prompt",
        )

    return topics


def states(result: CompletedProcess[str]) -> set[str]:
    return {line.partition(" ")[0] for line in result.stdout.splitlines()}


@pytest.mark.pulsar
def test_trustgraph_in_another_space_has_its_namespaces_there(pulsar: PulsarServer, tenant: str) -> None:
    check = run(
        *("topics", "check", "--trustgraph", "--space", tenant, "--json"),
        *("--broker", pulsar.url, "--admin-url", pulsar.admin_url),
    )
    assert check.returncode == 1
    missing = {finding["name"] for finding in json.loads(check.stdout) if finding["state"] == "missing"}
    assert missing >= {tenant, f"{tenant}/flow", f"{tenant}/request"}


@pytest.mark.pulsar
def test_a_plan_is_printed_then_done_then_there_is_nothing_to_do(topics: Topics, tenant: str) -> None:
    plan = topics("create", "--dry-run")
    assert (plan.returncode, plan.stderr) == (0, "")
    first, *steps = plan.stdout.splitlines()
    assert first.startswith("plan: ")
    assert f"create tenant {tenant}, for standalone" in steps[0]
    missing = topics("check")
    assert (missing.returncode, states(missing)) == (1, {"missing"})
    assert f"missing  tenant {tenant}" in missing.stdout

    created = topics("create")
    assert (created.returncode, created.stderr) == (0, "")
    told = created.stdout.splitlines()
    assert told[: len(steps) + 1] == plan.stdout.splitlines()
    assert [line.partition(" ")[2].strip() for line in told[len(steps) + 1 :]] == [s.strip() for s in steps]
    assert {line.partition(" ")[0] for line in told[len(steps) + 1 :]} == {"done"}

    check = topics("check")
    assert (check.returncode, states(check)) == (0, {"ok"})
    assert f"subscription mine--default--f--request of persistent://{tenant}/flow/requests" in check.stdout
    again = topics("create")
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout.startswith("nothing to do at http://")


@pytest.mark.pulsar
def test_check_fails_where_nothing_listens_on_the_brokers_port(
    topics: Topics, pulsar: PulsarServer, tenant: str
) -> None:
    assert topics("create").returncode == 0
    [closed] = free_ports(1)
    check = topics("check", "--broker", f"pulsar://127.0.0.1:{closed}")
    assert check.returncode == 1
    assert states(check) == {"ok"}
    assert check.stderr == f"error: pulsar://127.0.0.1:{closed}: Connection refused\n"


@pytest.mark.pulsar
def test_policy_that_loses_requests_is_named_and_left(
    topics: Topics, pulsar: PulsarServer, tenant: str
) -> None:
    pulsar.create_space(tenant)
    url = f"{pulsar.admin_url}/admin/v2/namespaces/{tenant}/flow/messageTTL"
    request = urllib.request.Request(url, b"3600", {"Content-Type": "application/json"}, method="POST")
    urllib.request.urlopen(request, timeout=30).close()

    created = topics("create")
    assert created.returncode == 0
    left = f"left     policy message-ttl of {tenant}/flow (found: messages expire after 3600 s"
    assert left in created.stdout
    check = topics("check", "--json")
    assert check.returncode == 1
    [differs] = [finding for finding in json.loads(check.stdout) if finding["state"] != "ok"]
    assert differs == {
        "kind": "policy",
        "name": "message-ttl",
        "of": f"{tenant}/flow",
        "state": "differs",
        "found": "messages expire after 3600 s",
        "expected": "none",
    }


async def test_a_step_that_fails_is_named_with_status_and_reason(server: ModelServer, tmp_path: Path) -> None:
    def answer(body: object) -> Reply:
        match server.lines[-1].removeprefix("GET /admin/v2/"):
            case "clusters":
                return Reply([b'["c"]'])
            case "namespaces/t":
                return Reply([b'{"reason": "Tenant not found"}'], status=404)
            case "PUT /admin/v2/tenants/t":
                return Reply([], status=204)
            case _:
                return Reply([b'{"reason": "You are no administrator"}'], status=403)

    server.reply = answer
    (tmp_path / "flow.yaml").write_text(FLOW.format(tenant="t"))
    arguments = ("topics", "create", "--flows", "flow.yaml", "--admin-url", server.url)
    config = {"TRUSTGRAPH_PROMPT_CONFIG_TOPIC": "persistent://t/config/prompt"}
    result = await asyncio.to_thread(run, *arguments, folder=tmp_path, **config)
    assert result.returncode == 1
    *_, done, failed = result.stdout.splitlines()
    assert done == "done     create tenant t, for c"
    assert failed == "failed   create namespace t/config, which retains its tables"
    left, error = result.stderr.splitlines()
    assert left.endswith("steps after it were not run; completed steps remain")
    assert error == (
        f"error: {server.url}: these credentials may not PUT namespaces/t/config "
        "(HTTP 403: You are no administrator)"
    )


def test_embedded_broker_needs_no_topics(tmp_path: Path) -> None:
    create = run("topics", "create", "--broker", "embedded:b.db", folder=tmp_path)
    check = run("topics", "check", "--broker", "embedded:b.db", "--json", folder=tmp_path)
    assert (create.returncode, create.stdout) == (0, "")
    assert (check.returncode, json.loads(check.stdout)) == (0, [])
    assert "nothing to prepare" in create.stderr
    assert list(tmp_path.iterdir()) == []


def test_refused_connection_to_the_admin_api_is_an_error() -> None:
    result = run("topics", "check", "--admin-url", "http://127.0.0.1:1")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("error: http://127.0.0.1:1: ")
    guessed = run("topics", "check", "--broker", "pulsar+ssl://127.0.0.2:6651")
    assert guessed.returncode == 1
    assert guessed.stderr.startswith("error: https://127.0.0.2:8443: Connection refused")
    assert "--admin-url" in guessed.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ("--admin-url", "pulsar://h:6650"),
            "not an admin URL: it begins with neither http:// nor https://",
        ),
        (("--flows", "nowhere"), "nowhere"),
        (("--flows", "nowhere", "--trustgraph"), "--flows"),
        (("--broker", "kafka://h"), "kafka://h"),
        (("--broker", "pulsar://h:665o"), "pulsar://h:665o"),
    ],
)
def test_wrong_usage_exits_with_2_and_says_what_is_wrong(arguments: tuple[str, ...], told: str) -> None:
    result = run("topics", "check", *arguments)
    assert result.returncode == 2
    assert told in result.stderr
    assert "Traceback" not in result.stderr
