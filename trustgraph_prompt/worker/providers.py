"""Which provider answers for a flow: creates it, shared where flows want the same, and wraps it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from math import inf

from trustgraph_prompt.broker import topics
from trustgraph_prompt.broker.caller import CallerPool
from trustgraph_prompt.errors import FlowError
from trustgraph_prompt.llm import Limiter, Limits, LostMessages, Provider, TopicProvider, api_key
from trustgraph_prompt.llm.api_key import ApiKey
from trustgraph_prompt.llm.lost_messages import LEAST
from trustgraph_prompt.llm.parameters import FlowParameters
from trustgraph_prompt.worker.around.circuits import Circuits
from trustgraph_prompt.worker.config.source import FlowOrigin
from trustgraph_prompt.worker.flow import Flow, ProviderChoice, TopicChoice
from trustgraph_prompt.worker.telemetry.call_metrics import CallMetrics, CountedProvider
from trustgraph_prompt.worker.telemetry.tracing_interface import Tracing

Choice = tuple[ProviderChoice | TopicChoice | None, str | None]


@dataclass(eq=False, repr=False)
class Providers:
    """The providers of the flows. Flows with the same choice share one until the last of them has ended.

    `default(model)` is the provider of flows that choose none. `callers` have a broker, at the address
    `broker`. Prompts may set the parameters that are `allowed` in all flows.
    """

    default: Callable[[str | None], Provider]
    callers: CallerPool
    broker: str
    circuits: Circuits
    limits: Limits
    metrics: CallMetrics
    tracing: Tracing
    allowed: Collection[str] = ()
    origin: FlowOrigin | None = None

    def __post_init__(self) -> None:
        self._shared: dict[Choice, _Shared] = {}

    def of(self, flow: Flow) -> Provider:
        """The provider of a flow that starts, wrapped. Raises `ConfigError`.

        The wrappers, from the outside: parameters, limits, circuit breaker, metrics, traces.
        """
        shared = self._get(flow)
        shared.flows += 1
        provider = shared.provider
        ended = self.origin.calls(flow, provider) if self.origin else None
        metered = CountedProvider(self.tracing.provider(provider), self.metrics, ended=ended)
        breaker = self.circuits.breaker(flow, provider, metered)
        limited = Limiter(breaker, self.limits, on_pause=self.metrics.paused)
        completes = flow.input.kind == "text-completion"
        allowed = None if completes else flow.allow_parameters.union(self.allowed)
        return FlowParameters(limited, flow.extras, allowed)

    def check(self, flow: Flow) -> None:
        """Raise what `of` would raise for a flow that starts later."""
        self._get(flow)

    async def released(self, flow: Flow) -> None:
        """Close the provider of a flow that has ended, unless another flow uses it."""
        self.circuits.released(flow)
        choice = flow.provider, flow.model
        shared = self._shared[choice]
        shared.flows -= 1
        if shared.flows == 0:
            del self._shared[choice]
            await shared.provider.close()
            if isinstance(flow.provider, TopicChoice):
                await self.callers.forget(flow.provider.request, flow.provider.response)
        if self.origin is not None:
            self.origin.forget(flow)

    async def close(self) -> None:
        """Close all providers."""
        for shared in self._shared.values():
            await shared.provider.close()

    def over_topics(self) -> list[TopicProvider]:
        """The providers that are called over topics."""
        providers = (shared.provider for shared in self._shared.values())
        return [provider for provider in providers if isinstance(provider, TopicProvider)]

    def _get(self, flow: Flow) -> _Shared:
        choice = flow.provider, flow.model
        if choice not in self._shared:
            self._shared[choice] = _Shared(self._create(flow))
        return self._shared[choice]

    def _create(self, flow: Flow) -> Provider:
        match flow.provider:
            case TopicChoice() as choice:
                keeps_all = topics.is_persistent(choice.request) and topics.is_persistent(choice.response)
                return TopicProvider(
                    self.callers.between(choice.request, choice.response),
                    model=choice.model,
                    place=f"{self.broker} {choice.request}".strip(),
                    timeout=choice.timeout,
                    lost=LostMessages(latest=choice.again, least=inf if keeps_all else LEAST),
                    is_away=self.circuits.is_away,
                    thinking=choice.thinking,
                )
            case ProviderChoice() as choice:
                from trustgraph_prompt.llm import OpenAIProvider  # importing aiohttp is slow

                return OpenAIProvider(
                    choice.base_url,
                    flow.model or choice.model,
                    api_key=_key(flow, choice),
                    prefill=choice.prefill,
                    native_schema=choice.native_schema,
                    images=choice.images,
                    thinking=choice.thinking,
                )
            case None:
                return self.default(flow.model)


@dataclass
class _Shared:
    provider: Provider
    flows: int = 0


def _key(flow: Flow, choice: ProviderChoice) -> ApiKey | None:
    """The API key; it may only be missing if the flow names no variable. Raises `ConfigError`."""
    if choice.key_env is None:
        return api_key.from_environment()
    key = api_key.from_environment(choice.key_env)
    if not key:
        raise FlowError(
            "the environment variable is not set or is empty",
            where=f"flow {flow.name}",
            path="/provider/key-env",
            found=choice.key_env,
            expected="an environment variable that holds the key",
        )
    return key
