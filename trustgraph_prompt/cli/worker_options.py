"""Options of the commands that run a worker, and the worker that they describe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from trustgraph_prompt.cli import broker_options
from trustgraph_prompt.cli.model_options import RequestsPerMinuteOption, TokensPerMinuteOption
from trustgraph_prompt.cli.options import OptionGroup, option

if TYPE_CHECKING:
    from trustgraph_prompt.llm import Provider
    from trustgraph_prompt.trustgraph.flow_definitions import Processor
    from trustgraph_prompt.worker import Flow, Prompts

TrustGraphOption = Annotated[
    bool,
    option(
        "--trustgraph", "Replace TrustGraph's own service: serve the flows that its config service defines."
    ),
]
DrainOption = Annotated[
    float,
    option(
        "--drain-timeout SECONDS", "How long requests in progress may take to finish after SIGTERM.", min=0
    ),
]
DEFAULT_DRAIN = 30.0


class WorkerOptions(OptionGroup):
    """The limits of a worker, and what it shows of itself over HTTP."""

    concurrency: int | None = option(
        "--concurrency N",
        "Maximum number of concurrent model calls over all flows. Default: no limit beyond that of "
        "each flow; 64 with --trustgraph.",
        None,
        min=1,
    )
    requests_per_minute: RequestsPerMinuteOption = None
    tokens_per_minute: TokensPerMinuteOption = None
    http: str | None = option(
        "--http [HOST]:PORT",
        "Serve the status page, /livez, /readyz and /metrics on this address; :PORT is every "
        "address, IPv4 and IPv6. Default: off.",
        None,
    )
    http_host: list[str] | None = option(
        "--http-host NAME",
        "A host name under which browsers reach the status page, beside IP addresses and localhost. "
        "May be given several times.",
        None,
    )
    show_content: bool = option(
        "--show-content",
        "Show rejected objects and their texts on the status page, to everybody who can reach it.",
        False,
    )
    ready_without_model: bool = option(
        "--ready-without-model", "Keep /readyz at 200 while requests wait for an unavailable model.", False
    )

    def run(
        self,
        id: str,
        broker: str,
        flows: Sequence[Flow],
        prompts: Prompts,
        provider: Callable[[str | None], Provider],
        processors: Sequence[Processor],
        **settings: Any,
    ) -> None:
        """Run a worker until it is stopped, with further settings of `Service`."""
        from trustgraph_prompt.llm import Limits
        from trustgraph_prompt.trustgraph.flow_definitions import CONCURRENCY
        from trustgraph_prompt.trustgraph.origin import TrustGraphOrigin
        from trustgraph_prompt.worker import Service, main
        from trustgraph_prompt.worker.telemetry.activity import Activity
        from trustgraph_prompt.worker.telemetry.metrics import Metrics

        concurrency, metrics = self.concurrency or (CONCURRENCY if processors else None), Metrics()
        service = Service(
            broker,
            flows,
            prompts,
            provider,
            Limits(concurrency, self.requests_per_minute, self.tokens_per_minute),
            origin=TrustGraphOrigin(processors, metrics) if processors else None,
            metrics=metrics,
            activity=Activity(shows_content=self.show_content),
            ready_without_model=self.ready_without_model,
            tracing=main.log_and_trace(),
            connect=main.tuned(broker_options.connect),
            **settings,
        )
        main.run(service, id, http=self.http, hosts=self.http_host or ())
