"""What is done about one request: paid for once, sent out as often as it takes."""

from __future__ import annotations

import logging
from functools import partial

from trustgraph_prompt.errors import RequestError
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.worker.asking import is_transient, put
from trustgraph_prompt.worker.completion import complete
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
    if request.completion is not None:
        return await complete(request, request.completion, flow, desk, entry, last=last)
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
    if missing := prompt.missing(request.terms):
        log.warning("%s has nothing where its terms stand: %s", prompt.id, ", ".join(missing))
    listen = partial(outbox.piece, prompt)
    return prompt, await put(prompt, question, desk.provider(flow), request, flow, desk, listen=listen)
