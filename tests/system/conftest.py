"""What the tests of processes need."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.support.pulsar_server import PulsarServer
from tests.support.trustgraph_site import TrustGraphSite
from tests.support.worker_processes import Site

_COUNTS: Final = pytest.StashKey[list[str]]()


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """An empty folder for processes, which end with the test; a file of tests lays in it what it serves."""
    async with AsyncExitStack() as stack:
        yield Site(tmp_path, stack)


@pytest.fixture
async def pulsar_site(tmp_path: Path, pulsar: PulsarServer) -> AsyncIterator[Site]:
    """The same on a real Pulsar, which has the tenant `tg`, where a worker looks for the config topic."""
    pulsar.create_space("tg")
    async with AsyncExitStack() as stack:
        yield Site(tmp_path, stack, pulsar.url)


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Takes the counts of a test, by name; they are printed when the run ends."""
    counts = request.config.stash.setdefault(_COUNTS, [])

    def take(**found: object) -> None:
        line = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in found.items())
        counts.append(f"{request.node.name}: {line}")

    return take


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if counts := config.stash.get(_COUNTS, []):
        terminalreporter.section("counts")
        for line in counts:
            terminalreporter.write_line(line)


@pytest.fixture
async def trustgraph(tmp_path: Path, pulsar_url: str, pulsar_space: str) -> AsyncIterator[TrustGraphSite]:
    """TrustGraph on the real broker, in a space of the test's own: all but a prompt service and a model."""
    async with AsyncExitStack() as stack:
        site = TrustGraphSite(tmp_path, stack, pulsar_url, pulsar_space)
        await site.open()
        yield site
