"""A provider that calls a text-completion worker over topics: ours, or one of TrustGraph's."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from trustgraph_prompt.errors import (
    BrokerError,
    MessageTooLarge,
    ProviderInvalidRequest,
    ProviderInvalidResponse,
    ProviderUnavailable,
    RequestError,
)
from trustgraph_prompt.json_text.thinking import Notation, notation
from trustgraph_prompt.llm import topic_messages
from trustgraph_prompt.llm.complete import Completer
from trustgraph_prompt.llm.provider import ProviderWrapper
from trustgraph_prompt.llm.records import Call, Delta, Identity
from trustgraph_prompt.wire import TextCompletionResponse

if TYPE_CHECKING:
    from trustgraph_prompt.broker import Caller


class TopicProvider(Completer):
    """Sends calls with a `Caller`, which it does not own: `close` leaves it open.

    TrustGraph's workers only receive the system message, the prompt and the schema of a call, choose the
    model themselves, and give no finish reason. `model` is the model where no response names one, `place` the
    broker and topic. `timeout` is how many seconds may pass without a response; our worker receives it, and
    begins no answer later than that. After `again` seconds without a response the request is sent once more,
    and a response to the first is still accepted: TrustGraph's workers lose requests that meet a rate limit,
    while others are only slow. `thinking` is as in `Completer`.
    """

    prefill = False

    def __init__(
        self,
        caller: Caller,
        *,
        model: str | None = None,
        place: str = "",
        timeout: float = 600.0,
        again: float | None = None,
        thinking: Notation | None = None,
    ) -> None:
        self.identity = Identity("topic", model or "", place)
        self._caller = caller
        self._timeout = timeout
        self._again = again
        self.thinking = None if thinking is None else notation(*thinking)

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        """Stream the answer, response by response.

        Raises the `ProviderError` that the worker names, and `ProviderUnavailable` on timeout or without a
        broker. Closing the stream does not stop the worker.
        """
        try:
            request = topic_messages.request(call, self._timeout).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise ProviderInvalidRequest(f"the call cannot be written as JSON: {error}") from error
        model, text = self.identity.model or None, _ResponseText()
        try:
            calling = self._caller.call(
                request, timeout=self._timeout, again=self._again, failed=topic_messages.has_failed
            )
            async with aclosing(calling) as responses:
                async for message in responses:
                    response = TextCompletionResponse.decode(message.data)
                    delta = topic_messages.delta(response, text.take(response), model)
                    model = None  # named once
                    if delta != Delta():
                        yield delta
                    if response.error is not None:
                        raise topic_messages.cause(response.error, response.retry_after)
                    if response.end_of_stream or not call.stream:
                        if response.response is None and not text.length:
                            raise ProviderInvalidResponse("no response: neither an answer nor an error")
                        return
        except RequestError as error:
            raise ProviderInvalidResponse(str(error)) from error
        except MessageTooLarge as error:
            raise ProviderInvalidRequest(str(error)) from error
        except BrokerError as error:
            raise ProviderUnavailable(str(error), loggable=str(error)) from error

    async def close(self) -> None:
        """Do nothing: the caller is not ours."""


class WholeAnswers(ProviderWrapper):
    """A provider wrapper that switches streaming off.

    A broker may drop some pieces of a streamed answer, and TrustGraph's workers do not number theirs.
    """

    def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        """Stream the answer of the wrapped provider."""
        return self.provider.stream(replace(call, stream=False))


class _ResponseText:
    """Joins the text of responses, of which a topic may lose or repeat some."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self.length = 0

    def take(self, response: TextCompletionResponse) -> str:
        """Return the new text of a response. Raises `ProviderUnavailable` if text before it is missing."""
        piece, at = response.response or "", response.at
        if at is not None and at != self.length:
            repeated = "".join(self._pieces)[at : at + len(piece)]
            if at > self.length or not piece.startswith(repeated):
                raise ProviderUnavailable(
                    "a part of the answer was lost, or the worker began another: "
                    f"received {self.length} characters, the next response starts at {at}"
                )
            piece = piece[len(repeated) :]
        self._pieces.append(piece)
        self.length += len(piece)
        return piece
