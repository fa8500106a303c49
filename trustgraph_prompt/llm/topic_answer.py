"""The answer to a request over topics, which may be sent twice."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

from trustgraph_prompt.errors import (
    ProviderError,
    ProviderInvalidResponse,
    ProviderRateLimit,
    ProviderUnavailable,
    RequestError,
)
from trustgraph_prompt.llm import topic_messages
from trustgraph_prompt.llm.lost_messages import LostMessages
from trustgraph_prompt.llm.records import Call, Delta, Identity
from trustgraph_prompt.wire import TextCompletionResponse

if TYPE_CHECKING:
    from trustgraph_prompt.broker import Message

log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class TopicAnswer:
    """Sends a request again if a message seems lost (`broker.protocol.Resending`), and takes the answer.

    That is the answer to the sending that is answered first, which leads. An answer that is not used is
    reported to the call as discarded. `failure` is the error of a sending, `error` is set once no other is
    awaited.
    """

    call: Call
    identity: Identity
    lost: LostMessages
    is_away: Callable[[], bool]
    has_ended: bool = False
    failure: ProviderError | None = None
    error: ProviderError | None = None
    sendings: dict[str, _Sending] = field(default_factory=dict)
    leader: _Sending | None = None

    def sent(self, id: str) -> None:
        if self.sendings:
            log.info("no response, the request is sent again: %s", self.identity.place)
        else:
            self.lost.sent()
        self.sendings[id] = _Sending(self.lost.now(), is_first=not self.sendings)

    def wait(self, silent: float) -> float | None:
        if self.failure is not None:
            left = self.lost.patience - silent
            return left if left > 0 else None
        if self.leader is None and len(self.sendings) > 1:
            return inf
        wait = self.lost.wait(silent, self.is_away)
        if self.leader is None or wait > 0:
            return wait
        self.failure = ProviderUnavailable(f"the end of the answer was lost: nothing came for {silent:.0f} s")
        return None

    def take(self, message: Message) -> Delta:
        """Take a response; returns what is new of the answer."""
        sending = self.sendings[message.properties["id"]]
        delta = self._read(sending, message)
        if self.leader not in (None, sending):
            self._discard(delta)
            return Delta()
        if sending.error is None:
            self.leader, self.has_ended = sending, sending.has_ended
            return delta
        self.failure = sending.error
        if self.leader is None and any(each.error is None for each in self.sendings.values()):
            self._discard(delta)
            return Delta()
        self.error = sending.error
        return delta

    def late(self, response: Message) -> None:
        sending = self.sendings[response.properties["id"]]
        if not sending.has_ended:
            self._discard(self._read(sending, response))

    def _read(self, sending: _Sending, message: Message) -> Delta:
        model = None if sending.is_named else self.identity.model or None
        delta = sending.read(message.data, model, is_streamed=self.call.stream)
        if isinstance(sending.error, ProviderRateLimit):
            self.lost.rate_limited()
        elif sending.error is None and sending.has_ended and sending.is_first:
            self.lost.answered(sending.since)
        return delta

    def _discard(self, delta: Delta) -> None:
        if delta.usage is not None and self.call.discarded is not None:
            self.call.discarded(delta.usage, delta.model or self.identity.model)


@dataclass(eq=False, slots=True)
class _Sending:
    """What came of one sending of the request, `since` when it was sent."""

    since: float
    is_first: bool
    pieces: list[str] = field(default_factory=list)
    length: int = 0
    is_named: bool = False
    has_ended: bool = False
    error: ProviderError | None = None

    def read(self, data: bytes, model: str | None, *, is_streamed: bool) -> Delta:
        """Read a response; what is wrong with it, and the error that it reports, is `error`."""
        try:
            response = TextCompletionResponse.decode(data)
            delta = topic_messages.delta(response, self._new_text(response), model)
        except (RequestError, ProviderUnavailable) as error:
            self.has_ended = True
            self.error = ProviderInvalidResponse(str(error)) if isinstance(error, RequestError) else error
            return Delta()
        self.is_named = True
        self.has_ended = response.error is not None or response.end_of_stream or not is_streamed
        if response.error is not None:
            self.error = topic_messages.cause(response.error, response.retry_after)
        elif self.has_ended and response.response is None and not self.length:
            self.error = ProviderInvalidResponse("no response: neither an answer nor an error")
        return delta

    def _new_text(self, response: TextCompletionResponse) -> str:
        """The text of a response that did not come yet: a topic may lose responses, or repeat some.

        Raises `ProviderUnavailable` if text before it is missing.
        """
        piece, at = response.response or "", response.at
        if at is not None and at != self.length:
            repeated = "".join(self.pieces)[at : at + len(piece)]
            if at > self.length or not piece.startswith(repeated):
                raise ProviderUnavailable(
                    "a part of the answer was lost, or the worker began another: "
                    f"received {self.length} characters, the next response starts at {at}"
                )
            piece = piece[len(repeated) :]
        self.pieces.append(piece)
        self.length += len(piece)
        return piece
