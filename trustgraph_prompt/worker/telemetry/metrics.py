"""Prometheus metrics of a worker, with bounded labels."""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge, Histogram, ProcessCollector, generate_latest

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.cost import Usage
from trustgraph_prompt.errors import Reason
from trustgraph_prompt.prompts import PromptSet
from trustgraph_prompt.reader import CallReport, Outcome, ReadReport, Rejected, Repaired
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.messages.answer_record import was_completed
from trustgraph_prompt.worker.telemetry.call_metrics import SECONDS, CallMetrics
from trustgraph_prompt.worker.telemetry.health import Health
from trustgraph_prompt.worker.telemetry.series import OTHER, Row, Series, SeriesRegistry, rows

if TYPE_CHECKING:
    from trustgraph_prompt.broker.producer_pool import ProducerPool


MAX_MODELS, MAX_MODEL = 100, 100
"""Distinct models in labels, and characters of each: servers choose the names."""

MAX_VERSIONS, MAX_VERSION = 3, 12
"""Versions of a prompt in labels, and characters of each."""

READ_SECONDS = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1, 5)

NOT_READ = "failed"
"""The stage of an answer that contains no valid value."""

_SAME_ANSWER = ("continue", "room", "transient")
"""Calls for a reason of these continue or repeat the answer of the call before."""

_thread = ThreadPoolExecutor(1, thread_name_prefix="metrics")
"""A dedicated thread, because those of the default executor may all be waiting for DNS."""


class Metrics:
    """The metrics of one worker, in a registry of their own."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.registry = registry = SeriesRegistry(clock)
        self._shown: list[tuple[Gauge, Callable[[], float]]] = []
        self._rendering: asyncio.Future[bytes] | None = None
        self._served: dict[str, frozenset[str]] = {}
        self._workspaces_with: collections.Counter[str] = collections.Counter()
        prefix = "trustgraph_prompt_"

        def gauge(name: str, help: str, *labels: str) -> Gauge:
            return Gauge(prefix + name, help, labels, registry=registry)

        def gauge_by_flow(name: str, help: str) -> Series[Gauge]:
            return registry.gauge(prefix + name, help, "flow")

        def by_flow(name: str, help: str, *labels: str) -> Series[Counter]:
            return registry.counter(prefix + name, help, "flow", *labels)

        def by_prompt(name: str, help: str, *labels: str) -> Series[Counter]:
            return by_flow(name, help, "prompt", *labels)

        def seconds(name: str, help: str, *labels: str, buckets: Sequence[float]) -> Series[Histogram]:
            return registry.histogram(prefix + name, help, "flow", "prompt", *labels, buckets=buckets)

        self._outcomes = by_prompt(
            "outcomes", "Requests answered by a model, by reason of the outcome", "reason"
        )
        self._seconds = seconds(
            "ask_seconds", "All calls of a request, from the first to the outcome", buckets=SECONDS
        )
        self._objects = by_prompt("objects", "Objects accepted")
        self._rejected = by_prompt("objects_rejected", "Objects rejected, by reason", "reason")
        self._ungrounded = by_prompt(
            "ungrounded", "Values rejected because no term contains them, by key", "key"
        )
        self._judged = by_prompt(
            "objects_judged",
            "Objects accepted, ungrounded, or rejected for another reason, by version of the prompt",
            "version",
            "verdict",
        )
        self._read = by_prompt("answers_read", "Answers read, by stage and reason", "stage", "reason")
        self._read_seconds = seconds(
            "reading_seconds", "Seconds to read an answer, by the last stage", "stage", buckets=READ_SECONDS
        )
        self._repaired = by_prompt("objects_repaired", "Objects whose JSON was repaired, by error", "what")
        self._truncated = by_prompt("answers_truncated", "Answers that stayed truncated")
        self._completed = by_prompt("answers_completed", "Truncated answers that further calls completed")
        self._escalations = by_prompt("escalations", "Answers escalated, by reason", "why")
        self._calls = by_prompt("calls", "Calls to a model, by reason", "model", "why")
        self._tokens = by_prompt("tokens", "Tokens paid for", "model", "direction", "reason")
        self._cost = by_prompt("cost", "Cost of calls, if the flow has a price", "model")
        self._pass_objects = by_prompt("pass_objects", "Objects added by a later pass", "pass")
        self._pass_tokens = by_prompt("pass_tokens", "Tokens paid for a later pass", "pass")
        self._pass_cost = by_prompt("pass_cost", "Cost of a later pass", "pass")
        self._lookups = by_prompt("cache_lookups", "Cache lookups, by result", "result")
        self._in_work = gauge_by_flow("requests_in_work", "Requests being processed")
        self._put_off = by_flow("requests_put_off", "Retries of requests")
        self._buried = by_flow("dead_letters", "Requests that became dead letters", "error")
        self._unsettled = by_flow("requests_unsettled", "Messages that the broker refused to settle")
        self._received = gauge_by_flow(
            "last_received_timestamp_seconds", "Time of the last message received, since the epoch"
        )
        self._ready = gauge("ready", "Whether requests are served (1)")
        self._well = gauge("healthy", "Whether the last check of a part succeeded (1)", "part")
        self._published = gauge(
            "last_published_timestamp_seconds", "Time of the last message published, since the epoch"
        )
        self._publishing = gauge(
            "publish_waiting_seconds", "Longest time that a message being published has waited for the broker"
        )
        self._prompts = gauge("prompts", "Prompts served", "workspace")
        self._refused = gauge("config_refused", "Config entries rejected", "workspace")
        self._models: set[str] = set()
        self.calls = CallMetrics(registry, prefix)
        ProcessCollector(namespace=prefix.rstrip("_"), registry=registry)

    def in_work(self, flow: str) -> AbstractContextManager[object]:
        """Count one more request in work during the block."""
        return self._in_work[(flow,)].track_inprogress()

    def asked(self, flow: str, prompt: str, version: str, outcome: Outcome, seconds: float) -> None:
        """Count the outcome of a request."""
        reason = outcome.reason.value
        self._outcomes[flow, prompt, reason].inc()
        self._seconds[flow, prompt].observe(seconds)
        version = version[:MAX_VERSION]
        self.registry.stay(flow=flow, prompt=prompt, version=version)
        judged = partial(self._count_judged, flow, prompt, version)
        if isinstance(outcome.value, list):
            self._objects[flow, prompt].inc(len(outcome.value))
            judged("accepted", len(outcome.value))
        for rejected in outcome.rejected:
            why = rejected.issues[0].reason
            self._rejected[flow, prompt, why.value].inc()
            judged("ungrounded" if why is Reason.UNGROUNDED else "rejected", 1)
            for key in _ungrounded(rejected, outcome.contract):
                self._ungrounded[flow, prompt, key].inc()
        if outcome.truncated:
            self._truncated[flow, prompt].inc()
        if was_completed(outcome.truncated, (call.why for call in outcome.calls)):
            self._completed[flow, prompt].inc()
        if outcome.escalated:
            self._escalations[flow, prompt, outcome.escalated].inc()
        if outcome.repaired:
            self._count_repairs(flow, prompt, outcome.repaired)
        for read in _answers_read(outcome.calls):
            stage = read.stage.name.lower() if read.reason is Reason.SUCCESS else NOT_READ
            self._read[flow, prompt, stage, read.reason.value].inc()
            self._read_seconds[flow, prompt, stage].observe(read.seconds)
        for call in outcome.calls:
            self._count_call(flow, prompt, call.model or "", call.why, reason, call.usage, call.cost)
        for number, one in enumerate(outcome.passes, 2):
            self._pass_objects[flow, prompt, str(number)].inc(len(one.value))
            self._pass_tokens[flow, prompt, str(number)].inc(one.usage.tokens)
            if one.cost is not None:
                self._pass_cost[flow, prompt, str(number)].inc(one.cost)

    def discarded(self, flow: Flow, prompt: str, usage: Usage, model: str) -> None:
        """Count an answer that was paid for and not used."""
        cost = None if flow.price is None else flow.price.of(usage)
        self._count_call(flow.name, prompt, model, "resent", "discarded", usage, cost)

    def _count_call(
        self, flow: str, prompt: str, model: str, why: str, reason: str, usage: Usage, cost: float | None
    ) -> None:
        model = self._model_label(model)
        self._calls[flow, prompt, model, why].inc()
        self._tokens[flow, prompt, model, "in", reason].inc(usage.prompt_tokens or 0)
        self._tokens[flow, prompt, model, "out", reason].inc(usage.completion_tokens or 0)
        if cost is not None:
            self._cost[flow, prompt, model].inc(cost)

    def _count_judged(self, flow: str, prompt: str, version: str, verdict: str, count: int) -> None:
        before = len(self._judged)
        self._judged[flow, prompt, version, verdict].inc(count)
        if len(self._judged) > before:
            versions = dict.fromkeys(labels[2] for labels in self._judged if labels[:2] == (flow, prompt))
            for old in [*versions][:-MAX_VERSIONS]:
                self.registry.leave(flow=flow, prompt=prompt, version=old)

    def _count_repairs(self, flow: str, prompt: str, objects: Iterable[Repaired]) -> None:
        """Count each kind of error once per object."""
        for repaired in objects:
            for what in {edit.what for edit in repaired.edits}:
                self._repaired[flow, prompt, what].inc()

    def _model_label(self, model: str) -> str:
        """The model as a label; `other` once there are `MAX_MODELS`."""
        model = model[:MAX_MODEL]
        if len(self._models) < MAX_MODELS:
            self._models.add(model)
        return model if model in self._models else OTHER

    def looked_up(self, flow: str, prompt: str, *, hit: bool) -> None:
        """Count a cache lookup."""
        self._lookups[flow, prompt, "hit" if hit else "miss"].inc()

    def watch(self, health: Health, producers: ProducerPool) -> None:
        """Show the state of these when the metrics are rendered."""
        self._shown += [
            (self._ready, lambda: health.ready),
            (self._published, lambda: producers.last_published),
            (self._publishing, lambda: producers.waiting),
        ]

    def part(self, name: str, *, well: bool) -> None:
        """Show the result of a check of a part."""
        self._well.labels(name).set(well)

    def forget_part(self, name: str) -> None:
        """Remove a part."""
        self._well.remove(name)

    def received(self, flow: str) -> None:
        """Note that a message was received."""
        self._received[(flow,)].set_to_current_time()

    def put_off(self, flow: str) -> None:
        """Count a retry."""
        self._put_off[(flow,)].inc()

    def buried(self, flow: str, error: str) -> None:
        """Count a dead letter."""
        self._buried[flow, error].inc()

    def unsettled(self, flow: str) -> None:
        """Count a message that the broker refused to settle."""
        self._unsettled[(flow,)].inc()

    def flow_started(self, flow: str) -> None:
        """Keep the metrics of a flow that may have ended before."""
        self.registry.stay(flow=flow)

    def flow_ended(self, flow: str) -> None:
        """Remove the metrics of a flow once Prometheus has read them."""
        self.registry.leave(flow=flow)

    def configured(self, workspace: str, snapshot: PromptSet) -> None:
        """Show the new snapshot of a workspace."""
        self._prompts.labels(workspace).set(len(snapshot.prompts))
        self._refused.labels(workspace).set(len(snapshot.refused))
        self._serves(workspace, frozenset(snapshot.prompts))
        self.registry.remove_left()

    def forgotten(self, workspace: str) -> None:
        """Remove the metrics of a workspace."""
        self._prompts.remove(workspace)
        self._refused.remove(workspace)
        self._serves(workspace, frozenset())

    def _serves(self, workspace: str, prompts: frozenset[str]) -> None:
        """Keep the series of a workspace's prompts, and let those go that no workspace has any more."""
        before = self._served.pop(workspace, frozenset())
        if prompts:
            self._served[workspace] = prompts
        for prompt in prompts - before:
            self._workspaces_with[prompt] += 1
            self.registry.stay(prompt=prompt)
        for prompt in before - prompts:
            self._workspaces_with[prompt] -= 1
            if not self._workspaces_with[prompt]:
                del self._workspaces_with[prompt]
                self.registry.leave(prompt=prompt)

    def counts(self) -> dict[str, list[Row]]:
        """The counters and gauges of flows and prompts. May be called in another thread."""
        return {
            "outcomes": self._outcomes.rows(),
            "objects": self._objects.rows(),
            "rejected": self._rejected.rows(),
            "judged": self._judged.rows(),
            "repaired": self._repaired.rows(),
            "truncated": self._truncated.rows(),
            "completed": self._completed.rows(),
            "tokens": self._tokens.rows(),
            "cost": self._cost.rows(),
            "in_work": self._in_work.rows(),
            "retries": self._put_off.rows(),
            "dead_letters": self._buried.rows(),
            "errors": self.calls.errors.rows(),
            "pauses": rows(self.calls.pauses),
        }

    def text(self) -> bytes:
        """Render the metrics."""
        self._prepare()
        return generate_latest(self.registry)

    async def exposition(self) -> bytes:
        """Render the metrics in a thread; concurrent calls share the result."""
        if self._rendering is None:
            self._prepare()
            loop = asyncio.get_running_loop()
            self._rendering = loop.run_in_executor(_thread, generate_latest, self.registry)
            self._rendering.add_done_callback(self._end_rendering)
        return await asyncio.shield(self._rendering)

    def _end_rendering(self, rendering: asyncio.Future[bytes]) -> None:
        self._rendering = None

    def _prepare(self) -> None:
        """Set what depends on the worker's state, which the rendering thread must not access."""
        for gauge, function in (*self._shown, *self.calls.shown):
            gauge.set(function())
        self.calls.show_patience()
        self.registry.remove_left()


def _ungrounded(rejected: Rejected, contract: Contract) -> Iterator[str]:
    """The paths of ungrounded values; `*` for array indexes and for keys that are not in the schema."""
    for issue in rejected.issues:
        if issue.reason is Reason.UNGROUNDED:
            names = contract.names()
            yield "/".join(step if step in names else "*" for step in issue.path.split("/")[1:])


def _answers_read(calls: Iterable[CallReport]) -> Iterator[ReadReport]:
    """The report of each answer; of an answer that took several calls the last one."""
    read: ReadReport | None = None
    for call in calls:
        if read is not None and call.why not in _SAME_ANSWER:
            yield read
            read = None
        read = call.read or read
    if read is not None:
        yield read
