"""The circuits of a process: one for each server, model and key, and which flows each holds up."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

from trustgraph_prompt.llm import Provider
from trustgraph_prompt.llm.circuit import Circuit
from trustgraph_prompt.llm.circuit_breaker import CircuitBreaker
from trustgraph_prompt.worker.flow import Flow

log = logging.getLogger(__name__)

_Key = tuple[object, ...]


class Circuits:
    """Puts a breaker around the provider of each flow. `times` are the clock, sleep and chance of circuits.

    A flow waits as a whole for a model that all its requests need: that of its provider, or, for chunks, the
    one that its prompt names. Requests for another model that is away make room for the others.
    """

    def __init__(self, **times: Any) -> None:
        self.changed: Callable[[Circuit], None] = lambda circuit: None
        self._times = times
        self._circuits: dict[_Key, Circuit] = {}
        self._of: dict[int, dict[_Key, bool]] = {}  # of each flow, and whether it waits for it as a whole
        self._away: set[Circuit] = set()

    def breaker(self, flow: Flow, provider: Provider, within: Provider) -> Provider:
        """A breaker around what is around the provider of a flow that begins."""
        used = self._of[id(flow)] = {}

        def holds(model: str | None) -> bool:
            return flow.input.kind == "chunk" or model in (None, provider.identity.model)

        def circuit_of(model: str | None) -> Circuit | None:
            if flow.input.kind == "text-completion" and not holds(model):
                return None  # whoever asks has named it, and an error is the answer
            key = _key(provider, model)
            used[key] = used.get(key, False) or holds(model)
            return self._circuits.get(key) or self._begin(key, provider, model)

        circuit_of(None)
        seconds, ready = flow.budget.work_seconds, getattr(provider, "ready", None)
        return CircuitBreaker(within, circuit_of, ready=ready, holds=holds, seconds=seconds)

    def is_full(self, flow: Flow) -> bool:
        """Whether the flow waits for a model."""
        return next(self._full(flow), None) is not None

    async def room(self, flow: Flow) -> None:
        """Returns when the flow may receive another request."""
        while (full := next(self._full(flow), None)) is not None:
            await full.room.wait()

    def is_away(self, server: str, model: str) -> bool | None:
        """Whether any circuit of the model is open, with whatever key; None where there is none."""
        found = [c.is_open for c in self._circuits.values() if (c.server, c.model) == (server, model)]
        return any(found) if found else None

    def holding(self, server: str, model: str) -> Circuit | None:
        """An open circuit of the model that holds up whole flows."""
        for key, circuit in self._circuits.items():
            is_it = circuit.is_open and (circuit.server, circuit.model) == (server, model)
            if is_it and any(used.get(key) for used in self._of.values()):
                return circuit
        return None

    def released(self, flow: Flow) -> None:
        """A flow has ended, and with it the circuits that no other needs."""
        for key in self._of.pop(id(flow), {}):
            circuit = self._circuits[key]
            if not any(key in used for used in self._of.values()):
                circuit.close()
                self._away.discard(circuit)
                del self._circuits[key]
            self.changed(circuit)

    def close(self) -> None:
        """No more probes."""
        for circuit in self._circuits.values():
            circuit.close()

    def _begin(self, key: _Key, provider: Provider, model: str | None) -> Circuit:
        who = provider.identity
        server, model = who.place or who.system, model or who.model
        circuit = self._circuits[key] = Circuit(server, model, self._change, **self._times)
        return circuit

    def _change(self, circuit: Circuit) -> None:
        name = f"{circuit.server} {circuit.model}".strip()
        if circuit.is_open and circuit not in self._away:
            self._away.add(circuit)
            log.error("%s is away: %s; requests for it wait", name, circuit.why)
        elif not circuit.is_open and circuit in self._away:
            self._away.remove(circuit)
            log.info("%s is back", name)
        self.changed(circuit)

    def _full(self, flow: Flow) -> Iterator[Circuit]:
        used = self._of.get(id(flow), {})
        return (self._circuits[key] for key in used if used[key] and not self._circuits[key].room.is_set())


def _key(provider: Provider, model: str | None) -> _Key:
    who = provider.identity
    place = who.place or id(provider)  # one without a place is a server of its own
    return who.system, place, model or who.model, getattr(provider, "account", None)
