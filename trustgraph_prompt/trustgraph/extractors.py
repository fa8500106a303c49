"""TrustGraph's extractors: what each of them does, and its flows in this worker."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from trustgraph_prompt import package_data
from trustgraph_prompt.cost import Budget
from trustgraph_prompt.errors import ConfigError, FlowError, suggestion
from trustgraph_prompt.graph.graph_clause import GraphClause
from trustgraph_prompt.graph.ontology_config import merged, read_ontology
from trustgraph_prompt.graph.ontology_files import index_of
from trustgraph_prompt.graph.tables import read_table
from trustgraph_prompt.prompts import files
from trustgraph_prompt.trustgraph.config_client import Values
from trustgraph_prompt.trustgraph.flow_definitions import (
    REQUEST,
    RESPONSE,
    Definition,
    Processor,
    completions,
)
from trustgraph_prompt.worker.flow import Flow, GraphOptions, Input, Outputs, TopicChoice


@dataclass(frozen=True, slots=True)
class ExtractorSpec:
    """What an extractor does with a chunk.

    `outputs` are the specs of the topics that it publishes to. `config` is a further type of config, whose
    values `add` puts into a flow; it raises `ConfigError`.
    """

    prompt: str
    outputs: Sequence[str]
    graph: GraphOptions = field(default_factory=GraphOptions)
    config: str | None = None
    add: Callable[[Flow, Values], Flow] = field(default=lambda flow, values: flow)


log = logging.getLogger(__name__)

TRIPLES, CONTEXTS, ROWS = "triples", "entity-contexts", "output"


def _with_tables(flow: Flow, values: Values) -> Flow:
    return replace(flow, tables={key: read_table(key, text) for key, text in sorted(values.items())})


def _with_ontology(flow: Flow, values: Values) -> Flow:
    ontologies = merged([read_ontology(key, text) for key, text in sorted(values.items())])
    return replace(flow, ontology=index_of(ontologies, partial(log.warning, "%s")))


EXTRACTORS: Final[Mapping[str, ExtractorSpec]] = {
    "kg-extract-definitions": ExtractorSpec("extract-definitions", [TRIPLES, CONTEXTS]),
    "kg-extract-relationships": ExtractorSpec("extract-relationships", [TRIPLES]),
    "kg-extract-rows": ExtractorSpec("extract-rows", [ROWS], config="schema", add=_with_tables),
    "kg-extract-ontology": ExtractorSpec(
        "extract-with-ontologies", [TRIPLES, CONTEXTS], config="ontology", add=_with_ontology
    ),
    "kg-extract-agent": ExtractorSpec(
        "agent-kg-extract", [TRIPLES, CONTEXTS], GraphOptions(exact=True, batched=False)
    ),
}
"""The extractors by their id. TrustGraph's extractor of topics does not start, and is in no blueprint."""


@dataclass(frozen=True, slots=True)
class Extractor(Processor):
    """The extractor with that `id`: receives chunks, and publishes what their objects make.

    `clause` is for prompts that have none. `prompt_service` is the type of config whose definition of the
    same variant names the text-completion topics. With `into`, the flows have subscriptions of their own,
    and publish on topics whose names begin with it.
    """

    clause: GraphClause | None = None
    prompt_service: str = Processor().type
    into: str | None = None

    @property
    def needs(self) -> tuple[str, ...]:
        """The other types of config that the flows are made of."""
        types = self.asks_topics and self.prompt_service, EXTRACTORS[self.id].config
        return tuple(type for type in types if type)

    def _flow(
        self, workspace: str, variant: str, definition: Definition, config: Mapping[str, Values]
    ) -> Flow:
        spec = EXTRACTORS[self.id]
        topic = definition.distinct_topics(["input", *spec.outputs])
        own = f"--{self.into}" if self.into else ""
        flow = Flow(
            name=f"{workspace}/{variant}/{self.id}",
            workspace=workspace,
            input=Input(topic["input"], f"{self.id}--{workspace}--{variant}--input{own}", "chunk"),
            outputs=Outputs(
                triples=self._output(topic.get(TRIPLES)),
                entity_contexts=self._output(topic.get(CONTEXTS)),
                rows=self._output(topic.get(ROWS)),
            ),
            prompt=spec.prompt,
            graph=replace(
                spec.graph,
                component=self.id,
                clause=self.clause,
                model=definition.text("llm-model"),
                ontology=definition.text("ontology"),
            ),
            concurrency=self.concurrency,
            budget=Budget(),  # providers limit their calls; waiting for a turn among many flows is no work
            provider=self._completions(workspace, variant, config) if self.asks_topics else None,
        )
        return spec.add(flow, config[spec.config]) if spec.config else flow

    def _output(self, topic: str | None) -> str | None:
        if topic is None or self.into is None:
            return topic
        place, _, name = topic.rpartition("/")
        return f"{place}/{self.into}-{name}"

    def _completions(self, workspace: str, variant: str, config: Mapping[str, Values]) -> TopicChoice:
        """The text-completion topics of the prompt service. Raises `FlowError`."""
        where = f"{self.prompt_service} {workspace}/{variant}"
        text = config[self.prompt_service].get(variant)
        if text is None:
            raise FlowError(
                f"{self.id} has no text-completion topics to ask",
                where=where,
                expected="a definition of this flow for the prompt service, or --base-url",
            )
        try:
            return completions(Definition.parse(text).distinct_topics([REQUEST, RESPONSE]))
        except FlowError as error:
            raise error.at(where) from None


def extractors(ids: Iterable[str], service: Processor, into: str | None = None) -> list[Extractor]:
    """The extractors with these ids, in the place of a prompt service too. Raises `ConfigError`.

    Each has the clause that its prompt has where it is bundled.
    """
    ids = list(dict.fromkeys(ids))
    for id in ids:
        if id not in EXTRACTORS:
            raise ConfigError(
                f"there is no such extractor{suggestion(id, EXTRACTORS)}",
                where="--extractor",
                found=id,
                expected=f"one of {', '.join(EXTRACTORS)}",
            )
    return [
        Extractor(
            id,
            concurrency=service.concurrency,
            asks_topics=service.asks_topics,
            space=service.space,
            clause=_bundled_clause(EXTRACTORS[id].prompt),
            prompt_service=service.type,
            into=into,
        )
        for id in ids
    ]


def _bundled_clause(prompt: str) -> GraphClause | None:
    return files.read(package_data.templates() / f"{prompt}.prompt").build().prompts[prompt].graph
