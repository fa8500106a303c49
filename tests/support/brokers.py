"""Pytest plugin: brokers for tests. `broker_url` and `space` run a test over memory, file and a real Pulsar.

Tests with the `pulsar` mark get a real broker, which starts in the background while the others run; they
come last for that.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest

from tests.support import pulsar_server
from tests.support.pulsar_server import PulsarServer, Unavailable
from tests.support.requirements import unavailable
from trustgraph_prompt.broker import Broker, connect

BROKERS: Final = ["memory", "file", pytest.param("pulsar", marks=pytest.mark.pulsar)]


class _Starting:
    """A server on its way."""

    def __init__(self) -> None:
        self._server: PulsarServer | None = None
        self._failure: Exception | None = None
        self._cancelled = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulsar", daemon=True)
        self._thread.start()

    def settle(self) -> None:
        """Wait until it is there, or cannot be had."""
        self._thread.join()

    def result(self) -> PulsarServer:
        self.settle()
        if self._failure is not None:
            raise self._failure
        assert self._server is not None
        return self._server

    def end(self) -> None:
        self._cancelled.set()
        self.settle()
        if self._server is not None:
            self._server.end()

    def _run(self) -> None:
        try:
            self._server = pulsar_server.find(self._cancelled)
        except Exception as failure:
            self._failure = failure


_STARTING: Final = pytest.StashKey[_Starting]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("pulsar") is not None)


def pytest_collection_finish(session: pytest.Session) -> None:
    wanted = any(item.get_closest_marker("pulsar") for item in session.items)
    if wanted and not session.config.option.collectonly:
        session.config.stash[_STARTING] = _Starting()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Wait for the broker here, where no test's time-out is running yet: it may have to be fetched."""
    if item.get_closest_marker("pulsar"):
        item.config.stash[_STARTING].settle()
    return (yield)


def pytest_unconfigure(config: pytest.Config) -> None:
    if _STARTING in config.stash:
        config.stash[_STARTING].end()


@pytest.fixture(scope="session")
def pulsar(request: pytest.FixtureRequest) -> PulsarServer:
    """The real broker of this test run; the test must have the `pulsar` mark."""
    try:
        return request.config.stash[_STARTING].result()
    except Unavailable as reason:
        unavailable(f"no Pulsar: {reason}")


@pytest.fixture
def pulsar_url(pulsar: PulsarServer) -> str:
    return pulsar.url


@pytest.fixture
def pulsar_space(pulsar: PulsarServer) -> str:
    """A tenant of the test's own, with TrustGraph's namespaces and `config`."""
    tenant = f"test-{uuid4().hex[:12]}"
    pulsar.create_space(tenant)
    return tenant


@pytest.fixture(params=BROKERS)
def broker_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def broker_url(broker_kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty broker, once over memory, once over a file, once over a real Pulsar."""
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
