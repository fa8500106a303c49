"""What is done about one request: paid for once, sent out as often as it takes, never begun anew."""

from __future__ import annotations

import logging
from functools import partial
from typing import Protocol

from trustgraph_prompt.errors import ProviderUnexplained, RequestError
from trustgraph_prompt.llm import Provider
from trustgraph_prompt.llm.topic import Whole
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.worker import rendering
from trustgraph_prompt.worker.asking import put
from trustgraph_prompt.worker.desk import Desk
from trustgraph_prompt.worker.flow import Flow, TopicChoice
from trustgraph_prompt.worker.journal import Entry
from trustgraph_prompt.worker.outbox import Outbox
from trustgraph_prompt.worker.request import Request
from trustgraph_prompt.worker.text_completion import TextCompletion
from trustgraph_prompt.worker.trouble import is_away, is_transient

log = logging.getLogger(__name__)

SECONDS_FOR_ANOTHER = 5.0
"""With less left, to hear why there is no answer is better than to hear that the time is over."""


async def handle(request: Request, flow: Flow, desk: Desk, entry: Entry, *, last: bool) -> Outcome:
    """Ask, and send out what came of it; what the journal knows is not asked again.

    A failure that may pass is returned and nothing sent, so that the request is delivered again; unless this
    delivery is the `last`, or another would be of no use to the requester. Raises `RequestError`,
    `RenderError`, `BrokerError`.
    """
    work: _Work
    if request.completion is not None:
        work = TextCompletion(request, request.completion, flow, desk, entry)
    else:
        work = _PromptRequest(request, flow, desk, entry)
    if entry.asked is None:
        await work.ask()
    assert entry.asked is not None
    prompt, outcome = entry.asked
    seconds_left = request.seconds_left(flow.budget, desk.clock())
    another = not (
        (last and not is_away(outcome.cause))
        or seconds_left <= SECONDS_FOR_ANOTHER
        or work.direct
        or entry.begun  # who has heard some of an answer would hear it twice
        or (flow.trustgraph and isinstance(outcome.cause, ProviderUnexplained))  # may as well never pass
    )
    if another and is_transient(outcome):
        entry.forget()
        return outcome
    await work.finish(prompt, outcome)
    entry.answered = True
    return outcome


class _Work(Protocol):
    """One kind of request. `direct` says that who sent it tries again itself."""

    @property
    def direct(self) -> bool: ...

    async def ask(self) -> None:
        """Have the answer written into the journal's entry, and send out what of it can go at once."""

    async def finish(self, prompt: PromptDefinition, outcome: Outcome, /) -> None:
        """Send out the rest."""


class _PromptRequest:
    """A prompt is asked for, or a chunk is to be put to one."""

    direct = False

    def __init__(self, request: Request, flow: Flow, desk: Desk, entry: Entry) -> None:
        self._request = request
        self._flow = flow
        self._desk = desk
        self._entry = entry
        self._outbox = Outbox(request, flow, desk.producers, entry)

    async def ask(self) -> None:
        snapshot = self._desk.prompts.get(self._flow.workspace)
        if snapshot is None or not snapshot.prompts:
            raise RequestError(f"workspace {self._flow.workspace!r} has no prompts", type="no-configuration")
        prompt, question = await rendering.question(snapshot, self._request.prompt, self._request.terms)
        if missing := prompt.missing(self._request.terms):
            log.warning("%s has nothing where its terms stand: %s", prompt.id, ", ".join(missing))
        await put(
            prompt,
            question,
            self._provider(),
            self._request,
            self._flow,
            self._desk,
            self._entry,
            listen=partial(self._outbox.piece, prompt),
        )

    def _provider(self) -> Provider:
        """Whose answers come in pieces only where somebody hears them, or none can be lost unnoticed."""
        provider, choice = self._desk.provider(self._flow), self._flow.provider
        uncounted = isinstance(choice, TopicChoice) and not choice.counts
        return Whole(provider) if uncounted and not self._request.streaming else provider

    async def finish(self, prompt: PromptDefinition, outcome: Outcome, /) -> None:
        if self._entry.answered:
            await self._outbox.respond(outcome)
        else:
            await self._outbox.finish(prompt, outcome)
