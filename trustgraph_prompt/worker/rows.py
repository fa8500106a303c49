"""Processes one chunk for a flow with tables: asks for the rows of one table after the other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from trustgraph_prompt import wire
from trustgraph_prompt.broker.retry_and_dead_letters import MAX_MESSAGE_SIZE
from trustgraph_prompt.compute_thread import beside
from trustgraph_prompt.errors import Issue, Reason
from trustgraph_prompt.graph.tables import TableDefinition
from trustgraph_prompt.llm.circuit import ProviderAway
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.worker.around.journal import AskResult, Entry
from trustgraph_prompt.worker.asking import PromptHandler, ask_model, prompt_of, render
from trustgraph_prompt.worker.flow import Unusable
from trustgraph_prompt.worker.messages.answer_record import is_served, reject_objects
from trustgraph_prompt.worker.publish_graph import MAX_OBJECT_SIZE

log = logging.getLogger(__name__)

_STEPS = 2_000  # for each row, see `compute_thread`


class RowsHandler(PromptHandler):
    """Asks a prompt about the tables of a flow; publishes the rows of each as soon as its answer is there.

    The objects of all tables are those of one request: an object that two tables give has one id.
    """

    async def ask(self) -> None:
        """Ask about all tables that have no answer yet, up to the first at which the provider fails.

        The result has the rows of all. Raises `BrokerError`, `RequestError`, `RenderError`.
        """
        entry, tables, prompt = self._context.entry, self._context.flow.tables, prompt_of(self._context)
        results: dict[str, AskResult] = {}
        for key, table in tables.items():
            results[key] = await self._rows_of(table, prompt)
            if _provider_failed(results[key].outcome):
                break
        if not tables:
            log.warning("the flow has no tables, so there is nothing to extract")
        entry.seconds = sum(part.seconds for part in entry.parts.values())
        entry.result = _combined(prompt, results, self._context.flow.unusable)

    async def _rows_of(self, table: TableDefinition, prompt: PromptDefinition) -> AskResult:
        """Ask about a table and publish its rows, unless an earlier try did so. Raises as `ask`."""
        part = self._context.entry.parts.setdefault((table, prompt.version), Entry())
        if part.result is None or _provider_failed(part.result.outcome):
            part.forget()
            contract = table.contract(repair=prompt.contract.repair, limits=prompt.contract.limits)
            asked = prompt.with_contract(contract)
            question = await render(asked, {**self._context.request.terms, "schema": table.term})
            outcome = await ask_model(
                replace(self._context, entry=part), asked, question, listen=self.listener(asked)
            )
            if len(wire.encode(outcome.value)) > MAX_OBJECT_SIZE:
                outcome = reject_objects(outcome, _too_large)
            part.result = AskResult(asked, outcome)
        if not part.answered:
            await self._publish_rows(table, part.result.outcome)
            part.answered = True
        return part.result

    async def _publish_rows(self, table: TableDefinition, outcome: Outcome) -> None:
        """Publish the rows of a table; they are durable on return. Raises `BrokerError`."""
        topic, chunk = self._context.flow.outputs.rows, self._context.request.chunk
        assert topic is not None
        assert chunk is not None
        made = table.messages(outcome.value, chunk, MAX_MESSAGE_SIZE)
        messages = await beside(list, made, steps=_STEPS * len(outcome.value))
        send, id = self._context.services.producers.send, self._context.request.id
        await asyncio.gather(*(send(topic, data, key=id, batch=True) for data in messages))


def _provider_failed(outcome: Outcome) -> bool:
    """Whether asking again may help, and asking about another table does not."""
    return outcome.reason is Reason.PROVIDER_ERROR or isinstance(outcome.cause, ProviderAway)


def _too_large(row: object) -> str | None:
    size = len(wire.encode(row))
    return (
        f"a row of {size:,} bytes, expected at most {MAX_OBJECT_SIZE:,}" if size > MAX_OBJECT_SIZE else None
    )


def _combined(prompt: PromptDefinition, results: Mapping[str, AskResult], unusable: Unusable) -> AskResult:
    """One outcome for all tables, with all rows and calls; the indexes in it count within each table.

    A failure of the provider decides about the request, else the first outcome that is not served.
    """
    if not results:
        return AskResult(prompt, Outcome([], Reason.SUCCESS, prompt.contract))

    def rank(result: AskResult) -> tuple[bool, bool, bool]:
        outcome = result.outcome
        return not _provider_failed(outcome), is_served(outcome, unusable), outcome.ok

    decisive = min(results.values(), key=rank)
    outcomes = [result.outcome for result in results.values()]
    cut = {outcome.truncated for outcome in outcomes}

    def joined(name: str) -> tuple[Any, ...]:
        return tuple(each for outcome in outcomes for each in getattr(outcome, name))

    merged = replace(
        decisive.outcome,
        value=list(joined("value")),
        stage=max(outcome.stage for outcome in outcomes),
        issues=tuple(issue for key, result in results.items() for issue in _issues(key, result.outcome)),
        rejected=joined("rejected"),
        repaired=joined("repaired"),
        retracted=joined("retracted"),
        truncated=True if True in cut else None if None in cut else False,
        calls=joined("calls"),
        cached=all(outcome.cached for outcome in outcomes),
        escalated=next((outcome.escalated for outcome in outcomes if outcome.escalated), None),
        grounding=None,
    )
    return AskResult(decisive.prompt, merged)


def _issues(key: str, outcome: Outcome) -> Iterator[Issue]:
    """The issues of a whole answer, and why there is none, each with the key of its table."""
    if outcome.ok:
        for issue in outcome.issues:
            yield replace(issue, message=f"table {key}: {issue.message}")
    else:
        yield Issue(outcome.reason, f"table {key}: {outcome.explain()}")
