"""`run`: the worker."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trustgraph_prompt.cli import options

if TYPE_CHECKING:
    from trustgraph_prompt.ask import Cache
    from trustgraph_prompt.llm import Limits, Provider
    from trustgraph_prompt.worker import Flow, Prompts

log = logging.getLogger(__name__)

EXAMPLE = (
    "Example:  trustgraph-prompt run --broker pulsar://localhost:6650 --http 0.0.0.0:8000 "
    "--base-url http://localhost:11434/v1 --model qwen3"
)


def command(
    broker: options.BrokerOption = options.DEFAULT_BROKER,
    flows: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="A flow file, or a folder of them; the bundled ones unless given."),
    ] = None,
    templates: options.TemplatesOption = None,
    id: Annotated[str, typer.Option(help="The id of this processor; its subscriptions carry it.")] = "prompt",
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="Calls to models at once, over all flows.")
    ] = None,
    requests_per_minute: options.RequestsPerMinuteOption = None,
    tokens_per_minute: options.TokensPerMinuteOption = None,
    http: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Serve /livez, /readyz and /metrics.")
    ] = None,
    cache: options.CacheOption = "memory:",
    drain_timeout: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="What is under way may take so long to finish.")
    ] = 30.0,
    script: options.ProviderOption = None,
    base_url: options.BaseUrlOption = None,
    model: options.ModelOption = None,
) -> None:
    """Serve prompt requests from the topics of some flows until SIGTERM.

    The first SIGTERM or Ctrl-C finishes what is under way, a second one quits at once. Prompts come from the
    config topic (see `config push`), and where that says nothing, from files.
    """
    from trustgraph_prompt import bundled
    from trustgraph_prompt.llm import Limits
    from trustgraph_prompt.prompts import files
    from trustgraph_prompt.worker import Prompts, flow, logs

    served = flow.load(flows or bundled.flows(), processor=id)
    prompts = Prompts(files.load(templates or bundled.templates()), {flow.workspace for flow in served})
    for refusal in (error for snapshot in prompts.values() for error in snapshot.refused.values()):
        raise refusal
    default = None
    if any(flow.provider is None for flow in served):
        default = options.provider(script, base_url, model)
    logs.configure()
    providers = _providers(served, default)
    limits = Limits(concurrency, requests_per_minute, tokens_per_minute)
    asyncio.run(_run(broker, served, prompts, providers, limits, options.cache(cache), http, drain_timeout))


async def _run(
    url: str,
    flows: list[Flow],
    prompts: Prompts,
    providers: dict[str, Provider],
    limits: Limits,
    cache: Cache,
    http: str | None,
    drain_timeout: float,
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
    limited = {name: Limiter(Metered(each, metrics.calls), limits) for name, each in providers.items()}
    async with AsyncExitStack() as closing:
        stopping = closing.enter_context(signals())
        for provider in providers.values():
            closing.push_async_callback(provider.close)
        closing.push_async_callback(cache.close)
        if http is not None:
            from trustgraph_prompt.worker.http import serve

            address = await closing.enter_async_context(serve(http, health, metrics))
            log.info("serving /livez, /readyz and /metrics", extra={"http": address})
        broker = await insist("broker", partial(connect, url), health, stopping)
        if broker is None:
            return
        await closing.enter_async_context(broker)
        worker = Worker(
            broker,
            flows,
            prompts,
            lambda flow: limited[flow.name],
            drain_timeout=drain_timeout,
            cache=cache,
            health=health,
            metrics=metrics,
            stopping=stopping,
        )
        await worker.run()


def _providers(flows: list[Flow], default: Provider | None) -> dict[str, Provider]:
    """Who answers for each flow, by its name."""
    from trustgraph_prompt.llm import OpenAIProvider

    providers: dict[str, Provider] = {}
    for flow in flows:
        if flow.provider is None:
            assert default is not None
            providers[flow.name] = default
        else:
            key = os.environ.get(flow.provider.key_env)
            providers[flow.name] = OpenAIProvider(flow.provider.base_url, flow.provider.model, api_key=key)
    return providers
