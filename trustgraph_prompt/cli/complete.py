"""`complete`: the text-completion worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trustgraph_prompt.cli import options
from trustgraph_prompt.errors import FlowError

if TYPE_CHECKING:
    from trustgraph_prompt.llm import Provider

EXAMPLE = (
    "Example:  trustgraph-prompt complete --broker pulsar://localhost:6650 "
    "--base-url http://localhost:11434/v1 --model qwen3"
)


def command(
    broker: options.BrokerOption = options.DEFAULT_BROKER,
    flows: options.FlowsOption = None,
    trustgraph: options.TrustGraphOption = False,
    space: options.SpaceOption = "tg",
    id: options.IdOption = "text-completion",
    concurrency: options.ConcurrencyOption = None,
    requests_per_minute: options.RequestsPerMinuteOption = None,
    tokens_per_minute: options.TokensPerMinuteOption = None,
    http: options.HttpOption = None,
    http_host: options.HttpHostOption = None,
    show_content: options.ShowContentOption = False,
    ready_without_model: options.ReadyOption = False,
    drain_timeout: options.DrainOption = options.DEFAULT_DRAIN,
    script: options.ProviderOption = None,
    base_url: options.BaseUrlOption = None,
    model: options.ModelOption = None,
    prefill: options.PrefillOption = None,
    native_schema: options.NativeSchemaOption = None,
) -> None:
    """Run a worker that serves TrustGraph's text-completion topics.

    It replaces TrustGraph's text-completion service: by default for the workspace `default` and the flow
    `default`, with --trustgraph for all flows in which TrustGraph's config service names this --id. The first
    SIGTERM or Ctrl-C stops it after the requests in progress; a second one stops it at once.
    """
    from trustgraph_prompt import package_data
    from trustgraph_prompt.llm import Limits
    from trustgraph_prompt.trustgraph.flow_definitions import CONCURRENCY, Processor
    from trustgraph_prompt.trustgraph.trustgraph import TrustGraph
    from trustgraph_prompt.worker import Prompts, Service, flow_file, main
    from trustgraph_prompt.worker.telemetry.activity import Activity
    from trustgraph_prompt.worker.telemetry.metrics import Metrics

    options.check_trustgraph(flows, trustgraph=trustgraph)

    def provider(named: str | None) -> Provider:
        return options.provider(script, base_url, named or model, prefill, native_schema)

    metrics, origin = Metrics(), None
    if trustgraph:
        concurrency = concurrency or CONCURRENCY
        replaced = Processor(id, "text-completion", concurrency, asks_topics=False, space=space)
        origin = TrustGraph([replaced], metrics)
        provider(model or "each flow's")  # reject bad options before the worker starts
        served = []
    else:
        served = flow_file.load(flows or package_data.flows() / "completion", processor=id)
    for other in served:
        if other.input.kind != "text-completion":
            raise FlowError(
                "`complete` does not serve this kind of flow; `run` does",
                where=f"flow {other.name}",
                path="/input/kind",
                found=other.input.kind,
                expected="text-completion",
            )
    service = Service(
        broker,
        served,
        Prompts(workspaces={flow.workspace for flow in served}),
        provider,
        Limits(concurrency, requests_per_minute, tokens_per_minute),
        config_topic=None,
        origin=origin,
        metrics=metrics,
        drain_timeout=drain_timeout,
        activity=Activity(shows_content=show_content),
        ready_without_model=ready_without_model,
        tracing=main.observed(),
        connect=main.tuned(options.connect),
    )
    main.run(service, id, http=http, hosts=http_host or ())
