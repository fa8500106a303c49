"""A worker process, as `run` and `complete` start it: flows served from a broker until SIGTERM."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from trustgraph_prompt.cli import options

if TYPE_CHECKING:
    from trustgraph_prompt.ask import Cache
    from trustgraph_prompt.llm import Limits, Provider
    from trustgraph_prompt.worker import Flow, Prompts
    from trustgraph_prompt.worker.tracing import Tracing
    from trustgraph_prompt.worker.trustgraph import Processor

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Service:
    """What is served, and with what.

    `broker` is a URL. `flows` is empty where TrustGraph has them, to which this is a `processor`. A flow that
    names no provider is answered by `default` of its model. `http` is HOST:PORT of the endpoints,
    `drain_timeout` the seconds that what is under way may take at the end.
    """

    broker: str
    flows: list[Flow]
    prompts: Prompts
    default: Callable[[str | None], Provider]
    limits: Limits
    http: str | None
    drain_timeout: float
    cache: Cache | None = None
    config_topic: str | None = None
    processor: Processor | None = None


def serve(service: Service) -> None:
    """Serve until SIGTERM. Raises `ConfigError`."""
    import asyncio

    from trustgraph_prompt.worker import logs, tracing

    logs.configure()
    asyncio.run(_serve(service, tracing.from_environment()))


async def _serve(service: Service, tracing: Tracing) -> None:
    from trustgraph_prompt.cli.providers import Providers
    from trustgraph_prompt.llm import Limiter
    from trustgraph_prompt.worker import Worker
    from trustgraph_prompt.worker.backoff import until_stopped
    from trustgraph_prompt.worker.call_metrics import Metered
    from trustgraph_prompt.worker.callers import Callers
    from trustgraph_prompt.worker.health import Health
    from trustgraph_prompt.worker.metrics import Metrics
    from trustgraph_prompt.worker.process import collect_seldom, signals
    from trustgraph_prompt.worker.trustgraph.metrics import TrustGraphMetrics

    health, metrics = Health(), Metrics()
    metrics.calls.watch(service.limits)
    processor, theirs = service.processor, None
    if processor is not None:
        theirs = TrustGraphMetrics(processor.id, metrics.registry, processor.facts)

    def dress(flow: Flow, provider: Provider) -> Provider:
        ended = theirs.calls(flow, provider) if theirs else None
        return Limiter(Metered(tracing.provider(provider), metrics.calls, ended=ended), service.limits)

    callers = Callers()
    providers = Providers(service.default, callers, service.broker, dress)
    for flow in service.flows:
        providers.check(flow)  # what is wrong with one is wrong usage, and said before anything begins

    async def released(flow: Flow) -> None:
        await providers.released(flow)
        if theirs is not None:
            theirs.forget(flow)

    async with AsyncExitStack() as closing:
        stopping = closing.enter_context(signals())
        closing.push_async_callback(tracing.close)
        closing.push_async_callback(providers.close)
        if service.cache is not None:
            closing.push_async_callback(service.cache.close)
        if service.http is not None:
            from trustgraph_prompt.worker import http

            address = await closing.enter_async_context(http.serve(service.http, health, metrics))
            log.info("serving /livez, /readyz and /metrics", extra={"http": address})
        broker = await until_stopped(
            "broker", partial(options.connect, service.broker), health.waiting, stopping
        )
        if broker is None:
            return
        broker = tracing.broker(await closing.enter_async_context(broker))
        broker = callers.broker = theirs.broker(broker) if theirs else broker
        closing.push_async_callback(callers.close)
        worker = Worker(
            broker,
            service.flows,
            service.prompts,
            providers.of,
            released=released,
            config_topic=service.config_topic,
            processor=processor,
            fetched=theirs.configured if theirs else lambda version: None,
            drain_timeout=service.drain_timeout,
            cache=service.cache,
            tracing=tracing,
            health=health,
            metrics=metrics,
            stopping=stopping,
        )
        collect_seldom()
        await worker.run()
