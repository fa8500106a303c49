"""For every suite: brokers (`support/brokers.py` says more), and servers."""

from __future__ import annotations

import gc
import logging
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support import redis_server as redis
from tests.support.model_server import ModelServer
from tests.support.redis_server import RedisServer
from tests.support.requirements import unavailable
from trustgraph_prompt.llm import OpenAIProvider

pytest_plugins = [
    "tests.support.parallel",
    "tests.support.hanging",
    "tests.support.hypothesis_profiles",
    "tests.support.brokers",
    "tests.support.image",
]


def pytest_configure() -> None:
    """Let SIGINT reach the commands that tests start: where a script runs `make test &`, all ignore it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection() -> None:
    """Ten thousand tests are a million objects, which no collection of garbage need go through."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Those that stay are never looked at."""
    gc.freeze()
    gc.enable()


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    """A model server that answers as a test tells it to."""
    async with ModelServer() as server:
        yield server


@pytest.fixture
async def provider(server: ModelServer) -> AsyncIterator[OpenAIProvider]:
    """Who asks that server."""
    async with OpenAIProvider(server.url, "small") as provider:
        yield provider


@pytest.fixture
def redis_server() -> Iterator[RedisServer]:
    """A Redis of the test's own; the test must have the `redis` mark."""
    if redis.BINARY is None:
        unavailable("no redis-server: apt-get install redis-server")
    with tempfile.TemporaryDirectory(prefix="tp-") as folder:
        server = RedisServer(Path(folder))
        server.start()
        yield server
        server.stop()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what the tests have counted (`record_counts` in `system/conftest.py`)."""
    reports = [report for outcome in ("passed", "failed") for report in terminalreporter.getreports(outcome)]
    counts = [
        line
        for report in reports
        if report.when == "call"
        for name, line in report.user_properties
        if name == "counts"
    ]
    if counts:
        terminalreporter.section("counts")
        for line in counts:
            terminalreporter.write_line(line)


@pytest.fixture
def root_log() -> Iterator[logging.Logger]:
    """The root of all loggers, left as it was."""
    root = logging.getLogger()
    handlers, level, source = root.handlers[:], root.level, logging._srcfile
    settings = logging.logThreads, logging.logProcesses, logging.logMultiprocessing
    yield root
    root.handlers[:], logging._srcfile = handlers, source
    root.setLevel(level)
    logging.logThreads, logging.logProcesses, logging.logMultiprocessing = settings
