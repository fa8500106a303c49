"""The definition of a flow: its input, prompt, provider, outputs and limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, Literal

from trustgraph_prompt.broker import topics
from trustgraph_prompt.cost import Budget, Price
from trustgraph_prompt.errors import suggestion
from trustgraph_prompt.graph.graph_clause import GraphClause
from trustgraph_prompt.graph.ontology import TERMS as ONTOLOGY_TERMS
from trustgraph_prompt.graph.ontology_choice import OntologyIndex
from trustgraph_prompt.graph.tables import TableDefinition
from trustgraph_prompt.graph.vocabulary import ENTITIES
from trustgraph_prompt.json_text.thinking import Notation
from trustgraph_prompt.prompts import PromptDefinition, PromptSet
from trustgraph_prompt.prompts.within_ontology import why_not_within

WORK_SECONDS = 600.0
"""Default for one delivery, so that a server that never answers does not block a slot forever."""

Unusable = Literal["dead-letter", "answer"]
"""What happens to a request whose jsonl answer has no valid object and does not say that there are none."""


@dataclass(frozen=True, slots=True)
class Input:
    """Where requests come from.

    `kind` is the type of the messages: `PromptRequest`, `Chunk` or `TextCompletionRequest`. `buffer` is the
    number of requests of a non-persistent topic that wait in memory, at most 64 MB in all; more are dropped.
    `persistent`: the broker redelivers messages that are not acknowledged.
    """

    topic: str
    subscription: str
    kind: Literal["prompt-request", "chunk", "text-completion"] = "prompt-request"
    buffer: int = 1000
    persistent: bool = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "persistent", topics.is_persistent(self.topic))


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where results go. `objects` by the value of the discriminator, "" for all other values.

    `response` is None if no requester waits (chunks), `answers` if no record is kept (text completions).
    `triples` and `entity_contexts` are for the graph of a chunk, `rows` for the rows of its tables. `quotes`
    says whether objects are published with their quotes.
    """

    answers: str | None = None
    response: str | None = None
    objects: Mapping[str, str] = field(default_factory=dict)
    triples: str | None = None
    entity_contexts: str | None = None
    rows: str | None = None
    quotes: Literal["keep", "drop"] = "keep"

    @property
    def topics(self) -> frozenset[str]:
        """All topics that the flow publishes to."""
        return frozenset(filter(None, self.by_path.values()))

    @property
    def by_path(self) -> dict[str, str | None]:
        """The topics by their path in a flow file."""
        return {
            "/outputs/answers": self.answers,
            "/outputs/response": self.response,
            "/outputs/triples": self.triples,
            "/outputs/entity-contexts": self.entity_contexts,
            "/outputs/rows": self.rows,
            **{"/outputs/objects" + (kind and f" {kind}"): topic for kind, topic in self.objects.items()},
        }

    @property
    def response_stays(self) -> bool:
        """Whether requesters find their responses after a lost connection; True without responses."""
        return self.response is None or topics.is_persistent(self.response)

    @property
    def has_graph(self) -> bool:
        """Whether the objects of a chunk become a graph."""
        return self.triples is not None or self.entity_contexts is not None

    def topic_of(self, value: object, discriminator: str | None) -> str | None:
        """The topic of an object, None if it is not published."""
        kind = value.get(discriminator) if discriminator and isinstance(value, dict) else None
        return self.objects.get(kind if isinstance(kind, str) else "", self.objects.get(""))


@dataclass(frozen=True, slots=True)
class ProviderChoice:
    """A server other than that of the process. The API key comes from the environment variable `key_env`.

    Without `key_env` it comes from `OPENAI_API_KEY`, if that is set. For the rest see `OpenAIProvider`.
    """

    base_url: str
    model: str
    key_env: str | None = None
    prefill: Literal["assistant", "vllm", "prefix"] | None = None
    native_schema: bool | None = None
    images: bool | None = None
    thinking: Notation | None = None


@dataclass(frozen=True, slots=True)
class TopicChoice:
    """A text-completion worker, called over topics. `model` is its name if its answers contain none.

    After `timeout` seconds without a response a call fails, and is retried. After `again` seconds at the
    latest the request is sent once more, without giving up the first. `counts`: the worker sends the position
    of each piece of an answer, as ours does, so that a lost one is noticed.
    """

    request: str
    response: str
    model: str | None = None
    timeout: float = 600.0
    again: float = inf
    counts: bool = True
    thinking: Notation | None = None


@dataclass(frozen=True, slots=True)
class GraphOptions:
    """How the objects of a chunk become a graph.

    `base` begins the IRIs of entities and predicates, which are percent-encoded names: in lower case and with
    hyphens for spaces, unless `exact`. `clause` is for prompts that have none. `component` is the name of the
    extractor in the provenance, None for that of the flow; `model` and `ontology` stand there too. Unless
    `triple_terms`, it has an `rdf:Statement` in the place of each triple term. `batched`: at most 50 triples
    and 5 contexts to a message, otherwise all of a chunk.
    """

    base: str = ENTITIES
    triple_terms: bool = True
    component: str | None = None
    clause: GraphClause | None = None
    exact: bool = False
    batched: bool = True
    model: str | None = None
    ontology: str | None = None


@dataclass(frozen=True, slots=True)
class Flow:
    """One subscription to one topic. `concurrency` is the number of concurrent requests.

    `deliveries` is the number of tries before a request becomes a dead letter, `crashes` the number of
    workers that one from a persistent topic may crash. `unusable` is for answers without a valid object that
    do not say that there are none, after the last attempt. `prompt`, `terms` and `ontology` are for chunks:
    the prompt for each, its terms besides `text`, and the ontology that its answer keeps to. With
    `outputs.rows` the prompt is asked about each of the `tables`, which is its term `schema`; the budget is
    that of each question. `model` and `temperature` are for text completions; the defaults are those of the
    process and of the request. `extras` are further parameters of each call, `allow_parameters` those that
    prompts may set; text completions may set any. `price` is that of the model. `keep_answers` is the
    number of seconds after which answer records are deleted, None for never. A `trustgraph` flow behaves like
    TrustGraph's own service: with its error types, and without dead letters of non-persistent topics.
    """

    name: str
    input: Input
    outputs: Outputs
    workspace: str = "default"
    prompt: str | None = None
    terms: Mapping[str, object] = field(default_factory=dict)
    graph: GraphOptions = GraphOptions()
    ontology: OntologyIndex | None = None
    tables: Mapping[str, TableDefinition] = field(default_factory=dict)
    concurrency: int = 8
    deliveries: int = 5
    crashes: int = 3
    unusable: Unusable = "dead-letter"
    budget: Budget = Budget(work_seconds=WORK_SECONDS)
    price: Price | None = None
    provider: ProviderChoice | TopicChoice | None = None
    model: str | None = None
    temperature: float | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)
    allow_parameters: frozenset[str] = frozenset()
    keep_answers: float | None = None
    trustgraph: bool = False

    @property
    def budget_of_a_request(self) -> Budget:
        """The budget, with a time limit only if a requester waits for the answer."""
        if self.budget.seconds is None:
            return self.budget
        nobody_waits = self.input.persistent and self.outputs.response is None
        return replace(self.budget, seconds=None) if nobody_waits else self.budget

    def has_prompt(self, prompts: Mapping[str, PromptSet]) -> bool:
        """Whether the workspace has the prompt for chunks; flows for other messages need none."""
        return self.prompt is None or self._find_prompt(prompts) is not None

    def may_ask(self, prompt: str, workspace: str, prompts: Mapping[str, PromptSet]) -> bool:
        """Whether its requests may be for this prompt: each that names its prompt may be."""
        if self.workspace != workspace or self.input.kind == "text-completion":
            return False
        own = self._find_prompt(prompts)
        return self.prompt is None or (own is not None and own.id == prompt)

    def what_it_lacks(self, prompts: Mapping[str, PromptSet]) -> str | None:
        """What is missing for a flow of chunks to serve or to make a graph; None if nothing is."""
        if not self.has_prompt(prompts):
            wait = "; its messages wait until it is pushed" if self.input.persistent else ""
            return f"there is no prompt `{self.prompt}`{wait}"
        if self.outputs.rows is not None and not self.tables:
            return "there are no tables: nothing is extracted"
        if self.ontology is not None and not self.ontology.ontology:
            return "the ontology is empty: nothing is extracted"
        prompt = self._find_prompt(prompts)
        if prompt and (missing := self._missing_terms(prompt)):
            needs = f"prompt `{prompt.id}` needs {', '.join(missing)}"
            near = suggestion(missing[0], self._terms_of_a_chunk)
            return f"{needs}, which the flow gives under none of `ontology`, `tables` and `terms`{near}"
        if prompt and self.ontology and (why := why_not_within(prompt, self.ontology.ontology)):
            return why
        if prompt and self.outputs.has_graph and not (prompt.graph or self.graph.clause or self.ontology):
            return f"prompt `{prompt.id}` has no clause `graph`: no triples are made of its objects"
        return None

    def _missing_terms(self, prompt: PromptDefinition) -> list[str]:
        """The terms without which each chunk would be refused, and those that look like one of an ontology.

        A missing term of an ibis template is none.
        """
        if prompt.template.dialect != "jinja":
            return []
        given = self._terms_of_a_chunk
        unknown = prompt.named.difference(given, prompt.terms) if self.ontology else ()
        alike = (name for name in unknown if suggestion(name, ONTOLOGY_TERMS))
        return sorted({*prompt.missing(given), *alike})

    @property
    def _terms_of_a_chunk(self) -> set[str]:
        of_tables = {"schema"} if self.tables else set()
        return {"text", *self.terms, *of_tables, *(ONTOLOGY_TERMS if self.ontology else ())}

    def _find_prompt(self, prompts: Mapping[str, PromptSet]) -> PromptDefinition | None:
        snapshot = prompts.get(self.workspace)
        return snapshot.find(self.prompt) if snapshot and self.prompt else None
