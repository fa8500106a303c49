"""Runs a service as this process: its log, its signals, its HTTP endpoints."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import AsyncExitStack, contextmanager

from trustgraph_prompt.broker import Broker
from trustgraph_prompt.worker.service import Service
from trustgraph_prompt.worker.telemetry import logs, tracing_setup
from trustgraph_prompt.worker.telemetry.tracing_interface import Tracing

log = logging.getLogger(__name__)

SIGNALS = (signal.SIGTERM, signal.SIGINT)

OBJECTS_BEFORE_COLLECTION = 10_000
"""The threshold of the garbage collector. Python's default of 700 is reached often with many requests."""


def log_and_trace() -> Tracing:
    """Log to standard error, and trace as the environment says. Raises `ConfigError`."""
    logs.configure()
    return tracing_setup.from_environment()


def run(service: Service, id: str, *, http: str | None = None, hosts: Collection[str] = ()) -> None:
    """Run the service in this process until SIGTERM. Raises `ConfigError`.

    `http` is HOST:PORT of the HTTP endpoints, and `hosts` other names that the status page may be asked for
    under; it calls the worker `id`.
    """
    asyncio.run(_run(service, id, http, hosts))


async def _run(service: Service, id: str, address: str | None, hosts: Collection[str]) -> None:
    async with AsyncExitStack() as closing:
        closing.enter_context(signals(service.stopping))
        if address is not None:
            from trustgraph_prompt.worker.telemetry import http  # importing aiohttp is slow
            from trustgraph_prompt.worker.telemetry.status import Status
            from trustgraph_prompt.worker.telemetry.status_page import StatusPage

            page = StatusPage(Status(service, id))
            serving = http.serve(address, service.health, service.metrics, page, hosts=hosts)
            bound = await closing.enter_async_context(serving)
            log.info("serving the status page, /livez, /readyz and /metrics", extra={"http": bound})
            if service.activity.shows_content and not http.is_local(bound):
                log.warning(
                    "whoever reaches this address can read texts and answers (--show-content)",
                    extra={"http": bound},
                )
        await service.run()


def tuned(connect: Callable[[str], Awaitable[Broker]]) -> Callable[[str], Awaitable[Broker]]:
    """Connects likewise, and tunes the garbage collector after the import of the broker's client."""

    async def connected(url: str) -> Broker:
        broker = await connect(url)
        tune_garbage_collection()
        return broker

    return connected


def tune_garbage_collection() -> None:
    """Exclude all current objects from garbage collection, and collect less often.

    A full collection blocks all requests, mostly to traverse imported modules, which are never freed.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS_BEFORE_COLLECTION)


@contextmanager
def signals(stopping: asyncio.Event) -> Iterator[None]:
    """During the block, a first SIGTERM or SIGINT sets the event; a second one exits at once, with code 1.

    Used from the very start, because process 1 of a container ignores signals without a handler.
    """

    def on_signal() -> None:
        if stopping.is_set():
            os._exit(1)
        stopping.set()

    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, on_signal)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
