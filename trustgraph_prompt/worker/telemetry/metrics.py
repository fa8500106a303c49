"""Prometheus metrics of a worker. Labels are bounded: flows, prompts, models, reasons."""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Callable, Container, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics import MetricWrapperBase

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import Reason
from trustgraph_prompt.prompts import PromptSet
from trustgraph_prompt.reader import CallReport, Outcome, ReadReport, Rejected, Repaired
from trustgraph_prompt.worker.telemetry.call_metrics import SECONDS, CallMetrics
from trustgraph_prompt.worker.telemetry.health import Health

if TYPE_CHECKING:
    from trustgraph_prompt.broker.producer_pool import ProducerPool


M = TypeVar("M", bound=MetricWrapperBase)

SECONDS_TO_REMEMBER = 3600.0
"""For so long what was counted of a prompt that is gone stays: whoever reads it comes by within minutes."""


class ByFlow(dict[tuple[str, ...], M]):
    """A metric by its labels, of which the first is a flow; found sooner than by its own `labels`."""

    def __init__(self, metric: M) -> None:
        super().__init__()
        self._metric = metric

    def __missing__(self, labels: tuple[str, ...]) -> M:
        self[labels] = child = self._metric.labels(*labels)
        return child

    def forget(self, flow: str) -> None:
        """There is no such flow any more."""
        self._remove([labels for labels in self if labels[0] == flow])

    def _remove(self, gone: Iterable[tuple[str, ...]]) -> None:
        for labels in gone:
            del self[labels]
            self._metric.remove(*labels)


class ByPrompt(ByFlow[M]):
    """A metric whose second label is a prompt."""

    def forget_prompts(self, prompts: Container[str]) -> None:
        """There are no such prompts any more."""
        self._remove([labels for labels in self if labels[1] in prompts])


class GonePrompts:
    """Which prompts no workspace has any more, and since when."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._served: dict[str, frozenset[str]] = {}
        self._workspaces: collections.Counter[str] = collections.Counter()
        self._gone: dict[str, float] = {}

    def serves(self, workspace: str, prompts: frozenset[str]) -> None:
        """A workspace has these prompts now."""
        before = self._served.pop(workspace, frozenset())
        if prompts:
            self._served[workspace] = prompts
        for prompt in prompts - before:
            self._workspaces[prompt] += 1
            self._gone.pop(prompt, None)
        for prompt in before - prompts:
            self._workspaces[prompt] -= 1
            if not self._workspaces[prompt]:
                del self._workspaces[prompt]
                self._gone[prompt] = self._clock()

    def take_due(self) -> frozenset[str]:
        """Those that are to be forgotten now; each is told once."""
        now = self._clock()
        due = frozenset(prompt for prompt, since in self._gone.items() if now - since >= SECONDS_TO_REMEMBER)
        for prompt in due:
            del self._gone[prompt]
        return due


MAX_MODELS, MAX_MODEL = 100, 100
"""Names of models that are counted apart, and characters of each: the names are whatever servers say."""

READ_SECONDS = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1, 5)

NOT_READ = "failed"
"""Stands for the stage of an answer in which there is nothing that was asked for."""

_SAME_ANSWER = ("continue", "room", "transient")
"""Why calls are made that are to bring an answer, or what is left of it, that is already being had."""

_aside = ThreadPoolExecutor(1, thread_name_prefix="metrics")
"""A thread of their own: the common ones may all be waiting for names to be looked up."""


class Metrics:
    """The metrics of one worker, in a registry of their own."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.registry = CollectorRegistry()
        self._shown: list[tuple[Gauge, Callable[[], float]]] = []
        self._rendering: asyncio.Future[bytes] | None = None
        self._gone = GonePrompts(clock)
        prefix = "trustgraph_prompt_"

        def gauge(name: str, help: str, *labels: str) -> Gauge:
            return Gauge(prefix + name, help, labels, registry=self.registry)

        def by_flow(metric: M) -> ByFlow[M]:
            self._by_flow.append(each := ByFlow(metric))
            return each

        def counter_by_flow(name: str, help: str, *labels: str) -> ByFlow[Counter]:
            return by_flow(Counter(prefix + name, help, ("flow", *labels), registry=self.registry))

        def by_prompt(metric: M) -> ByPrompt[M]:
            self._by_prompt.append(each := ByPrompt(metric))
            return each

        def counter_by_prompt(name: str, help: str, *labels: str) -> ByPrompt[Counter]:
            return by_prompt(
                Counter(prefix + name, help, ("flow", "prompt", *labels), registry=self.registry)
            )

        self._by_flow: list[ByFlow[Any]] = []
        self._by_prompt: list[ByPrompt[Any]] = []
        self._outcomes = counter_by_prompt(
            "outcomes", "Requests that were asked, by what came of it", "reason"
        )
        self._seconds = by_prompt(
            Histogram(
                prefix + "ask_seconds",
                "From asking to the outcome, all calls of a request",
                ("flow", "prompt"),
                buckets=SECONDS,
                registry=self.registry,
            )
        )
        self._objects = counter_by_prompt("objects", "Objects accepted")
        self._rejected = counter_by_prompt("objects_rejected", "Objects refused, by why", "reason")
        self._ungrounded = counter_by_prompt(
            "ungrounded", "Values refused because they stand in no term of the question, by key", "key"
        )
        self._read = counter_by_prompt(
            "answers_read", "Answers that were read, by what that took and came to", "stage", "reason"
        )
        self._read_seconds = by_prompt(
            Histogram(
                prefix + "reading_seconds",
                "What reading an answer took, by the stage at which it ended",
                ("flow", "prompt", "stage"),
                buckets=READ_SECONDS,
                registry=self.registry,
            )
        )
        self._repaired = counter_by_prompt(
            "objects_repaired", "Objects whose JSON was mended, by what was wrong with it", "what"
        )
        self._truncated = counter_by_prompt("answers_truncated", "Answers that stayed cut")
        self._escalations = counter_by_prompt(
            "escalations", "Answers for somebody else to deal with, by why", "why"
        )
        self._calls = counter_by_prompt("calls", "Calls to a model, by why they were made", "model", "why")
        self._tokens = counter_by_prompt("tokens", "Tokens paid for", "model", "direction", "reason")
        self._cost = counter_by_prompt("cost", "Money paid, where the flow has a price", "model")
        self._lookups = counter_by_prompt(
            "cache_lookups", "Requests of prompts with a cache, by whether it had an answer", "result"
        )
        self._in_work = by_flow(gauge("requests_in_work", "Requests in work now", "flow"))
        self._put_off = counter_by_flow("requests_put_off", "Requests to be tried again later")
        self._buried = counter_by_flow("dead_letters", "Requests that became dead letters", "error")
        self._unsettled = counter_by_flow(
            "requests_unsettled", "Requests whose messages could be neither acknowledged, put off nor buried"
        )
        self._received = by_flow(
            gauge(
                "last_received_timestamp_seconds", "When a message was last received, since the epoch", "flow"
            )
        )
        self._ready = gauge("ready", "Whether requests are being served (1)")
        self._well = gauge(
            "healthy", "Whether a part was seen to work (1) when it was last looked at", "part"
        )
        self._published = gauge(
            "last_published_timestamp_seconds", "When something was last published, since the epoch"
        )
        self._publishing = gauge(
            "publish_waiting_seconds",
            "For how long what is being published waits for the broker, the longest",
        )
        self._prompts = gauge("prompts", "Prompts that are served", "workspace")
        self._refused = gauge("config_refused", "Config entries that are refused", "workspace")
        self._models: set[str] = set()
        self.calls = CallMetrics(self.registry, prefix)

    def in_work(self, flow: str) -> AbstractContextManager[object]:
        """One request more in work, for the time of the block."""
        return self._in_work[(flow,)].track_inprogress()

    def asked(self, flow: str, prompt: str, outcome: Outcome, seconds: float) -> None:
        """A request was asked; everything is read from its outcome."""
        reason = outcome.reason.value
        self._outcomes[flow, prompt, reason].inc()
        self._seconds[flow, prompt].observe(seconds)
        if isinstance(outcome.value, list):
            self._objects[flow, prompt].inc(len(outcome.value))
        for rejected in outcome.rejected:
            self._rejected[flow, prompt, rejected.issues[0].reason.value].inc()
            for key in _ungrounded(rejected, outcome.contract):
                self._ungrounded[flow, prompt, key].inc()
        if outcome.truncated:
            self._truncated[flow, prompt].inc()
        if outcome.escalated:
            self._escalations[flow, prompt, outcome.escalated].inc()
        if outcome.repaired:
            self._mended(flow, prompt, outcome.repaired)
        for read in _answers_read(outcome.calls):
            self._answer_read(flow, prompt, read)
        for call in outcome.calls:
            model = self._known(call.model or "")
            self._calls[flow, prompt, model, call.why].inc()
            self._tokens[flow, prompt, model, "in", reason].inc(call.usage.prompt_tokens or 0)
            self._tokens[flow, prompt, model, "out", reason].inc(call.usage.completion_tokens or 0)
            if call.cost is not None:
                self._cost[flow, prompt, model].inc(call.cost)

    def _answer_read(self, flow: str, prompt: str, read: ReadReport) -> None:
        stage = read.stage.name.lower() if read.reason is Reason.SUCCESS else NOT_READ
        self._read[flow, prompt, stage, read.reason.value].inc()
        self._read_seconds[flow, prompt, stage].observe(read.seconds)

    def _mended(self, flow: str, prompt: str, objects: Iterable[Repaired]) -> None:
        """Count what was wrong with each, once."""
        for repaired in objects:
            for what in {edit.what for edit in repaired.edits}:
                self._repaired[flow, prompt, what].inc()

    def _known(self, model: str) -> str:
        """The model as a label; "other" for one too many."""
        model = model[:MAX_MODEL]
        if len(self._models) < MAX_MODELS:
            self._models.add(model)
        return model if model in self._models else "other"

    def looked_up(self, flow: str, prompt: str, *, hit: bool) -> None:
        """A request of a prompt with a cache was answered: from there, or by asking."""
        self._lookups[flow, prompt, "hit" if hit else "miss"].inc()

    def watch(self, health: Health, producers: ProducerPool) -> None:
        """Show whether the worker is ready, and how its publishing goes."""
        self._shown += [
            (self._ready, lambda: health.ready),
            (self._published, lambda: producers.last_published),
            (self._publishing, lambda: producers.waiting),
        ]

    def part(self, name: str, *, well: bool) -> None:
        """A part of the worker was looked at."""
        self._well.labels(name).set(well)

    def forget_part(self, name: str) -> None:
        """There is no such part any more."""
        self._well.remove(name)

    def received(self, flow: str) -> None:
        """A message was received."""
        self._received[(flow,)].set_to_current_time()

    def put_off(self, flow: str) -> None:
        """A request is to be tried again later."""
        self._put_off[(flow,)].inc()

    def buried(self, flow: str, error: str) -> None:
        """A request became a dead letter."""
        self._buried[flow, error].inc()

    def unsettled(self, flow: str) -> None:
        """What was to become of a request's message, the broker does not let it."""
        self._unsettled[(flow,)].inc()

    def forget_flow(self, flow: str) -> None:
        """There is no such flow any more."""
        for metric in (*self._by_flow, *self._by_prompt):
            metric.forget(flow)

    def configured(self, workspace: str, snapshot: PromptSet) -> None:
        """A snapshot was swapped in."""
        self._prompts.labels(workspace).set(len(snapshot.prompts))
        self._refused.labels(workspace).set(len(snapshot.refused))
        self._gone.serves(workspace, frozenset(snapshot.prompts))
        self._forget_prompts()

    def forgotten(self, workspace: str) -> None:
        """A workspace is gone."""
        self._prompts.remove(workspace)
        self._refused.remove(workspace)
        self._gone.serves(workspace, frozenset())

    def text(self) -> bytes:
        """The exposition format."""
        self._prepare()
        return generate_latest(self.registry)

    async def exposition(self) -> bytes:
        """The same, rendered in a thread; whoever asks meanwhile gets the same."""
        if self._rendering is None:
            self._prepare()
            loop = asyncio.get_running_loop()
            self._rendering = loop.run_in_executor(_aside, generate_latest, self.registry)
            self._rendering.add_done_callback(self._rendered)
        return await asyncio.shield(self._rendering)

    def _rendered(self, rendering: asyncio.Future[bytes]) -> None:
        self._rendering = None

    def _prepare(self) -> None:
        """What looks at the worker is done here: a thread that renders must not."""
        for gauge, function in (*self._shown, *self.calls.shown):
            gauge.set(function())
        self._forget_prompts()

    def _forget_prompts(self) -> None:
        if gone := self._gone.take_due():
            for metric in self._by_prompt:
                metric.forget_prompts(gone)


def _ungrounded(rejected: Rejected, contract: Contract) -> Iterator[str]:
    """The keys of an object that stand in no term; what no schema names is `*`, as are places in lists."""
    for issue in rejected.issues:
        if issue.reason is Reason.UNGROUNDED:
            names = contract.names()
            yield "/".join(step if step in names else "*" for step in issue.path.split("/")[1:])


def _answers_read(calls: Iterable[CallReport]) -> Iterator[ReadReport]:
    """What reading each answer came to: of one that took several calls, when there was the most of it."""
    read: ReadReport | None = None
    for call in calls:
        if read is not None and call.why not in _SAME_ANSWER:
            yield read
            read = None
        read = call.read or read
    if read is not None:
        yield read
