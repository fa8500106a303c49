"""What is done about one prompt request, or one chunk that is put to a prompt."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial

from trustgraph_prompt.background import beside
from trustgraph_prompt.errors import RenderTooLong, RequestError
from trustgraph_prompt.llm import Provider
from trustgraph_prompt.llm.topic_provider import WholeAnswers
from trustgraph_prompt.prompts import PromptDefinition, PromptSet, Question
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.worker.flow import Flow, TopicChoice
from trustgraph_prompt.worker.messages.request import Request
from trustgraph_prompt.worker.request.ask_once import put
from trustgraph_prompt.worker.request.journal import Asked, Entry
from trustgraph_prompt.worker.request.publish import Publisher
from trustgraph_prompt.worker.services import Services

log = logging.getLogger(__name__)

SHARE_ON_THE_LOOP = 0.02
"""Share of the limits of a rendering that may run on the event loop: 20 ms, where templates are hostile."""


class PromptWork:
    """One request being answered; objects and pieces go out as they come."""

    def __init__(self, request: Request, flow: Flow, services: Services, entry: Entry) -> None:
        self._request = request
        self._flow = flow
        self._services = services
        self._entry = entry
        self._outbox = Publisher(request, flow, services.producers, entry)

    async def ask(self) -> Asked:
        """Put the question. Raises `RequestError`, `RenderError`."""
        snapshot = self._services.prompts.get(self._flow.workspace)
        if snapshot is None or not snapshot.prompts:
            raise RequestError(f"workspace {self._flow.workspace!r} has no prompts", type="no-configuration")
        prompt, question = await _question(snapshot, self._request.prompt, self._request.terms)
        if missing := prompt.missing(self._request.terms):
            log.warning("%s has nothing where its terms stand: %s", prompt.id, ", ".join(missing))
        return await put(
            prompt,
            question,
            self._provider(),
            self._request,
            self._flow,
            self._services,
            self._entry,
            listen=partial(self._outbox.piece, prompt),
        )

    async def send(self, prompt: PromptDefinition, outcome: Outcome, /) -> None:
        """Send what has not gone out yet; what went out in an earlier delivery is only responded again.

        Raises `BrokerError`.
        """
        if self._entry.answered:
            await self._outbox.respond(outcome)
        else:
            await self._outbox.finish(prompt, outcome)

    def _provider(self) -> Provider:
        """Whose answers come in pieces only where somebody hears them, or none can be lost unnoticed."""
        provider, choice = self._services.provider(self._flow), self._flow.provider
        uncounted = isinstance(choice, TopicChoice) and not choice.counts
        return WholeAnswers(provider) if uncounted and not self._request.streaming else provider


async def _question(
    prompts: PromptSet, prompt_id: str, terms: Mapping[str, object]
) -> tuple[PromptDefinition, Question]:
    """As `PromptSet.question`; a long one starts again beside the event loop."""
    try:
        return prompts.question(prompt_id, terms, share=SHARE_ON_THE_LOOP)
    except RenderTooLong:
        return await beside(partial(prompts.question, prompt_id, terms))
