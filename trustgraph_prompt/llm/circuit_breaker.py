"""A provider wrapper that makes no calls, except probes, while the circuit of the model is open.

docs/decisions/0028 says which failures open a circuit, and why.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial

from trustgraph_prompt.errors import (
    BrokerError,
    CallTimeout,
    ProviderAuthentication,
    ProviderError,
    ProviderInvalidModel,
    ProviderModelAway,
    ProviderModelNotLoaded,
    ProviderUnavailable,
)
from trustgraph_prompt.file_descriptors import out_of_descriptors
from trustgraph_prompt.llm.circuit import LONGEST_PAUSE, Circuit, ProviderAway
from trustgraph_prompt.llm.provider import ProviderWrapper
from trustgraph_prompt.llm.records import Call, Delta

#: The part of a request's seconds after which a silent server counts as failed; the rest is for reporting it.
SILENT_PART = 0.95


@dataclass(eq=False, repr=False)
class CircuitBreaker(ProviderWrapper):
    """Reports successes and failures of calls to the circuit of their model, and obeys it.

    `circuit_of` returns the circuit of the model that a call names (None: the provider's own), or None where
    such calls do not wait for an outage to end. `ready` raises where the server does not serve that model;
    not every provider can tell. `holds(model)` is False where requests for other models are pending as well:
    requests for this one must make room for them, and are postponed instead of waiting. `seconds` is how long
    a request may be worked on: a server that is silent for nearly as long has failed.
    """

    circuit_of: Callable[[str | None], Circuit | None]
    ready: Callable[[str | None], Awaitable[None]] | None = None
    holds: Callable[[str | None], bool] = lambda model: True
    seconds: float | None = None

    def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        """Stream the answer. Raises `ProviderAway` for an outage, else the errors of the wrapped provider."""
        circuit = self.circuit_of(call.config.model)
        return self.provider.stream(call) if circuit is None else self._watched(call, circuit)

    async def _watched(self, call: Call, circuit: Circuit) -> AsyncGenerator[Delta, None]:
        model, request = call.config.model, call.request
        if not circuit.admits(request):
            raise self._provider_away(circuit, model)
        is_probe, openings, has_begun = circuit.is_open, circuit.openings, False
        began = circuit.now()

        def answered() -> None:
            circuit.succeeded(request, began=began, probe=is_probe and openings == circuit.openings)

        try:
            async with aclosing(self.provider.stream(call)) as deltas:
                first = await self._first_delta(deltas)
                has_begun = True
                answered()
                if first is not None:
                    yield first
                async for delta in deltas:
                    yield delta
        except ProviderError as error:
            if has_begun:
                raise
            over_topics = self.identity.system == "topic"
            if not _may_be_outage(error, over_topics=over_topics):
                if is_probe and not _is_local(error):
                    answered()
                raise
            await self._count_failure(circuit, model, request, error, openings)
            if openings == circuit.openings and not circuit.is_open:
                raise
            suspect = is_probe and circuit.is_open and not _cannot_connect(error)
            away = self._provider_away(circuit, model, suspect=suspect)  # while the circuit knows why
            if suspect and await self._may_be_the_requests_fault(model, error):
                away.own = circuit.suspect(request)
            raise away from error.__cause__

    async def _first_delta(self, deltas: AsyncGenerator[Delta, None]) -> Delta | None:
        """The first delta, None for an empty answer. Raises `ProviderUnavailable` on timeout."""
        most = None if self.seconds is None else self.seconds * SILENT_PART
        try:
            async with asyncio.timeout(most) as limit:
                return await anext(deltas, None)
        except TimeoutError:
            if not limit.expired():
                raise
            message = f"no answer began within {most:.0f} seconds"
        raise ProviderUnavailable(message, loggable=message) from CallTimeout(message)

    async def _count_failure(
        self, circuit: Circuit, model: str | None, request: str, error: ProviderError, openings: int
    ) -> None:
        is_well = None if self.ready is None else partial(self._is_well, model)
        if circuit.is_open:
            circuit.open(error, is_well)
        elif openings == circuit.openings:
            is_certain = isinstance(error, ProviderAuthentication | ProviderInvalidModel) or _cannot_connect(
                error
            )
            if not is_certain or (self.ready is None and error.transient):
                circuit.failed(request, error, is_well)
            else:
                async with circuit.confirming:
                    if not circuit.is_open and _confirms(await self._readiness_error(model), error):
                        circuit.open(error, is_well)

    async def _may_be_the_requests_fault(self, model: str | None, error: ProviderError) -> bool:
        """Whether the server is well apart from this request, or went down while it worked on it.

        False for a server that cannot be asked whether it is well.
        """
        if self.ready is None:
            return False
        found = await self._readiness_error(model)
        return not _confirms(found, error) or (found is not None and _cannot_connect(found))

    async def _is_well(self, model: str | None) -> bool:
        try:
            return await self._readiness_error(model) is None
        except Exception:  # such as a closed provider, whose flow has ended
            return False

    async def _readiness_error(self, model: str | None) -> ProviderError | None:
        """What is wrong with the server or its model, independent of any request."""
        try:
            if self.ready is not None:
                await self.ready(model)
        except ProviderError as error:
            return error
        return None

    def _provider_away(self, circuit: Circuit, model: str | None, *, suspect: bool = False) -> ProviderAway:
        holds = self.holds(model)
        retry_after = None if holds else LONGEST_PAUSE
        return ProviderAway(circuit, suspect=suspect or not holds, retry_after=retry_after)


def _may_be_outage(error: ProviderError, *, over_topics: bool) -> bool:
    """Whether the server may have failed, as opposed to the request or this process.

    A worker that is called over topics and responds with an error is there, unless its own model is away.
    """
    if out_of_descriptors(error):
        return False
    if over_topics:
        return isinstance(error, ProviderModelAway) or isinstance(error.__cause__, CallTimeout)
    outages = ProviderUnavailable | ProviderAuthentication | ProviderInvalidModel | ProviderModelNotLoaded
    return isinstance(error, outages)


def _is_local(error: ProviderError) -> bool:
    """Whether the call never left this process, for lack of a broker or a file descriptor."""
    return out_of_descriptors(error) or isinstance(error.__cause__, BrokerError)


def _cannot_connect(error: ProviderError) -> bool:
    return isinstance(error.__cause__, OSError)


def _confirms(found: ProviderError | None, error: ProviderError) -> bool:
    """Whether what the server says without the request explains the failure of the call."""
    return isinstance(found, (type(error), ProviderUnavailable))
