"""Sends a call again where the server rejects a part of it that the call can do without (decision 0046)."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from trustgraph_prompt.llm.openai.refusal import ServerRefusal
from trustgraph_prompt.llm.openai.schema_paths import SchemaPaths, Wanted
from trustgraph_prompt.llm.records import LIMITS, SchemaPath

log = logging.getLogger(__name__)

_NO_LIMIT = (
    f"; without {' or '.join(LIMITS)} nothing limits the answer, so the call is not made: remove the limit "
    "of the prompt, the budget or the price, or use another server"
)


@dataclass(slots=True)
class KnownModel:
    """What is known of one model of a server: `refused` are the parameters that it does not accept."""

    place: str
    name: str
    schema_paths: SchemaPaths
    refused: set[str] = field(default_factory=set)


class Adaptation:
    """How one call is sent: on which schema `path`, and `without` which parameters.

    What a refusal changes is remembered, and logged, once the call was answered without it.
    """

    def __init__(
        self, model: KnownModel, wanted: Wanted | None, paths: tuple[SchemaPath | None, ...]
    ) -> None:
        self.wanted = wanted
        self.path, *self._less_strict = paths
        self.without = self._known = frozenset(model.refused)
        self._model = model
        self._refusals: list[tuple[SchemaPath, ServerRefusal]] = []

    def adapts_to(self, refusal: ServerRefusal) -> bool:
        """Whether another request may be accepted, which this then describes."""
        name = refusal.parameter
        if name is not None and name not in self.without:
            # of the two names of the limit one is always sent
            other = self.without.intersection(LIMITS) if name in LIMITS else frozenset()
            if not other <= self._known:
                refusal.hint = _NO_LIMIT
                return False
            self.without = self.without - other | {name}
            return True
        if self.path is None or not self._less_strict or not refusal.is_of_schema:
            return False
        self._refusals.append((self.path, refusal))
        self.path, *self._less_strict = self._less_strict
        return True

    def answered(self) -> None:
        """Remember what the server did not accept, with one log line for each choice."""
        for name in self.without - self._known - self._model.refused:
            self._model.refused -= set(LIMITS) if name in LIMITS else set()
            self._model.refused.add(name)
            instead = "under its other name" if name in LIMITS else "without it"
            self._log(f"does not accept {name}: calls are sent {instead}")
        if self.wanted and self.path:
            for path in self._model.schema_paths.answered(self.wanted, self.path, self._refusals):
                self._log(f"does not accept the response schema {self.wanted.name} as {path!r}")

    def _log(self, what: str) -> None:
        log.warning("%s: the model %r %s", self._model.place, self._model.name, what)
