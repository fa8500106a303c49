"""`run`: the worker."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from trustgraph_prompt.cli import options

if TYPE_CHECKING:
    from trustgraph_prompt.ask import Cache
    from trustgraph_prompt.llm import Limits, Provider
    from trustgraph_prompt.worker import Flow, Prompts
    from trustgraph_prompt.worker.callers import Callers
    from trustgraph_prompt.worker.tracing import Tracing

log = logging.getLogger(__name__)

EXAMPLE = (
    "Example:  trustgraph-prompt run --broker pulsar://localhost:6650 --http 0.0.0.0:8000 "
    "--base-url http://localhost:11434/v1 --model qwen3"
)


def command(
    broker: options.BrokerOption = options.DEFAULT_BROKER,
    flows: options.FlowsOption = None,
    templates: options.TemplatesOption = None,
    id: options.IdOption = "prompt",
    concurrency: options.ConcurrencyOption = None,
    requests_per_minute: options.RequestsPerMinuteOption = None,
    tokens_per_minute: options.TokensPerMinuteOption = None,
    http: options.HttpOption = None,
    cache: options.CacheOption = "memory:",
    drain_timeout: options.DrainOption = options.DEFAULT_DRAIN,
    script: options.ProviderOption = None,
    base_url: options.BaseUrlOption = None,
    model: options.ModelOption = None,
    prefill: options.PrefillOption = None,
    native_schema: options.NativeSchemaOption = None,
) -> None:
    """Serve prompt requests from the topics of some flows until SIGTERM.

    The first SIGTERM or Ctrl-C finishes what is under way, a second one quits at once. Prompts come from the
    config topic (see `config push`), and where that says nothing, from files.
    """
    from trustgraph_prompt import bundled
    from trustgraph_prompt.llm import Limits
    from trustgraph_prompt.prompts import files
    from trustgraph_prompt.worker import Prompts, config, flow

    served = flow.load(flows or bundled.flows(), processor=id)
    prompts = Prompts(files.load(templates or bundled.templates()), {flow.workspace for flow in served})
    for refusal in (error for snapshot in prompts.values() for error in snapshot.refused.values()):
        raise refusal
    serve(
        broker,
        served,
        prompts,
        lambda named: options.provider(script, base_url, named or model, prefill, native_schema),
        Limits(concurrency, requests_per_minute, tokens_per_minute),
        cache=options.cache(cache),
        http=http,
        drain_timeout=drain_timeout,
        config_topic=config.TOPIC,
    )


def serve(
    broker: str,
    flows: list[Flow],
    prompts: Prompts,
    default: Callable[[str | None], Provider],
    limits: Limits,
    *,
    http: str | None,
    drain_timeout: float,
    cache: Cache | None = None,
    config_topic: str | None = None,
) -> None:
    """Serve flows until SIGTERM; who names no provider is answered by `default` of the flow's model.

    Raises `ConfigError`.
    """
    from trustgraph_prompt.worker import logs, tracing
    from trustgraph_prompt.worker.callers import Callers

    callers = Callers()
    providers = _providers(flows, default, callers)
    logs.configure()
    traced = tracing.from_environment()
    run = _run(
        broker, flows, prompts, providers, limits, callers, cache, traced, http, drain_timeout, config_topic
    )
    asyncio.run(run)


async def _run(
    url: str,
    flows: list[Flow],
    prompts: Prompts,
    providers: dict[str, Provider],
    limits: Limits,
    callers: Callers,
    cache: Cache | None,
    tracing: Tracing,
    http: str | None,
    drain_timeout: float,
    config_topic: str | None,
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
    metrics.calls.watch(limits)
    limited = {
        name: Limiter(Metered(tracing.provider(each), metrics.calls), limits)
        for name, each in providers.items()
    }
    async with AsyncExitStack() as closing:
        stopping = closing.enter_context(signals())
        closing.push_async_callback(tracing.close)
        for provider in providers.values():
            closing.push_async_callback(provider.close)
        if cache is not None:
            closing.push_async_callback(cache.close)
        if http is not None:
            from trustgraph_prompt.worker.http import serve

            address = await closing.enter_async_context(serve(http, health, metrics))
            log.info("serving /livez, /readyz and /metrics", extra={"http": address})
        broker = await insist("broker", partial(connect, url), health, stopping)
        if broker is None:
            return
        broker = callers.broker = tracing.broker(await closing.enter_async_context(broker))
        closing.push_async_callback(callers.close)
        worker = Worker(
            broker,
            flows,
            prompts,
            lambda flow: limited[flow.name],
            config_topic=config_topic,
            drain_timeout=drain_timeout,
            cache=cache,
            tracing=tracing,
            health=health,
            metrics=metrics,
            stopping=stopping,
        )
        await worker.run()


def _providers(
    flows: list[Flow], default: Callable[[str | None], Provider], callers: Callers
) -> dict[str, Provider]:
    """Who answers for each flow, by its name."""
    of_model = lru_cache(default)
    return {flow.name: _named(flow, callers) or of_model(flow.model) for flow in flows}


def _named(flow: Flow, callers: Callers) -> Provider | None:
    """The provider that the flow itself names."""
    from trustgraph_prompt.llm import OpenAIProvider, TopicProvider
    from trustgraph_prompt.worker.flow import ProviderChoice, TopicChoice

    match flow.provider:
        case TopicChoice() as over:
            caller = callers.between(over.request, over.response)
            return TopicProvider(caller, model=over.model, place=over.request, timeout=over.timeout)
        case ProviderChoice() as at:
            return OpenAIProvider(
                at.base_url,
                flow.model or at.model,
                api_key=os.environ.get(at.key_env),
                prefill=at.prefill,
                native_schema=at.native_schema,
                images=at.images,
            )
        case None:
            return None
