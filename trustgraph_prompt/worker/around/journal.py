"""Remembers running and finished requests, so that a redelivery does not call the model again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Hashable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from time import monotonic
from typing import NamedTuple

from cachetools import TTLCache

from trustgraph_prompt.broker import Message
from trustgraph_prompt.json_text.encoding import encode
from trustgraph_prompt.llm.circuit import ProviderAway
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.worker.decide import AnswerSent

SECONDS_TO_LIVE = 3600.0

MAX_WEIGHT = 64 * 1024 * 1024
"""Approximate bytes: some 3,500 answers of 20 objects.

That is enough: a broker redelivers only what it had not yet stored as acknowledged, a few seconds' worth.
"""

ENTRY_WEIGHT = 4 * 1024
"""Bytes of an entry besides its answer."""

PARSED = 6
"""Size of a parsed answer, as a multiple of its text."""


class AskResult(NamedTuple):
    """The outcome of a request, and the version of the prompt that was asked."""

    prompt: PromptDefinition
    outcome: Outcome


@dataclass(slots=True)
class Entry:
    """One request of one flow.

    `prompt` is the version that it began with, and ends with. `result` is what was paid for, `seconds` how
    long that took. `streamed`: the requester has a part of the answer, which is then never restarted;
    `streamed_characters` counts its text. `answered`: everything was sent, for the message with this
    `identity`. `parts` has an entry for each question of a request that asks several, by what
    it is about.
    """

    result: AskResult | None = None
    streamed: bool = False
    streamed_characters: int = 0
    answered: bool = False
    identity: bytes = b""
    parts: dict[Hashable, Entry] = field(default_factory=dict)
    prompt: PromptDefinition | None = None
    seconds: float = 0.0
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _users: int = 0

    @property
    def answer_sent(self) -> AnswerSent:
        """How much of the answer was sent."""
        return AnswerSent.ALL if self.answered else AnswerSent.SOME if self.streamed else AnswerSent.NOTHING

    def has_answered(self, message: Message) -> bool:
        """Whether everything was sent for this very message, not for a second one with its id and content."""
        return self.answered and self.identity == identity_of(message)

    async def stream(self, sending: Awaitable[None], characters: int = 0) -> None:
        """Await the sending of a part of the answer. If this is cancelled, the part may have arrived."""
        try:
            await sending
        except asyncio.CancelledError:
            self.streamed = True
            raise
        self.streamed = True
        self.streamed_characters += characters

    @property
    def is_provider_away(self) -> bool:
        """Whether the model was not called because the provider is unavailable."""
        return self.result is not None and isinstance(self.result.outcome.cause, ProviderAway)

    def forget(self) -> None:
        """Reset the entry."""
        self.forget_result()
        self.parts.clear()
        self.prompt = None

    def forget_result(self) -> None:
        """Reset the entry, but keep the parts of the answer."""
        self.result, self.streamed, self.streamed_characters, self.answered = None, False, 0, False

    @property
    def worth_keeping(self) -> bool:
        """Whether a redelivery can use the entry."""
        return self.result is not None or bool(self.parts)

    @property
    def weight(self) -> int:
        if self.parts or self.result is None:
            return ENTRY_WEIGHT + sum(part.weight for part in self.parts.values())  # a result is made of them
        outcome = self.result.outcome
        text = sum(len(call.text) for call in outcome.calls) or len(encode(outcome.value))  # of a cache
        return ENTRY_WEIGHT + PARSED * text


def identity_of(message: Message) -> bytes:
    """What tells a message from a second one with its id and content: time of publication and properties.

    Pulsar's client keeps both when it sends a message once more after a lost connection. The time alone does
    not suffice: it has milliseconds.
    """
    identity = (message.published, sorted(message.properties.items()))
    return blake2b(repr(identity).encode(errors="backslashreplace"), digest_size=16).digest()


class Journal:
    """An in-memory journal of bounded size and age; running requests are never removed."""

    def __init__(self) -> None:
        self._running: dict[tuple[str, str, bytes], Entry] = {}
        self._done: TTLCache[tuple[str, str, bytes], Entry] = TTLCache(
            MAX_WEIGHT, SECONDS_TO_LIVE, timer=monotonic, getsizeof=lambda entry: entry.weight
        )

    @asynccontextmanager
    async def entry(self, flow: str, request: str, data: bytes) -> AsyncIterator[Entry]:
        """The entry of a request, for one task at a time: a redelivery waits until the running task ends.

        The payload `data` is part of the key: some requesters number requests from 1 after each start.
        """
        key = (flow, request, blake2b(data, digest_size=16).digest())
        entry = self._running.get(key) or self._done.pop(key, None) or Entry()
        self._running[key] = entry
        entry._users += 1
        try:
            async with entry._turn:
                yield entry
        finally:
            entry._users -= 1
            if not entry._users:
                del self._running[key]
                if entry.worth_keeping:
                    with suppress(ValueError):  # heavier than all entries may be together
                        self._done[key] = entry
