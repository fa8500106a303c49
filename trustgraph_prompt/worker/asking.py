"""Asks the model about one request: which prompt, which question, and its outcome in the journal."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from time import time
from typing import Protocol

from trustgraph_prompt.ask import Listen, ask
from trustgraph_prompt.compute_thread import beside
from trustgraph_prompt.errors import RenderTooLong, RequestError
from trustgraph_prompt.graph.ontology import TERMS
from trustgraph_prompt.llm import RetryPolicy
from trustgraph_prompt.llm.topic_provider import OverTopics
from trustgraph_prompt.prompts import PromptDefinition, Question
from trustgraph_prompt.prompts.within_ontology import ontology_in, within
from trustgraph_prompt.reader import Outcome, read
from trustgraph_prompt.worker.around.journal import AskResult
from trustgraph_prompt.worker.config.source import VERSION_CHARACTERS
from trustgraph_prompt.worker.flow import TopicChoice
from trustgraph_prompt.worker.messages.answer_record import is_unusable
from trustgraph_prompt.worker.publish import Publisher
from trustgraph_prompt.worker.services import RequestContext
from trustgraph_prompt.worker.telemetry import logs

log = logging.getLogger(__name__)

SHARE_ON_THE_LOOP = 0.02
"""Share of the rendering limits that may be used on the event loop: 20 ms with hostile templates."""

SECONDS_TO_ANSWER = 1.0
"""Time reserved for sending the answer or an error, but at most a tenth of the budget."""


class Handler(Protocol):
    """Handles one kind of request; each try has one of its own."""

    async def ask(self) -> object:
        """Call the model, put the result into the journal's entry, and stream what can be streamed."""

    async def send(self) -> None:
        """Send what has not been streamed of the result in the journal's entry. Raises `BrokerError`."""


class PromptHandler(Publisher):
    """Answers one prompt request or one chunk; publishes objects and streams text as they arrive.

    `send` is the publisher's.
    """

    async def ask(self) -> None:
        """Ask the prompt of the request, in the terms of the ontology if the flow or the request has one.

        Then an object that violates the ontology is rejected with the reason. A text that has no word of a
        large one needs no answer. Raises `RequestError`, `RenderError`.
        """
        context = self._context
        prompt, terms = prompt_of(context).with_roles_of(context.flow.graph.clause), context.request.terms
        ontology = context.flow.ontology
        if ontology is None and not TERMS.isdisjoint(terms):
            ontology = await beside(ontology_in, terms, prompt.contract, prompt.id)
        if ontology is not None:
            text = str(terms.get("text", ""))
            prompt, of_ontology = await beside(within, ontology, prompt, text)
            if of_ontology is None:
                log.info("the model is not asked: the text has no word of the ontology")
                context.entry.result = AskResult(prompt, replace(read("[]", prompt.contract), calls=()))
                return
            terms = {**terms, **of_ontology}
        question = await render(prompt, terms)
        await ask_model(context, prompt, question, listen=self.listener(prompt))


def prompt_of(context: RequestContext) -> PromptDefinition:
    """The prompt of a request, of the same version in each try. Raises `RequestError`."""
    if context.entry.prompt is None:
        flow, request = context.flow, context.request
        snapshot = context.services.prompts.get(flow.workspace)
        if snapshot is None or not snapshot.prompts:
            raise RequestError(f"workspace {flow.workspace!r} has no prompts", type="no-configuration")
        context.entry.prompt = context.services.canaries.choose(
            flow, snapshot.get(request.prompt), request.id
        )
    return context.entry.prompt


async def render(prompt: PromptDefinition, terms: Mapping[str, object]) -> Question:
    """The question to ask, rendered, and its examples chosen, beside the event loop if that takes long.

    Raises `RequestError`, `RenderError`.
    """
    prompt.require(terms)
    try:
        steps = prompt.chooser.effort(terms)
        question = await beside(partial(prompt.question, terms, share=SHARE_ON_THE_LOOP), steps=steps)
    except RenderTooLong:
        question = await beside(prompt.question, terms)
    if missing := prompt.missing(terms):
        log.warning("prompt %s: the request has no value for: %s", prompt.id, ", ".join(missing))
    return question


async def ask_model(
    context: RequestContext,
    prompt: PromptDefinition,
    question: Question,
    *,
    listen: Listen | None,
    retry: RetryPolicy = RetryPolicy(),
    judge: Callable[[Outcome], Outcome] = lambda outcome: outcome,
) -> Outcome:
    """Ask, and put the outcome after `judge` into the journal before anything else happens; returns it.

    Raises what `listen` raises.
    """
    request, flow, services, provider = context.request, context.flow, context.services, context.provider
    started, budget = time(), flow.budget_of_a_request
    published = request.published
    if published is not None and budget.seconds is not None:
        published -= min(SECONDS_TO_ANSWER, budget.seconds / 10)
    if isinstance(flow.provider, TopicChoice):
        discarded = partial(services.metrics.discarded, flow, prompt.id)
        whole = not (flow.provider.counts or request.streaming)
        provider = OverTopics(provider, discarded, whole=whole)
    with logs.about(prompt=prompt.id), services.tracing.asking(prompt) as record_result:
        outcome = await ask(
            prompt,
            question,
            provider,
            budget=budget,
            price=flow.price,
            published=published,
            listen=listen,
            retry=retry,
            cache=services.cache,
            request=request.id,
        )
        context.entry.result = AskResult(prompt, judge(outcome))
        with _log_errors():
            record_result(outcome)
        with _log_errors():
            context.entry.seconds = seconds = max(0.0, time() - started)
            services.metrics.asked(flow.name, prompt.id, prompt.version, outcome, seconds)
            services.activity.asked(request.id, flow.name, prompt, question, outcome, seconds)
            if services.cache is not None and prompt.cache is not None:
                services.metrics.looked_up(flow.name, prompt.id, hit=outcome.cached)
        _log_outcome(prompt, outcome)
        return context.outcome


def _log_outcome(prompt: PromptDefinition, outcome: Outcome) -> None:
    unusable = is_unusable(outcome)
    log.log(
        logging.WARNING if unusable else logging.INFO,
        "%s: the answer has no valid object and does not say that there are none" if unusable else "%s",
        outcome.reason.value,
        extra={
            "objects": len(outcome.value) if isinstance(outcome.value, list) else None,
            "rejected": len(outcome.rejected),
            "truncated": outcome.truncated,
            "calls": len(outcome.calls),
            "tokens": outcome.usage.total_tokens,
            "cached": outcome.cached or None,
            "escalated": outcome.escalated,
            "version": prompt.version[:VERSION_CHARACTERS],
            "canary": prompt.canary,
        },
    )


@contextmanager
def _log_errors() -> Iterator[None]:
    """Log errors in traces and metrics: they must not lose an answer that was paid for."""
    try:
        yield
    except Exception:
        log.exception("internal error in traces or metrics, the answer is used nevertheless")
