"""Who answers for each flow of a worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trustgraph_prompt.broker.caller_pool import CallerPool
from trustgraph_prompt.errors import FlowError
from trustgraph_prompt.llm import Provider, TopicProvider, api_key
from trustgraph_prompt.worker.flow import Flow, ProviderChoice, TopicChoice

Choice = tuple[ProviderChoice | TopicChoice | None, str | None]


class Providers:
    """The providers of the flows. Flows that want the same share it; it is closed when the last has ended.

    A flow that names none is answered by `default` of its model. `dress` puts what observes and limits it
    around that of a flow. `broker` is the address of the broker whose `callers` are used.
    """

    def __init__(
        self,
        default: Callable[[str | None], Provider],
        callers: CallerPool,
        broker: str,
        dress: Callable[[Flow, Provider], Provider],
    ) -> None:
        self._default = default
        self._callers = callers
        self._broker = broker
        self._dress = dress
        self._held: dict[Choice, _Held] = {}

    def of(self, flow: Flow) -> Provider:
        """The provider of a flow that begins. Raises `ConfigError`."""
        held = self._hold(flow)
        held.flows += 1
        return self._dress(flow, held.provider)

    def check(self, flow: Flow) -> None:
        """Raises what `of` would for a flow that is to begin later."""
        self._hold(flow)

    async def released(self, flow: Flow) -> None:
        """A flow has ended."""
        choice = flow.provider, flow.model
        held = self._held[choice]
        held.flows -= 1
        if held.flows == 0:
            del self._held[choice]
            await held.provider.close()
            if isinstance(flow.provider, TopicChoice):
                await self._callers.forget(flow.provider.request, flow.provider.response)

    async def close(self) -> None:
        """Close them all."""
        for held in self._held.values():
            await held.provider.close()

    def _hold(self, flow: Flow) -> _Held:
        choice = flow.provider, flow.model
        if choice not in self._held:
            self._held[choice] = _Held(self._named(flow) or self._default(flow.model))
        return self._held[choice]

    def _named(self, flow: Flow) -> Provider | None:
        """The provider that the flow itself names. Raises `ConfigError`."""
        match flow.provider:
            case TopicChoice() as over:
                return TopicProvider(
                    self._callers.between(over.request, over.response),
                    model=over.model,
                    place=f"{self._broker} {over.request}".strip(),
                    timeout=over.timeout,
                    again=over.again,
                )
            case ProviderChoice() as at:
                from trustgraph_prompt.llm import OpenAIProvider  # aiohttp takes its time to import

                return OpenAIProvider(
                    at.base_url,
                    flow.model or at.model,
                    api_key=_key(flow, at),
                    prefill=at.prefill,
                    native_schema=at.native_schema,
                    images=at.images,
                )
            case None:
                return None


@dataclass
class _Held:
    provider: Provider
    flows: int = 0


def _key(flow: Flow, choice: ProviderChoice) -> str | None:
    """The key, which may be missing only where the flow does not say where it is. Raises `ConfigError`."""
    if choice.key_env is None:
        return api_key.from_environment()
    key = api_key.from_environment(choice.key_env)
    if not key:
        raise FlowError(
            "the environment variable is not set, or empty",
            where=f"flow {flow.name}",
            path="/provider/key-env",
            found=choice.key_env,
            expected="an environment variable that holds the key",
        )
    return key
