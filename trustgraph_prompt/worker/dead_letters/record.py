"""What stands on a dead letter: written when a message is buried, read when somebody looks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final

import orjson

from trustgraph_prompt.broker import Message, topics
from trustgraph_prompt.worker.flow import Flow

ERRORS: Final = (
    *("broker-error", "internal-error", "invalid-request", "llm-error", "missing-term", "no-configuration"),
    *("shutting-down", "template-error", "too-large", "unknown-prompt", "worker-crashed"),
)
"""The types of what requests die of."""

REMARKS: Final = ("error", "flow", "prompt", "died")
"""Properties that each letter has beside those of its message, and of the broker's own."""

MAX_BURIED = 1_000_000
"""Bytes that are kept of a dead letter which is too large for the broker."""


@dataclass(frozen=True, slots=True)
class LetterTopic:
    """A subscription, which has dead letters of its own. `topic` is a full name."""

    topic: str
    subscription: str

    @classmethod
    def of(cls, flow: Flow) -> LetterTopic:
        """Where a flow receives."""
        return cls(flow.input.topic, flow.input.subscription)

    @property
    def letters(self) -> str:
        """The topic of its dead letters. Raises `TopicInvalid`."""
        return topics.dead_letter_topic(self.topic, self.subscription)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """What could not be served, and why; what nobody said is None.

    `id` is the message's, the same however often it dies; `request` is the requester's own, under which it
    was answered. `error` is the type of the error.
    """

    place: LetterTopic
    message: Message

    @property
    def id(self) -> str:
        return self.message.id

    @property
    def request(self) -> str | None:
        return self._said("id")

    @property
    def flow(self) -> str | None:
        return self._said("flow")

    @property
    def prompt(self) -> str | None:
        return self._said("prompt")

    @property
    def error(self) -> str | None:
        return self._said("error")

    @property
    def died(self) -> float | None:
        """When it was buried, in seconds since the epoch."""
        said = self._said("died") or ""
        return int(said) / 1000 if said.isdecimal() and len(said) < 15 else None

    @property
    def reason(self) -> str:
        return self._said("reason") or ""

    @property
    def size(self) -> int:
        """Bytes of the payload as it was received, of which a letter may have kept fewer."""
        whole, kept = self._said("bytes") or "", len(self.message.data)
        if self._said("sha256") is None or not whole.isdecimal() or len(whole) > 18:
            return kept
        return max(int(whole), kept)

    @property
    def cut(self) -> bool:
        """Whether only the beginning of the payload was kept; it cannot be served again."""
        return self.size > len(self.message.data)

    def content(self) -> Any:
        """The payload as JSON, the terms of a request decoded; else as text; None where it is neither."""
        try:
            value = orjson.loads(self.message.data)
        except orjson.JSONDecodeError:
            return _text(self.message.data, cut=self.cut)
        if isinstance(value, dict) and isinstance(terms := value.get("terms"), dict):
            value["terms"] = {name: _decoded(term) for name, term in terms.items()}
        return value

    def _said(self, name: str) -> str | None:
        return self.message.properties.get(name)


def remarks(error: str, flow: str, prompt: str | None, died: float) -> dict[str, str]:
    """What a letter says of its death, `died` in seconds since the epoch."""
    said = {"error": error, "flow": flow, "prompt": prompt, "died": str(round(died * 1000))}
    return {name: text for name, text in said.items() if text is not None}


def shortened(message: Message) -> tuple[Message, dict[str, str]]:
    """What is kept of a message that no broker takes as a letter, and what the letter says of that."""
    whole = message.data
    said = {"bytes": str(len(whole)), "sha256": sha256(whole).hexdigest()}
    return replace(message, data=whole[:MAX_BURIED]), said


def _text(data: bytes, *, cut: bool) -> str | None:
    """A text; the last character of one that was cut may be half there."""
    try:
        return data.decode(errors="ignore" if cut else "strict")
    except UnicodeDecodeError:
        return None


def _decoded(term: object) -> object:
    """The value of a term, which is JSON in a text; the text where it is not."""
    try:
        return orjson.loads(term) if isinstance(term, str) else term
    except orjson.JSONDecodeError:
        return term
