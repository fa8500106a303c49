"""Options of the commands that run a worker, and the worker that they describe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trustgraph_prompt.cli import broker_options
from trustgraph_prompt.cli.lazy_commands import Options
from trustgraph_prompt.cli.model_options import RequestsPerMinuteOption, TokensPerMinuteOption

if TYPE_CHECKING:
    from trustgraph_prompt.llm import Provider
    from trustgraph_prompt.worker import Flow, Prompts
    from trustgraph_prompt.worker.config.trustgraph_flows import Processor

TrustGraphOption = Annotated[
    bool,
    typer.Option(
        "--trustgraph",
        help="Replace TrustGraph's own service: serve the flows that its config service defines.",
    ),
]
DrainOption = Annotated[
    float,
    typer.Option(
        min=0,
        metavar="SECONDS",
        help="How long requests in progress may take to finish after SIGTERM.",
    ),
]
DEFAULT_DRAIN = 30.0


class WorkerOptions(Options):
    """The limits of a worker, and what it shows of itself over HTTP."""

    concurrency: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Maximum number of concurrent model calls over all flows. Default: no limit beyond that of "
            "each flow; 64 with --trustgraph.",
        ),
    ] = None
    requests_per_minute: RequestsPerMinuteOption = None
    tokens_per_minute: TokensPerMinuteOption = None
    http: Annotated[
        str | None,
        typer.Option(
            metavar="[HOST]:PORT",
            help="Serve the status page, /livez, /readyz and /metrics on this address; :PORT is every "
            "address, IPv4 and IPv6. Default: off.",
        ),
    ] = None
    http_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A host name under which browsers reach the status page, beside IP addresses and localhost. "
            "May be given several times.",
        ),
    ] = None
    show_content: Annotated[
        bool,
        typer.Option(
            "--show-content",
            help="Show rejected objects and their texts on the status page, to everybody who can reach it.",
        ),
    ] = False
    ready_without_model: Annotated[
        bool,
        typer.Option(
            "--ready-without-model", help="Keep /readyz at 200 while requests wait for an unavailable model."
        ),
    ] = False

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
        from trustgraph_prompt.worker import Service, process
        from trustgraph_prompt.worker.config.trustgraph_flows import CONCURRENCY
        from trustgraph_prompt.worker.telemetry.activity import Activity

        concurrency = self.concurrency or (CONCURRENCY if processors else None)
        service = Service(
            broker,
            flows,
            prompts,
            provider,
            Limits(concurrency, self.requests_per_minute, self.tokens_per_minute),
            processors=processors,
            activity=Activity(shows_content=self.show_content),
            ready_without_model=self.ready_without_model,
            connect=broker_options.connect,
            **settings,
        )
        process.run(service, id, http=self.http, hosts=self.http_host or ())
