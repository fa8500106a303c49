"""`run`: the prompt worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trustgraph_prompt.cli import broker_options, flow_options, prompt_options, worker_options
from trustgraph_prompt.cli.model_options import PromptModelOptions
from trustgraph_prompt.cli.options import option, typed
from trustgraph_prompt.cli.worker_options import WorkerOptions
from trustgraph_prompt.errors import ConfigError, raise_first

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trustgraph_prompt.ask import Cache
    from trustgraph_prompt.llm import Provider
    from trustgraph_prompt.trustgraph.flow_definitions import Processor

EXAMPLE = (
    "run --broker pulsar://localhost:6650 --http 0.0.0.0:8000 "
    "--base-url http://localhost:11434/v1 --model qwen3"
)


def _prefix(prefix: str | None) -> str | None:
    if prefix == "":  # such as an unset variable: without a prefix the worker would take over
        raise ConfigError("is empty", where="--into", expected="the beginning of topic names")
    broker_options.resolved(f"flow:tg:{prefix}-triples-store", "--into")
    return prefix


def command(
    *,
    broker: broker_options.BrokerOption = broker_options.DEFAULT_BROKER,
    flows: flow_options.FlowsOption = None,
    trustgraph: worker_options.TrustGraphOption = False,
    extractor: list[str] | None = option(
        "--extractor ID",
        "With --trustgraph: replace this extractor of TrustGraph's instead of the prompt service. --id "
        "is then the id of the prompt service whose text-completion topics are used. May be given several "
        "times.",
        None,
    ),
    into: str | None = option(
        "--into PREFIX",
        "With --extractor: publish on other topics, whose names begin with PREFIX, and receive all "
        "chunks beside TrustGraph's extractors.",
        None,
        callback=_prefix,
    ),
    space: flow_options.SpaceOption = "tg",
    templates: prompt_options.TemplatesOption = None,
    topic: broker_options.ConfigTopicOption = broker_options.DEFAULT_CONFIG_TOPIC,
    id: flow_options.IdOption = "prompt",
    worker: WorkerOptions,
    cache: str = option(
        "--cache URL",
        "Where to cache the answers of prompts that set `cache`: memory:, or redis://HOST:PORT/0.",
        "memory:",
        envvar="TRUSTGRAPH_PROMPT_CACHE",
    ),
    drain_timeout: worker_options.DrainOption = worker_options.DEFAULT_DRAIN,
    model: PromptModelOptions,
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
    from trustgraph_prompt.prompts import files
    from trustgraph_prompt.trustgraph.extractors import extractors
    from trustgraph_prompt.trustgraph.flow_definitions import CONCURRENCY, Processor
    from trustgraph_prompt.worker import Prompts, flow_file

    flow_options.check_trustgraph(flows, trustgraph=trustgraph)
    _check_extractors(extractor, trustgraph=trustgraph)

    def provider(named: str | None) -> Provider:
        return model.but(model=named or model.model).provider()

    if templates is None and not trustgraph:
        templates = package_data.templates()
    entries = files.load(templates) if templates else {}
    processors: Sequence[Processor] = ()
    served = []
    if trustgraph:
        answered_here = model.script is not None or model.base_url is not None
        if answered_here:
            provider(None)  # reject bad options before the worker starts
        concurrency = worker.concurrency or CONCURRENCY
        prompt_service = Processor(id, concurrency=concurrency, asks_topics=not answered_here, space=space)
        processors = extractors(extractor, prompt_service, into) if extractor else [prompt_service]
    else:
        served = flow_file.load(flows or package_data.flows(), processor=id)
    prompts = Prompts(entries, {flow.workspace for flow in served})
    raise_first(prompts.base.refused.values())
    worker.run(
        id,
        broker,
        served,
        prompts,
        provider,
        processors,
        cache=_cache(cache),
        config_topic=topic,
        drain_timeout=drain_timeout,
        allow_parameters=model.allow_parameter or (),
    )


def _check_extractors(extractors: list[str] | None, *, trustgraph: bool) -> None:
    """Reject options of extractors that have no effect. Raises `ConfigError`."""
    if extractors and not trustgraph:
        raise ConfigError("has no effect without --trustgraph", where="--extractor")
    if not extractors and typed("--into"):
        raise ConfigError("has no effect without --extractor", where="--into")


def _cache(url: str) -> Cache:
    """Return the cache at the URL. Raises `ConfigError`."""
    from trustgraph_prompt.ask import MemoryCache, RedisCache

    try:
        return MemoryCache() if url == "memory:" else RedisCache(url)
    except ConfigError as error:
        raise error.at("--cache") from None
