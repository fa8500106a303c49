"""The format of dead letters: their properties and their payload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final

import orjson

from trustgraph_prompt.broker import Message, topics
from trustgraph_prompt.errors import RequestError
from trustgraph_prompt.json_text.encoding import encode
from trustgraph_prompt.wire import PromptRequest, records
from trustgraph_prompt.worker.flow import Flow

ADVICE: Final = {
    "broker-error": "see the worker's log of that time; replay",
    "internal-error": "see the worker's log of that time; replay",
    "invalid-request": "fix the sender, which must send the request again; `dead discard` removes this one",
    "llm-error": "see the reason: fix or wait for the model, or raise the budget; replay",
    "missing-term": "replay with `--term NAME=VALUE`, or push a fixed prompt and replay; fix the sender",
    "no-configuration": "push the prompt; replay",
    "shutting-down": "replay",
    "template-error": "push a fixed prompt; replay",
    "too-large": "change the prompt so that it asks for smaller values; replay",
    "unknown-prompt": "push the prompt; replay",
    "unusable-answer": "see the reason and the refused objects; change the prompt or its schema; replay",
    "worker-crashed": "look at the request and the workers' logs; give workers more memory; replay",
}
"""What a person does about a dead letter, by the type of its error."""

ERRORS: Final = tuple(ADVICE)
"""The types of errors that dead letters have."""

ANSWERED: Final = ("llm-error", "unusable-answer")
"""The errors of requests that also have an answer record, which says more."""

FAILURE_PROPERTIES: Final = ("error", "flow", "prompt", "died")
"""Properties of a dead letter besides those of its message and of the broker."""

MAX_BURIED = 1_000_000
"""Bytes that are kept of a dead letter that is too large for the broker."""


@dataclass(frozen=True, slots=True)
class LetterSource:
    """A subscription that has dead letters. `topic` is a full name."""

    topic: str
    subscription: str

    @classmethod
    def of(cls, flow: Flow) -> LetterSource:
        """The subscription of a flow."""
        return cls(flow.input.topic, flow.input.subscription)

    @property
    def dead_letter_topic(self) -> str:
        """The topic of its dead letters. Raises `TopicInvalid`."""
        return topics.dead_letter_topic(self.topic, self.subscription)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that could not be served, and why. Missing properties are None.

    `id` is the message's, the same for repeated failures; `request` is the requester's.
    """

    source: LetterSource
    message: Message

    @property
    def id(self) -> str:
        return self.message.id

    @property
    def request(self) -> str | None:
        return self._property("id")

    @property
    def flow(self) -> str | None:
        return self._property("flow")

    @property
    def prompt(self) -> str | None:
        return self._property("prompt")

    @property
    def error(self) -> str | None:
        return self._property("error")

    @property
    def died(self) -> float | None:
        """When the request failed, in seconds since the epoch."""
        died = self._property("died") or ""
        return int(died) / 1000 if died.isdecimal() and len(died) < 15 else None

    @property
    def reason(self) -> str:
        return self._property("reason") or ""

    @property
    def advice(self) -> str | None:
        """What a person does about it; None if the type of the error is unknown."""
        if self.truncated:
            return "only its beginning was kept: fix the sender, which must send a smaller request"
        return ADVICE.get(self.error or "")

    @property
    def size(self) -> int:
        """Bytes of the payload as received; the dead letter may have kept fewer."""
        whole, kept = self._property("bytes") or "", len(self.message.data)
        if self._property("sha256") is None or not whole.isdecimal() or len(whole) > 18:
            return kept
        return max(int(whole), kept)

    @property
    def truncated(self) -> bool:
        """Whether only the beginning of the payload was kept, so that it cannot be replayed."""
        return self.size > len(self.message.data)

    def content(self) -> Any:
        """The payload as parsed JSON with decoded terms, else as text; None if it is neither."""
        try:
            value = orjson.loads(self.message.data)
        except orjson.JSONDecodeError:
            try:  # the last character of a truncated text may be incomplete
                return self.message.data.decode(errors="ignore" if self.truncated else "strict")
            except UnicodeDecodeError:
                return None
        if isinstance(value, dict) and isinstance(terms := value.get("terms"), dict):
            value["terms"] = {name: _decoded(term) for name, term in terms.items()}
        return value

    def _property(self, name: str) -> str | None:
        return self.message.properties.get(name)


def failure_properties(error: str, flow: str, prompt: str | None, died: float) -> dict[str, str]:
    """The properties that describe the failure, `died` in seconds since the epoch."""
    properties = {"error": error, "flow": flow, "prompt": prompt, "died": str(round(died * 1000))}
    return {name: value for name, value in properties.items() if value is not None}


def with_terms(data: bytes, terms: Mapping[str, object]) -> bytes:
    """A prompt request with these terms in addition to its own. Raises `RequestError` for anything else."""
    record = records.decode(data, "PromptRequest")
    if "id" not in record:
        raise RequestError("it is no prompt request, so it has no terms")
    own = records.take(record, "PromptRequest", terms=dict).get("terms", {})
    return encode({**record, "terms": {**own, **PromptRequest.asking("", terms).terms}})


def truncated(message: Message) -> tuple[Message, dict[str, str]]:
    """The beginning of a message that is too large, and the properties with its original size and hash."""
    whole = message.data
    properties = {"bytes": str(len(whole)), "sha256": sha256(whole).hexdigest()}
    return replace(message, data=whole[:MAX_BURIED]), properties


def _decoded(term: object) -> object:
    """A term, parsed if it is a string of JSON."""
    try:
        return orjson.loads(term) if isinstance(term, str) else term
    except orjson.JSONDecodeError:
        return term
