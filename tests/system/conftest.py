"""What the tests of processes need."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.support import pulsar_server
from tests.support.llama_server import LlamaServer, missing
from tests.support.pulsar_server import PulsarServer
from tests.support.requirements import unavailable
from tests.support.trustgraph_site import TrustGraphSite
from tests.support.worker_processes import Site

_MORTAL: Final = pytest.StashKey[PulsarServer | Exception]()


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """An empty folder for processes, which end with the test; a file of tests lays in it what it serves."""
    async with AsyncExitStack() as stack:
        yield Site(tmp_path, stack)


@pytest.fixture
async def pulsar_site(tmp_path: Path, pulsar_url: str, pulsar_space: str) -> AsyncIterator[Site]:
    """The same on a real Pulsar, with a config topic of the test's own."""
    async with AsyncExitStack() as stack:
        yield Site(tmp_path, stack, pulsar_url, f"persistent://{pulsar_space}/config/prompt")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Start the broker to kill here, where no test's time-out is running yet."""
    if "mortal" in getattr(item, "fixturenames", ()) and _MORTAL not in item.config.stash:
        try:
            item.config.stash[_MORTAL] = pulsar_server.start(threading.Event())
        except Exception as error:
            item.config.stash[_MORTAL] = error
    return (yield)


@pytest.fixture(scope="session")
def mortal(pulsar: PulsarServer, request: pytest.FixtureRequest) -> Iterator[PulsarServer]:
    """A real broker to kill: that of the run would have the topics of all to recover."""
    server = request.config.stash[_MORTAL]
    if isinstance(server, pulsar_server.Unavailable):
        unavailable(f"no Pulsar of our own to kill: {server}")
    if isinstance(server, Exception):
        raise server
    server.create_space("tg")
    yield server
    server.end()


@pytest.fixture
async def mortal_site(mortal: PulsarServer, tmp_path: Path) -> AsyncIterator[Site]:
    async with AsyncExitStack() as stack:
        yield Site(tmp_path, stack, mortal.url)


@pytest.fixture(params=["embedded", pytest.param("pulsar", marks=pytest.mark.pulsar)])
def place(request: pytest.FixtureRequest) -> tuple[Site, str]:
    """Such a folder on either broker, and the space of its topics."""
    if request.param == "embedded":
        return request.getfixturevalue("site"), "tg"
    return request.getfixturevalue("pulsar_site"), request.getfixturevalue("pulsar_space")


@pytest.fixture(scope="session")
def llama_server() -> Iterator[LlamaServer]:
    """A real model server, of the tests with the mark `real_model`."""
    if reason := missing():
        unavailable(reason)
    server = LlamaServer()
    server.wait()
    yield server
    server.end()


@pytest.fixture
def record_counts(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Takes the counts of a test, by name; they are printed when the run ends."""

    def take(**found: object) -> None:
        line = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in found.items())
        request.node.user_properties.append(("counts", f"{request.node.name}: {line}"))

    return take


@pytest.fixture
async def trustgraph(tmp_path: Path, pulsar_url: str, pulsar_space: str) -> AsyncIterator[TrustGraphSite]:
    """TrustGraph on the real broker, in a space of the test's own: all but a prompt service and a model."""
    async with AsyncExitStack() as stack:
        site = TrustGraphSite(tmp_path, stack, pulsar_url, pulsar_space)
        await site.open()
        yield site
