"""What a flow is: its topic, prompt, provider and outputs, how many requests at once, and its budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from trustgraph_prompt.broker import topics
from trustgraph_prompt.cost import Budget, Price

WORK_SECONDS = 600.0
"""For one delivery, unless a flow says otherwise: a silent server must not hold a slot for ever."""

Unusable = Literal["dead-letter", "answer"]
"""What becomes of a request for many objects whose answer is of no use: no object, and no word of none."""


@dataclass(frozen=True, slots=True)
class Input:
    """Where requests come from. `kind` says what a message is.

    A `PromptRequest`, a `Chunk`, or a `TextCompletionRequest`.

    `buffer` is how many requests of a non-persistent topic wait in memory, of 64 MB in all; more are dropped.
    `persistent` says whether the topic keeps what is not acknowledged; it decides how messages are settled.
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
    """Where results go. `objects` by the value of the discriminator, "" for all without a topic of their own.

    `response` is None where nobody waits for a response (chunks), `answers` where no record of one is kept
    (text completions).
    """

    answers: str | None = None
    response: str | None = None
    objects: Mapping[str, str] = field(default_factory=dict)

    @property
    def topics(self) -> frozenset[str]:
        """All topics that the flow publishes on."""
        return frozenset(filter(None, (self.answers, self.response, *self.objects.values())))

    def topic_of(self, value: object, discriminator: str | None) -> str | None:
        """The topic of an object, None where the flow publishes no objects."""
        kind = value.get(discriminator) if discriminator and isinstance(value, dict) else None
        return self.objects.get(kind if isinstance(kind, str) else "", self.objects.get(""))


@dataclass(frozen=True, slots=True)
class ProviderChoice:
    """A provider other than the one of the process. The key comes from the environment variable `key_env`.

    Without one it comes from `OPENAI_API_KEY`, if that holds any. The rest is as `OpenAIProvider` has it.
    """

    base_url: str
    model: str
    key_env: str | None = None
    prefill: Literal["assistant", "vllm", "prefix"] | None = None
    native_schema: bool | None = None
    images: bool | None = None


@dataclass(frozen=True, slots=True)
class TopicChoice:
    """A text-completion worker that is asked over topics. `model` is what it is called where it says none.

    `timeout` is how many seconds may pass without a response, after which it is asked again. After `again`
    seconds it is asked once more without giving up the first. `counts`: it says of each piece of an answer
    where that begins, as ours does, so that none is lost unnoticed.
    """

    request: str
    response: str
    model: str | None = None
    timeout: float = 600.0
    again: float | None = None
    counts: bool = True


@dataclass(frozen=True, slots=True)
class Flow:
    """One subscription to one topic. `concurrency` is how many requests are in work at once.

    `deliveries` is how often a request is tried before it becomes a dead letter, `crashes` how many workers
    may die of one from a persistent topic. `unusable` is what becomes of one whose answer has no object and
    does not say that there is none, once its attempts are spent. `prompt` and `terms` are for chunks: what
    is asked about each, and with which terms beside `text`. `model` and `temperature` are for text
    completions: those of the process and of the request otherwise. `price` is what the model costs.
    A `trustgraph` flow answers as TrustGraph's own service does: with its types of errors, and what cannot be
    served leaves nothing behind but the error.
    """

    name: str
    input: Input
    outputs: Outputs
    workspace: str = "default"
    prompt: str | None = None
    terms: Mapping[str, object] = field(default_factory=dict)
    concurrency: int = 8
    deliveries: int = 5
    crashes: int = 3
    unusable: Unusable = "dead-letter"
    budget: Budget = Budget(work_seconds=WORK_SECONDS)
    price: Price | None = None
    provider: ProviderChoice | TopicChoice | None = None
    model: str | None = None
    temperature: float | None = None
    trustgraph: bool = False

    @property
    def budget_of_a_request(self) -> Budget:
        """The budget, whose seconds count only where somebody waits for the answer."""
        nobody_waits = self.input.persistent and self.outputs.response is None
        return replace(self.budget, seconds=None) if nobody_waits else self.budget
