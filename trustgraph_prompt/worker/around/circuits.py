"""The circuit breakers of a process, one per server, model and key, and the flows that wait for each."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from trustgraph_prompt.llm import Provider
from trustgraph_prompt.llm.circuit import Circuit
from trustgraph_prompt.llm.circuit_breaker import CircuitBreaker
from trustgraph_prompt.worker.flow import Flow

log = logging.getLogger(__name__)

_Key = tuple[object, ...]


class Circuits:
    """Puts a breaker around the provider of each flow. `changed` is called with each circuit that changed.

    `times` are the clock, sleep and chance of circuits.
    A whole flow waits for a model that all its requests need: that of its provider or, for chunks, that of
    its prompt. Requests for another unavailable model do not block the flow.
    """

    def __init__(self, changed: Callable[[Circuit], None] = lambda circuit: None, **times: Any) -> None:
        self._changed = changed
        self._times = times
        self._circuits: dict[_Key, Circuit] = {}
        # by flow: its circuits, and whether they block all of it
        self._used: dict[int, dict[Circuit, bool]] = {}
        self._away: set[Circuit] = set()

    def breaker(self, flow: Flow, provider: Provider, within: Provider) -> Provider:
        """Put a breaker around `within`, which wraps the provider of a new flow."""
        used = self._used[id(flow)] = {}

        def blocks_flow(model: str | None) -> bool:
            return flow.input.kind == "chunk" or model in (None, provider.identity.model)

        def circuit_of(model: str | None) -> Circuit | None:
            if flow.input.kind == "text-completion" and not blocks_flow(model):
                return None  # the requester chose the model, and gets the error
            key = _key(provider, model)
            if (circuit := self._circuits.get(key)) is None:
                identity = provider.identity
                server, name = identity.place or identity.system, model or identity.model
                circuit = self._circuits[key] = Circuit(server, name, self._change, **self._times)
            used[circuit] = used.get(circuit, False) or blocks_flow(model)
            return circuit

        circuit_of(None)
        seconds, ready = flow.budget.work_seconds, getattr(provider, "ready", None)
        return CircuitBreaker(within, circuit_of, ready=ready, holds=blocks_flow, seconds=seconds)

    def is_blocked(self, flow: Flow) -> bool:
        """Whether the flow has to wait for a model."""
        return self._full(flow) is not None

    async def until_unblocked(self, flow: Flow) -> None:
        """Wait until the flow may receive another request."""
        while (full := self._full(flow)) is not None:
            await full.room.wait()

    def is_away(self, server: str, model: str) -> bool | None:
        """Whether a circuit of the model is open, with any key; None if there is no circuit."""
        found = [c.is_open for c in self._circuits.values() if (c.server, c.model) == (server, model)]
        return any(found) if found else None

    def blocking(self, server: str, model: str) -> Circuit | None:
        """An open circuit of the model that blocks whole flows."""
        for circuit in self._circuits.values():
            matches = circuit.is_open and (circuit.server, circuit.model) == (server, model)
            if matches and any(used.get(circuit) for used in self._used.values()):
                return circuit
        return None

    def released(self, flow: Flow) -> None:
        """Remove the circuits of a flow that has ended, unless another flow uses them."""
        for circuit in self._used.pop(id(flow), {}):
            if not any(circuit in used for used in self._used.values()):
                circuit.close()
                self._away.discard(circuit)
                self._circuits = {key: kept for key, kept in self._circuits.items() if kept is not circuit}
            self._changed(circuit)

    def close(self) -> None:
        """Stop probing."""
        for circuit in self._circuits.values():
            circuit.close()

    def _change(self, circuit: Circuit) -> None:
        name = f"{circuit.server} {circuit.model}".strip()
        if circuit.is_open and circuit not in self._away:
            self._away.add(circuit)
            log.error("provider %s is unavailable, its requests wait: %s", name, circuit.why)
        elif not circuit.is_open and circuit in self._away:
            self._away.remove(circuit)
            log.info("provider %s is available again", name)
        self._changed(circuit)

    def _full(self, flow: Flow) -> Circuit | None:
        """A circuit that blocks the whole flow, and has no room for another request."""
        for circuit, blocks in self._used.get(id(flow), {}).items():
            if blocks and not circuit.room.is_set():
                return circuit
        return None


def _key(provider: Provider, model: str | None) -> _Key:
    identity = provider.identity
    place = identity.place or id(provider)  # a provider without an address counts as a server of its own
    return identity.system, place, model or identity.model, getattr(provider, "account", None)
