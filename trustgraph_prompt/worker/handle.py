"""What is done about one request: paid for once, sent out as often as it takes."""

from __future__ import annotations

import logging
from functools import partial

from trustgraph_prompt.ask import ask
from trustgraph_prompt.errors import ProviderError, Reason, RequestError
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.worker import logs
from trustgraph_prompt.worker.desk import Desk
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.journal import Entry
from trustgraph_prompt.worker.outbox import Outbox
from trustgraph_prompt.worker.request import Request

log = logging.getLogger(__name__)


async def handle(request: Request, flow: Flow, desk: Desk, entry: Entry, *, last: bool) -> Outcome:
    """Ask, and send out what came of it; what the journal knows is not asked again.

    A provider that is unavailable for now has its outcome returned and nothing sent, unless this delivery
    is the `last`. Raises `RequestError`, `RenderError`, `BrokerError`.
    """
    outbox = Outbox(request, flow, desk.producers, entry)
    prompt, outcome = entry.asked or await _ask(request, flow, desk, outbox)
    if is_transient(outcome) and not last:
        return outcome
    entry.asked = prompt, outcome
    if entry.answered:
        await outbox.respond(outcome)
    else:
        await outbox.finish(prompt, outcome)
        entry.answered = True
    return outcome


async def _ask(request: Request, flow: Flow, desk: Desk, outbox: Outbox) -> tuple[PromptDefinition, Outcome]:
    snapshot = desk.prompts.get(flow.workspace)
    if snapshot is None or not snapshot.prompts:
        raise RequestError(f"workspace {flow.workspace!r} has no prompts", type="no-configuration")
    prompt, question = snapshot.question(request.prompt, request.terms)
    started = desk.clock()
    with logs.about(prompt=prompt.id):
        outcome = await ask(
            prompt,
            question,
            desk.provider(flow),
            budget=flow.budget,
            published=request.published,
            listen=partial(outbox.piece, prompt),
            clock=desk.clock,
            sleep=desk.sleep,
            cache=desk.cache,
        )
        desk.metrics.asked(flow.name, prompt.id, outcome, desk.clock() - started)
        if desk.cache is not None and prompt.cache is not None:
            desk.metrics.looked_up(flow.name, prompt.id, hit=outcome.cached)
        log.info(
            "%s",
            outcome.reason.value,
            extra={
                "objects": len(outcome.value) if isinstance(outcome.value, list) else None,
                "rejected": len(outcome.rejected),
                "truncated": outcome.truncated,
                "calls": len(outcome.calls),
                "tokens": outcome.usage.total_tokens,
                "cached": outcome.cached or None,
            },
        )
    return prompt, outcome


def is_transient(outcome: Outcome) -> bool:
    """Whether the same request may well succeed later."""
    return (
        outcome.reason is Reason.PROVIDER_ERROR
        and isinstance(outcome.cause, ProviderError)
        and outcome.cause.transient
    )
