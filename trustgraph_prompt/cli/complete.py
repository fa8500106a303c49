"""`complete`: the text-completion worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trustgraph_prompt.cli import broker_options, flow_options, worker_options
from trustgraph_prompt.cli.model_options import ModelOptions
from trustgraph_prompt.cli.worker_options import WorkerOptions
from trustgraph_prompt.errors import FlowError

if TYPE_CHECKING:
    from trustgraph_prompt.llm import Provider

EXAMPLE = "complete --broker pulsar://localhost:6650 --base-url http://localhost:11434/v1 --model qwen3"


def command(
    *,
    broker: broker_options.BrokerOption = broker_options.DEFAULT_BROKER,
    flows: flow_options.FlowsOption = None,
    trustgraph: worker_options.TrustGraphOption = False,
    space: flow_options.SpaceOption = "tg",
    id: flow_options.IdOption = "text-completion",
    worker: WorkerOptions,
    drain_timeout: worker_options.DrainOption = worker_options.DEFAULT_DRAIN,
    model: ModelOptions,
) -> None:
    """Run a worker that serves TrustGraph's text-completion topics.

    It replaces TrustGraph's text-completion service: by default for the workspace `default` and the flow
    `default`, with --trustgraph for all flows in which TrustGraph's config service names this --id. The first
    SIGTERM or Ctrl-C stops it after the requests in progress; a second one stops it at once.
    """
    from trustgraph_prompt import package_data
    from trustgraph_prompt.trustgraph.flow_definitions import CONCURRENCY, Processor
    from trustgraph_prompt.worker import Prompts, flow_file

    flow_options.check_trustgraph(flows, trustgraph=trustgraph)

    def provider(named: str | None) -> Provider:
        return model.but(model=named or model.model).provider()

    processors, served = [], []
    if trustgraph:
        concurrency = worker.concurrency or CONCURRENCY
        processors = [Processor(id, "text-completion", concurrency, asks_topics=False, space=space)]
        provider(model.model or "each flow's")  # reject bad options before the worker starts
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
    prompts = Prompts(workspaces={flow.workspace for flow in served})
    worker.run(
        id, broker, served, prompts, provider, processors, config_topic=None, drain_timeout=drain_timeout
    )
