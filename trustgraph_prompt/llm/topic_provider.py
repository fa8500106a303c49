"""A provider that asks a text-completion worker over topics: ours, or one of TrustGraph's."""

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
from trustgraph_prompt.llm import topic_messages
from trustgraph_prompt.llm.complete import Completer
from trustgraph_prompt.llm.provider import ProviderWrapper
from trustgraph_prompt.llm.records import Call, Delta, Identity
from trustgraph_prompt.wire import TextCompletionResponse

if TYPE_CHECKING:
    from trustgraph_prompt.broker import Caller


class TopicProvider(Completer):
    """Asks by way of a caller, which stays the caller of who made it: `close` leaves it open.

    A worker of TrustGraph's takes system, prompt and schema of a call, tells no finish reason, and sets its
    model by itself. `model` is the model where no response names one, `place` the broker and topic asked on.
    `timeout` is how many seconds may pass without a response; our worker, which is told, begins no answer
    later than that. After `again` seconds without one the request is sent once more, and the first is heard
    all the same: workers of TrustGraph's lose what meets a rate limit, and others are only slow.
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
    ) -> None:
        self.identity = Identity("topic", model or "", place)
        self._caller = caller
        self._timeout = timeout
        self._again = again

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        """The answer, response by response.

        Raises the `ProviderError` that the worker names; `ProviderUnavailable` where none comes in time, or
        for want of a broker. Who leaves no longer hears the worker, which answers to the end all the same.
        """
        try:
            request = topic_messages.request(call, self._timeout).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise ProviderInvalidRequest(f"the call cannot be written as JSON: {error}") from error
        model, pieces = self.identity.model or None, _Pieces()
        try:
            calling = self._caller.call(
                request, timeout=self._timeout, again=self._again, failed=topic_messages.has_failed
            )
            async with aclosing(calling) as responses:
                async for message in responses:
                    response = TextCompletionResponse.decode(message.data)
                    delta = topic_messages.delta(response, pieces.take(response), model)
                    model = None  # once is enough
                    if delta != Delta():
                        yield delta
                    if response.error is not None:
                        raise topic_messages.cause(response.error, response.retry_after)
                    if response.end_of_stream or not call.stream:
                        if response.response is None and not pieces.length:
                            raise ProviderInvalidResponse("the worker gave no response of the model")
                        return
        except RequestError as error:
            raise ProviderInvalidResponse(str(error)) from error
        except MessageTooLarge as error:
            raise ProviderInvalidRequest(str(error)) from error
        except BrokerError as error:
            raise ProviderUnavailable(str(error), loggable=str(error)) from error

    async def close(self) -> None:
        """Nothing is held."""


class WholeAnswers(ProviderWrapper):
    """A provider around a provider that asks for each answer in one piece.

    Of an answer in many a broker may drop some, and TrustGraph's workers do not count theirs.
    """

    def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        """The answer of the provider within."""
        return self.provider.stream(replace(call, stream=False))


class _Pieces:
    """The text of an answer, put together of responses of which a topic may lose or repeat some."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self.length = 0

    def take(self, response: TextCompletionResponse) -> str:
        """What of a response is new. Raises `ProviderUnavailable` where it does not go on from what came."""
        piece, at = response.response or "", response.at
        if at is not None and at != self.length:
            known = "".join(self._pieces)[at : at + len(piece)]
            if at > self.length or not piece.startswith(known):
                raise ProviderUnavailable("a part of the answer was lost on its way, or it was begun anew")
            piece = piece[len(known) :]
        self._pieces.append(piece)
        self.length += len(piece)
        return piece
