"""Asks the model about one request, and puts the outcome into the journal before anything else happens."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from trustgraph_prompt.ask import Listen, ask
from trustgraph_prompt.llm import Provider, RetryPolicy
from trustgraph_prompt.llm.topic_provider import OverTopics
from trustgraph_prompt.prompts import PromptDefinition, Question
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.worker.config.source import VERSION_CHARACTERS
from trustgraph_prompt.worker.flow import Flow, TopicChoice
from trustgraph_prompt.worker.messages.answer_record import is_unusable
from trustgraph_prompt.worker.messages.request import Request
from trustgraph_prompt.worker.request.journal import AskResult, Entry
from trustgraph_prompt.worker.request_services import Services
from trustgraph_prompt.worker.telemetry import logs

log = logging.getLogger(__name__)

SECONDS_TO_ANSWER = 1.0
"""Time reserved for sending the answer or an error, but at most a tenth of the budget."""


async def ask_into_journal(
    prompt: PromptDefinition,
    question: Question,
    provider: Provider,
    request: Request,
    flow: Flow,
    services: Services,
    entry: Entry,
    *,
    listen: Listen,
    retry: RetryPolicy = RetryPolicy(),
    judge: Callable[[Outcome], Outcome] = lambda outcome: outcome,
) -> AskResult:
    """Ask, and return the outcome after `judge`, which is also put into `entry`.

    Raises what `listen` raises.
    """
    started, budget = services.clock(), flow.budget_of_a_request
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
            clock=services.clock,
            sleep=services.sleep,
            cache=services.cache,
        )
        entry.result = AskResult(prompt, judge(outcome))
        with _log_errors():
            record_result(outcome)
        with _log_errors():
            entry.seconds = seconds = max(0.0, services.clock() - started)
            services.metrics.asked(flow.name, prompt.id, prompt.version, outcome, seconds)
            services.activity.asked(request.id, flow.name, prompt, question, outcome, seconds)
            if services.cache is not None and prompt.cache is not None:
                services.metrics.looked_up(flow.name, prompt.id, hit=outcome.cached)
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
        return entry.result


@contextmanager
def _log_errors() -> Iterator[None]:
    """Log errors in traces and metrics: they must not lose an answer that was paid for."""
    try:
        yield
    except Exception:
        log.exception("internal error in traces or metrics, the answer is used nevertheless")
