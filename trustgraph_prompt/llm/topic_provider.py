"""A provider that calls a text-completion worker over topics: ours, or one of TrustGraph's."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING

from trustgraph_prompt.cost import Usage
from trustgraph_prompt.errors import (
    BrokerError,
    CallTimeout,
    MessageTooLarge,
    ProviderInvalidRequest,
    ProviderUnavailable,
)
from trustgraph_prompt.json_text.thinking import Notation, notation
from trustgraph_prompt.llm import topic_messages
from trustgraph_prompt.llm.complete import Completer
from trustgraph_prompt.llm.lost_messages import LostMessages
from trustgraph_prompt.llm.provider import ProviderWrapper
from trustgraph_prompt.llm.records import Call, Delta, Identity
from trustgraph_prompt.llm.topic_answer import TopicAnswer

if TYPE_CHECKING:
    from trustgraph_prompt.broker import Caller


class TopicProvider(Completer):
    """Sends calls with a `Caller`, which it does not own: `close` leaves it open.

    TrustGraph's workers only receive the system message, the prompt and the schema of a call, choose the
    model themselves, and give no finish reason. `model` is the model where no response names one, `place` the
    broker and topic. `timeout` is how many seconds may pass without a response; our worker receives it, and
    begins no answer later than that. `lost` decides when a request without a response is sent again, and may
    ask `is_away(place, model)`; without it none is. `thinking` is as in `Completer`.
    """

    prefill = False

    def __init__(
        self,
        caller: Caller,
        *,
        model: str | None = None,
        place: str = "",
        timeout: float = 600.0,
        lost: LostMessages | None = None,
        is_away: Callable[[str, str], bool | None] = lambda place, model: False,
        thinking: Notation | None = None,
    ) -> None:
        self.identity = Identity("topic", model or "", place)
        self.lost = lost or LostMessages(least=inf)
        self._caller = caller
        self._timeout = timeout
        self._is_away = is_away
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
        place, model = self.identity.place, call.config.model or self.identity.model
        answer = TopicAnswer(call, self.identity, self.lost, lambda: bool(self._is_away(place, model)))
        try:
            calling = self._caller.call(request, timeout=self._timeout, resending=answer)
            async with aclosing(calling) as responses:
                async for message in responses:
                    delta = answer.take(message)
                    if delta != Delta():
                        yield delta
                    if answer.error is not None:
                        raise answer.error
                    if answer.has_ended:
                        return
        except MessageTooLarge as error:
            raise ProviderInvalidRequest(str(error)) from error
        except BrokerError as error:
            if answer.failure is not None and isinstance(error, CallTimeout):
                raise answer.failure from None
            raise ProviderUnavailable(str(error), loggable=str(error)) from error

    async def close(self) -> None:
        """Do nothing: the caller is not ours."""


@dataclass(eq=False, repr=False)
class OverTopics(ProviderWrapper):
    """A provider wrapper that completes calls for a `TopicProvider`.

    `discarded` is called with the usage and model of answers that are not used. `whole` switches streaming
    off: a broker may drop some pieces of a streamed answer, and TrustGraph's workers do not number theirs.
    """

    discarded: Callable[[Usage, str], None]
    whole: bool = False

    def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        """Stream the answer of the wrapped provider."""
        stream = call.stream and not self.whole
        return self.provider.stream(replace(call, stream=stream, discarded=self.discarded))
