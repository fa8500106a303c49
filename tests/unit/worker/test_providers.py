"""Who answers for flows: one provider for all that want the same, for as long as one of them is there."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

import pytest

from trustgraph_prompt.broker.caller import CallerPool
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.llm import Limits, Provider, ScriptedProvider
from trustgraph_prompt.llm.provider import ProviderWrapper
from trustgraph_prompt.worker.around.circuits import Circuits
from trustgraph_prompt.worker.flow import Flow, Input, Outputs
from trustgraph_prompt.worker.providers import Providers
from trustgraph_prompt.worker.telemetry.call_metrics import CallMetrics
from trustgraph_prompt.worker.telemetry.series import SeriesRegistry
from trustgraph_prompt.worker.telemetry.tracing_interface import Tracing


class Closing(ScriptedProvider):
    """A provider that says whether it was closed."""

    closed = False

    async def close(self) -> None:
        self.closed = True


def flow(name: str, model: str | None = None) -> Flow:
    return Flow(name, Input(f"persistent://tg/flow/{name}", "s"), Outputs(), model=model)


def providers_of(default: Callable[[str | None], Provider]) -> Providers:
    calls = CallMetrics(SeriesRegistry(monotonic), "")
    return Providers(default, CallerPool(), "embedded:", Circuits(), Limits(), calls, Tracing())


def innermost(provider: Provider) -> Provider:
    """The provider within its wrappers."""
    while isinstance(provider, ProviderWrapper):
        provider = provider.provider
    return provider


async def test_equal_flows_share_a_provider_until_the_last_has_ended() -> None:
    made: list[Closing] = []

    def default(model: str | None) -> Provider:
        made.append(Closing(lambda call: "hi"))
        return made[-1]

    providers = providers_of(default)
    one, two, other = flow("one"), flow("two"), flow("other", model="large")
    for each in (one, two, other):
        providers.check(each)

    assert innermost(providers.of(one)) is innermost(providers.of(two)) is made[0]
    assert innermost(providers.of(other)) is made[1]
    await providers.released(one)
    assert not made[0].closed
    await providers.released(two)
    assert made[0].closed
    assert not made[1].closed


async def test_error_of_a_flows_provider_is_raised_before_the_flow_begins() -> None:
    def default(model: str | None) -> Provider:
        raise ConfigError("who answers?")

    providers = providers_of(default)

    with pytest.raises(ConfigError, match="who answers"):
        providers.check(flow("one"))
