"""`run`: the prompt worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trustgraph_prompt.cli import options
from trustgraph_prompt.errors import raise_first

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trustgraph_prompt.llm import Provider

EXAMPLE = (
    "Example:  trustgraph-prompt run --broker pulsar://localhost:6650 --http 0.0.0.0:8000 "
    "--base-url http://localhost:11434/v1 --model qwen3"
)


def command(
    broker: options.BrokerOption = options.DEFAULT_BROKER,
    flows: options.FlowsOption = None,
    trustgraph: options.TrustGraphOption = False,
    extractor: options.ExtractorOption = None,
    into: options.IntoOption = None,
    space: options.SpaceOption = "tg",
    templates: options.TemplatesOption = None,
    topic: options.ConfigTopicOption = options.DEFAULT_CONFIG_TOPIC,
    id: options.IdOption = "prompt",
    concurrency: options.ConcurrencyOption = None,
    requests_per_minute: options.RequestsPerMinuteOption = None,
    tokens_per_minute: options.TokensPerMinuteOption = None,
    http: options.HttpOption = None,
    http_host: options.HttpHostOption = None,
    show_content: options.ShowContentOption = False,
    ready_without_model: options.ReadyOption = False,
    cache: options.CacheOption = "memory:",
    drain_timeout: options.DrainOption = options.DEFAULT_DRAIN,
    script: options.ProviderOption = None,
    base_url: options.BaseUrlOption = None,
    model: options.ModelOption = None,
    prefill: options.PrefillOption = None,
    native_schema: options.NativeSchemaOption = None,
    allow_parameter: options.AllowParameterOption = None,
) -> None:
    """Run a worker that serves prompt requests from the topics of flows.

    The first SIGTERM or Ctrl-C stops it after the requests in progress; a second one stops it at once. A
    prompt comes from the config topic (see `config push`), or else from --templates.

    With --trustgraph it replaces TrustGraph's prompt service: flows and prompts come from TrustGraph's config
    service, prompts that are missing there from --templates. Answers come from the text-completion service of
    each flow, or from --base-url if it is given.

    With --extractor it replaces those of TrustGraph's extractors instead: chunks come in, and triples, entity
    contexts and rows go out, without the prompt service.
    """
    from trustgraph_prompt import package_data
    from trustgraph_prompt.llm import Limits
    from trustgraph_prompt.prompts import files
    from trustgraph_prompt.trustgraph.extractors import extractors
    from trustgraph_prompt.trustgraph.flow_definitions import CONCURRENCY, Processor
    from trustgraph_prompt.trustgraph.trustgraph import TrustGraph
    from trustgraph_prompt.worker import Prompts, Service, flow_file, main
    from trustgraph_prompt.worker.telemetry.activity import Activity
    from trustgraph_prompt.worker.telemetry.metrics import Metrics

    options.check_trustgraph(flows, trustgraph=trustgraph)
    options.check_extractors(extractor, trustgraph=trustgraph)

    def provider(named: str | None) -> Provider:
        return options.provider(script, base_url, named or model, prefill, native_schema)

    if templates is None and not trustgraph:
        templates = package_data.templates()
    entries = files.load(templates) if templates else {}
    metrics, origin = Metrics(), None
    if trustgraph:
        concurrency = concurrency or CONCURRENCY
        answered_here = script is not None or base_url is not None
        if answered_here:
            provider(None)  # reject bad options before the worker starts
        prompt_service = Processor(id, concurrency=concurrency, asks_topics=not answered_here, space=space)
        replaced: Sequence[Processor] = [prompt_service]
        if extractor:
            replaced = extractors(extractor, prompt_service, into)
        origin = TrustGraph(replaced, metrics)
        served = []
    else:
        served = flow_file.load(flows or package_data.flows(), processor=id)
    prompts = Prompts(entries, {flow.workspace for flow in served})
    raise_first(prompts.base.refused.values())
    service = Service(
        broker,
        served,
        prompts,
        provider,
        Limits(concurrency, requests_per_minute, tokens_per_minute),
        cache=options.cache(cache),
        config_topic=topic,
        origin=origin,
        metrics=metrics,
        drain_timeout=drain_timeout,
        activity=Activity(shows_content=show_content),
        ready_without_model=ready_without_model,
        allow_parameters=allow_parameter or (),
        tracing=main.observed(),
        connect=main.tuned(options.connect),
    )
    main.run(service, id, http=http, hosts=http_host or ())
