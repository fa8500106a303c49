"""The record of a canary, which requests it answers, and the canaries that a worker serves."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Self

import orjson

from trustgraph_prompt import wire
from trustgraph_prompt.config_files import check
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.worker.flow import Flow

CANARY: Final = "-canary"
"""Suffix of the config topic's name. The keys on the topic are those of the config topic."""

_TEXT = {"type": "string", "minLength": 1}

_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "required": ["id", "entry", "share"],
    "properties": {
        "id": _TEXT,
        "entry": _TEXT,
        "share": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        "by": {"type": "string"},
        "why": {"type": "string"},
    },
}


@dataclass(frozen=True, slots=True)
class Canary:
    """A new version of a prompt: its `entry` as pushed, and the share (0 to 1) of requests that it answers.

    `id` is random, so that two canaries select different requests. `by` is who pushed it, and `why`; when
    is the time of the message.
    """

    id: str
    entry: str
    share: float
    by: str = ""
    why: str = ""

    def answers(self, request: str) -> bool:
        """Whether it answers the request of this id: the same in every worker, and after a redelivery."""
        digest = hashlib.blake2b(
            f"{self.id}/{request}".encode(errors="surrogatepass"), digest_size=8
        ).digest()
        return int.from_bytes(digest) < self.share * 2**64

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Parse a record; unknown keys are ignored. Raises `ConfigError`."""
        try:
            record = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise ConfigError(f"the canary is not JSON: {error}") from error
        check(record, _SCHEMA, where="")
        return cls(**{name: record[name] for name in cls.__dataclass_fields__ if name in record})

    def encode(self) -> bytes:
        """Serialize the record for the topic."""
        return wire.encode(asdict(self))


@dataclass(slots=True)
class Canaries:
    """The canaries that a worker serves, each with its compiled prompt, by workspace and prompt."""

    served: Mapping[tuple[str, str], tuple[Canary, PromptDefinition]] = field(default_factory=dict)

    def choose(self, flow: Flow, prompt: PromptDefinition, request: str) -> PromptDefinition:
        """The version of a prompt that answers a request of a flow.

        A flow that keeps no answers has no canaries: nothing would tell how they do.
        """
        canary, changed = self.served.get((flow.workspace, prompt.id), (None, prompt))
        takes = canary is not None and flow.outputs.answers is not None and canary.answers(request)
        return changed if takes else prompt
