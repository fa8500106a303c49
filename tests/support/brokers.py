"""Pytest plugin: brokers for tests.

`broker_url` and `space` run a test over an embedded broker and a real Pulsar. Where the semantics of brokers
are what is tested, a module has `broker_kind = every_broker` and runs over memory, file and Pulsar.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from tests.support.parallel import shared_pulsar
from tests.support.pulsar_server import PulsarServer
from trustgraph_prompt.broker import Broker, connect

_PULSAR: Final = pytest.param("pulsar", marks=pytest.mark.pulsar)


@pytest.fixture(scope="session")
def pulsar(request: pytest.FixtureRequest) -> PulsarServer:
    """The real broker of this test run; the test must have the `pulsar` mark."""
    server = shared_pulsar(request.config).server()
    # The first client of a process decides for all of them where they log; some tests open one of their own.
    # In a thread, as the fixture that asks for this one may be in an event loop.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, _visit(server.url)).result()
    return server


async def _visit(url: str) -> None:
    async with await connect(url):
        pass


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where a test fails, say what troubles its Pulsar: the log ends with the run."""
    report = yield
    if report.failed:
        used = getattr(item, "funcargs", {}).values()
        for server in {value.url: value for value in used if isinstance(value, PulsarServer)}.values():
            report.sections.append((f"Pulsar at {server.url}", server.trouble()))
    return report


@pytest.fixture
def pulsar_url(pulsar: PulsarServer) -> str:
    return pulsar.url


@pytest.fixture
def pulsar_space(pulsar: PulsarServer, request: pytest.FixtureRequest) -> str:
    """A tenant of the test's own, with TrustGraph's namespaces and `config`."""
    return shared_pulsar(request.config).take_space()


@pytest.fixture(params=["file", _PULSAR])
def broker_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["memory", "file", _PULSAR])
def every_broker(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def broker_url(broker_kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty broker."""
    if broker_kind == "pulsar":
        return str(request.getfixturevalue("pulsar_url"))
    return "embedded:" if broker_kind == "memory" else f"embedded:{tmp_path / 'broker.db'}"


@pytest.fixture
def space(broker_kind: str, request: pytest.FixtureRequest) -> str:
    """The space (tenant) for the topics of this test: `flow:{space}:name` and so on."""
    return str(request.getfixturevalue("pulsar_space")) if broker_kind == "pulsar" else "tg"


@pytest.fixture
def namespace(space: str) -> str:
    """The `tenant/namespace` for the topics of this test."""
    return f"{space}/flow"


@pytest.fixture
async def broker(broker_url: str) -> AsyncIterator[Broker]:
    async with await connect(broker_url) as opened:
        yield opened
