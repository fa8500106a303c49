"""Processes one prompt request or one chunk."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial

from trustgraph_prompt.compute_thread import beside
from trustgraph_prompt.errors import RenderTooLong, RequestError
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.messages.request import Request
from trustgraph_prompt.worker.request.ask_and_journal import ask_into_journal
from trustgraph_prompt.worker.request.journal import AskResult, Entry
from trustgraph_prompt.worker.request.publish import Publisher
from trustgraph_prompt.worker.request_services import Services

log = logging.getLogger(__name__)

SHARE_ON_THE_LOOP = 0.02
"""Share of the rendering limits that may be used on the event loop: 20 ms with hostile templates."""


class PromptWork:
    """Answers one request; publishes objects and streams text as they arrive."""

    def __init__(self, request: Request, flow: Flow, services: Services, entry: Entry) -> None:
        self._request = request
        self._flow = flow
        self._services = services
        self._entry = entry
        self._publisher = Publisher(request, flow, services.producers, entry)

    async def ask(self) -> AskResult:
        """Render the prompt and ask the model. Raises `RequestError`, `RenderError`."""
        return await self._ask(self._prompt(), self._request.terms, self._entry)

    def _prompt(self) -> PromptDefinition:
        """The prompt of the request, of the same version in each try. Raises `RequestError`."""
        if self._entry.prompt is None:
            snapshot = self._services.prompts.get(self._flow.workspace)
            if snapshot is None or not snapshot.prompts:
                missing = f"workspace {self._flow.workspace!r} has no prompts"
                raise RequestError(missing, type="no-configuration")
            served, request = snapshot.get(self._request.prompt), self._request.id
            self._entry.prompt = self._services.canaries.choose(self._flow, served, request)
        return self._entry.prompt

    async def _ask(self, prompt: PromptDefinition, terms: Mapping[str, object], entry: Entry) -> AskResult:
        """Render a prompt and ask the model; the result goes into `entry`, too. Raises as `ask`."""
        prompt.require(terms)
        try:
            question = prompt.question(terms, share=SHARE_ON_THE_LOOP)
        except RenderTooLong:
            question = await beside(partial(prompt.question, terms))
        if missing := prompt.missing(terms):
            log.warning("prompt %s: the request has no value for: %s", prompt.id, ", ".join(missing))
        return await ask_into_journal(
            prompt,
            question,
            self._services.provider,
            self._request,
            self._flow,
            self._services,
            entry,
            listen=partial(self._publisher.piece, prompt),
        )

    async def send(self, prompt: PromptDefinition, outcome: Outcome, /) -> None:
        """Send what was not sent yet, or repeat the response if an earlier delivery sent everything.

        Raises `BrokerError`.
        """
        if self._entry.answered:
            await self._publisher.respond(outcome)
        else:
            await self._publisher.finish(prompt, outcome)
