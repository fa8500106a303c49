"""A worker process, as `run` and `complete` start it: flows served from a broker until SIGTERM."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from trustgraph_prompt.cli import options
from trustgraph_prompt.errors import FlowError

if TYPE_CHECKING:
    from trustgraph_prompt.ask import Cache
    from trustgraph_prompt.llm import Limits, Provider
    from trustgraph_prompt.worker import Flow, Prompts
    from trustgraph_prompt.worker.callers import Callers
    from trustgraph_prompt.worker.flow import ProviderChoice
    from trustgraph_prompt.worker.tracing import Tracing

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Service:
    """What is served, and with what.

    `broker` is a URL. A flow that names no provider is answered by `default` of its model. `http` is
    HOST:PORT of the endpoints, `drain_timeout` the seconds that what is under way may take at the end.
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


def serve(service: Service) -> None:
    """Serve until SIGTERM. Raises `ConfigError`."""
    from trustgraph_prompt.worker import logs, tracing
    from trustgraph_prompt.worker.callers import Callers

    callers = Callers()
    providers = _providers(service, callers)
    logs.configure()
    asyncio.run(_serve(service, providers, callers, tracing.from_environment()))


async def _serve(
    service: Service, providers: dict[str, Provider], callers: Callers, tracing: Tracing
) -> None:
    from trustgraph_prompt.broker import connect
    from trustgraph_prompt.llm import Limiter
    from trustgraph_prompt.worker import Worker
    from trustgraph_prompt.worker.call_metrics import Metered
    from trustgraph_prompt.worker.health import Health
    from trustgraph_prompt.worker.metrics import Metrics
    from trustgraph_prompt.worker.patience import insist
    from trustgraph_prompt.worker.process import signals

    health, metrics = Health(), Metrics()
    metrics.calls.watch(service.limits)
    limited = {
        name: Limiter(Metered(tracing.provider(each), metrics.calls), service.limits)
        for name, each in providers.items()
    }
    async with AsyncExitStack() as closing:
        stopping = closing.enter_context(signals())
        closing.push_async_callback(tracing.close)
        for provider in providers.values():
            closing.push_async_callback(provider.close)
        if service.cache is not None:
            closing.push_async_callback(service.cache.close)
        if service.http is not None:
            from trustgraph_prompt.worker import http

            address = await closing.enter_async_context(http.serve(service.http, health, metrics))
            log.info("serving /livez, /readyz and /metrics", extra={"http": address})
        broker = await insist("broker", partial(connect, service.broker), health, stopping)
        if broker is None:
            return
        broker = callers.broker = tracing.broker(await closing.enter_async_context(broker))
        closing.push_async_callback(callers.close)
        worker = Worker(
            broker,
            service.flows,
            service.prompts,
            lambda flow: limited[flow.name],
            config_topic=service.config_topic,
            drain_timeout=service.drain_timeout,
            cache=service.cache,
            tracing=tracing,
            health=health,
            metrics=metrics,
            stopping=stopping,
        )
        await worker.run()


def _providers(service: Service, callers: Callers) -> dict[str, Provider]:
    """Who answers for each flow, by its name."""
    of_model = lru_cache(service.default)
    return {
        flow.name: _named(flow, callers, service.broker) or of_model(flow.model) for flow in service.flows
    }


def _named(flow: Flow, callers: Callers, broker: str) -> Provider | None:
    """The provider that the flow itself names. Raises `ConfigError`."""
    from trustgraph_prompt.broker.urls import address
    from trustgraph_prompt.llm import OpenAIProvider, TopicProvider
    from trustgraph_prompt.worker.flow import ProviderChoice, TopicChoice

    match flow.provider:
        case TopicChoice() as over:
            caller = callers.between(over.request, over.response)
            place = f"{address(broker)} {over.request}"
            return TopicProvider(caller, model=over.model, place=place, timeout=over.timeout)
        case ProviderChoice() as at:
            return OpenAIProvider(
                at.base_url,
                flow.model or at.model,
                api_key=_key(flow, at),
                prefill=at.prefill,
                native_schema=at.native_schema,
                images=at.images,
            )
        case None:
            return None


def _key(flow: Flow, choice: ProviderChoice) -> str | None:
    """The key, which may be missing only where the flow does not say where it is. Raises `ConfigError`."""
    if choice.key_env is None:
        return options.api_key()
    key = options.api_key(choice.key_env)
    if not key:
        raise FlowError(
            "no key there",
            where=f"flow {flow.name}",
            path="/provider/key-env",
            found=choice.key_env,
            expected="an environment variable that holds the key",
        )
    return key
