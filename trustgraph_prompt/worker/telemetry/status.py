"""The status of a worker as a document, which `status.schema.json` describes.

The counts are read from the metrics, so that they are those of `/metrics`.
"""

from __future__ import annotations

import math
import os
import socket
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from time import time
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import trustgraph_prompt
from trustgraph_prompt.errors import excerpt
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.worker.canary.record import Canary
from trustgraph_prompt.worker.config.recent_changes import AppliedChange
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.telemetry.activity import FlowActivity, iso
from trustgraph_prompt.worker.telemetry.health import brief
from trustgraph_prompt.worker.telemetry.metrics import MAX_VERSION
from trustgraph_prompt.worker.telemetry.series import Row

if TYPE_CHECKING:
    from trustgraph_prompt.worker.service import Service

VERSION: Final = 1

MAX_FLOWS, MAX_PROMPTS = 200, 500
"""Flows and prompts in a document; those that were asked most come first."""

Document = dict[str, Any]

_PromptKey = tuple[str, str]
"""Workspace and id."""

_FlowState = tuple[Flow, str, str | None, FlowActivity]
"""A flow, the model that it asks, why it is not served, and what it did lately."""


class Status:
    """Describes a service. `id` is its name in the names of its subscriptions."""

    def __init__(self, service: Service, id: str) -> None:
        self._service = service
        self._worker = {
            "id": id,
            "instance": uuid4().hex[:12],
            "host": socket.gethostname(),
            "process": os.getpid(),
            "release": trustgraph_prompt.__version__,
            "started": iso(service.health.started),
            "shows_content": service.activity.shows_content,
        }

    def observe(self) -> Callable[[], Document]:
        """Look at the service; returns what makes the document, in another thread if wanted."""
        service, now = self._service, self._service.activity.clock()
        return _Observed(
            head=self._head(),
            provider=self._provider(),
            flows=self._flows(now),
            prompts={
                (workspace, id): (prompt, service.prompts.since(workspace, id))
                for workspace, snapshot in service.prompts.items()
                for id, prompt in snapshot.prompts.items()
            },
            canaries=service.canaries.served,
            config_topic=service.config_topic,
            changes=service.changes.newest,
            outcomes=list(service.activity.outcomes),
            counts=service.metrics.counts,
            now=now,
        ).document

    def _head(self) -> Document:
        health = self._service.health
        return {
            "version": VERSION,
            "at": iso(time()),
            "worker": self._worker,
            "ready": health.ready,
            "since": iso(health.waiting.since),
            "waiting": brief(health.waiting),
            "notes": brief(health.notes()),
        }

    def _provider(self) -> Document:
        limits = self._service.limits
        return {
            "in_flight": limits.in_flight,
            "waiting": limits.waiting,
            "limits": limits.set,
            "paused": {server: round(seconds, 1) for server, seconds in limits.pauses.items()},
        }

    def _flows(self, now: float) -> list[_FlowState]:
        """Empty until the broker answers."""
        if (flow_set := self._service.flow_set) is None:
            return []
        models, known = flow_set.models, self._service.activity.flows
        return [
            (flow, models[flow.name], flow_set.why_unserved(flow), known.get(flow.name) or FlowActivity(now))
            for flow in flow_set.flows
        ]


@dataclass(frozen=True, slots=True)
class _Observed:
    """What a document is made of: another thread may read it while the service goes on."""

    head: Document
    provider: Document
    flows: Sequence[_FlowState]
    prompts: Mapping[_PromptKey, tuple[PromptDefinition, float]]
    canaries: Mapping[_PromptKey, tuple[Canary, PromptDefinition]]
    config_topic: str | None
    changes: Sequence[AppliedChange]
    outcomes: Sequence[Mapping[str, Any]]
    counts: Callable[[], Mapping[str, Sequence[Row]]]
    now: float

    def document(self) -> Document:
        counts = _Counts(self.counts(), {flow.name: flow.workspace for flow, *_ in self.flows})
        flows = sorted(self.flows, key=lambda each: -counts.total("outcomes", each[0].name))[:MAX_FLOWS]
        keys = sorted(
            self.prompts.keys() | counts.asked, key=lambda key: (-counts.total("outcomes", key), key)
        )
        return {
            **self.head,
            "flows": [_flow(*each, counts, self.now) for each in flows],
            "prompts": [
                _prompt(key, self.prompts.get(key), self.canaries.get(key), counts)
                for key in keys[:MAX_PROMPTS]
            ],
            "provider": {**self.provider, "pauses": counts.pauses, "errors": counts.errors},
            "dead_letters": counts.split("dead_letters"),
            "config": {"topic": self.config_topic, "changes": [_change(each) for each in self.changes]},
            "outcomes": [_outcome(each) for each in reversed(self.outcomes)],
            "omitted": {
                "flows": len(self.flows) - len(flows),
                "prompts": max(0, len(keys) - MAX_PROMPTS),
            },
        }


_LABELS = {"outcomes": 2, "rejected": 2, "repaired": 2, "tokens": 3, "dead_letters": 1}
"""The position of the label by which a metric is split in the document; others are not split."""

_NOT_OF_PROMPTS = {"in_work", "retries", "dead_letters"}


class _Counts:
    """The rows of the metrics, added up for each flow (by name) and each prompt (by workspace and id)."""

    def __init__(self, rows: Mapping[str, Sequence[Row]], workspaces: Mapping[str, str]) -> None:
        self._sums: defaultdict[tuple[str, Hashable], Counter[str]] = defaultdict(Counter)
        self.asked: set[_PromptKey] = set()
        self.pauses = int(sum(value for _, value in rows["pauses"]))
        self.errors: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for (model, category), value in rows["errors"]:
            self.errors[model][category] = int(value)
        self._judged = rows["judged"]
        self._workspaces = workspaces
        for name in rows.keys() - {"pauses", "errors", "judged"}:
            for labels, value in rows[name]:
                self._add(name, labels, value)

    def _add(self, name: str, labels: tuple[str, ...], value: float) -> None:
        flow, split = labels[0], labels[_LABELS[name]] if name in _LABELS else ""
        self._sums[name, flow][split] += value  # type: ignore[assignment]  # costs are no integers
        self._sums[name, None][split] += value  # type: ignore[assignment]
        if name not in _NOT_OF_PROMPTS and flow in self._workspaces:
            prompt = self._workspaces[flow], labels[1]
            self.asked.add(prompt)
            self._sums[name, prompt][split] += value  # type: ignore[assignment]

    def split(self, name: str, of: Hashable = None) -> dict[str, int]:
        """The counts of a flow, of a prompt or of all flows, by the label of the metric."""
        return {label: int(value) for label, value in sorted(self._sums[name, of].items()) if value}

    def total(self, name: str, of: Hashable) -> int:
        return int(self._sums[name, of].total())

    def of_both(self, of: Hashable) -> Document:
        """The counts that flows and prompts have. The cost is None if no call had a price."""
        cost = self._sums["cost", of]
        return {
            "requests": self.total("outcomes", of),
            "outcomes": self.split("outcomes", of),
            "objects": self.total("objects", of),
            "tokens": {"in": 0, "out": 0} | self.split("tokens", of),
            "cost": round(float(cost.total()), 6) if cost else None,
        }

    def judged(self, prompt: _PromptKey, version: str) -> dict[str, int]:
        """The objects of one version of a prompt, by verdict."""
        verdicts: Counter[str] = Counter()
        for (flow, id, label, verdict), value in self._judged:
            if (self._workspaces.get(flow), id, label) == (*prompt, version[:MAX_VERSION]):
                verdicts[verdict] += int(value)
        return dict(verdicts)


def _flow(
    flow: Flow, model: str, waiting: str | None, activity: FlowActivity, counts: _Counts, now: float
) -> Document:
    durations = sorted(activity.durations.copy())
    return {
        "name": flow.name,
        "workspace": flow.workspace,
        "kind": flow.input.kind,
        "topic": flow.input.topic,
        "subscription": flow.input.subscription,
        "prompt": flow.prompt,
        "model": model or None,
        "concurrency": flow.concurrency,
        "waiting": waiting,
        **counts.of_both(flow.name),
        "in_work": counts.total("in_work", flow.name),
        "rejected": counts.total("rejected", flow.name),
        "cost_per_hour": flow.price and round(activity.cost_per_hour(now), 6),
        "retries": counts.total("retries", flow.name),
        "dead_letters": counts.split("dead_letters", flow.name),
        "per_second": {f"{last}s": round(activity.per_second(now, last), 2) for last in (10, 60)},
        "per_minute": activity.per_minute(now),
        "seconds": {
            "p50": _percentile(durations, 0.5),
            "p99": _percentile(durations, 0.99),
            "of": len(durations),
        },
    }


def _prompt(
    key: _PromptKey,
    known: tuple[PromptDefinition, float] | None,
    canary: tuple[Canary, PromptDefinition] | None,
    counts: _Counts,
) -> Document:
    workspace, id = key
    served, since = known or (None, None)
    return {
        "workspace": workspace,
        "id": id,
        "version": served and served.version,
        "since": since and iso(since),
        **counts.of_both(key),
        "rejected": counts.split("rejected", key),
        "repaired": counts.split("repaired", key),
        "truncated": counts.total("truncated", key),
        "completed": counts.total("completed", key),
        "canary": served and canary and _canary(key, served, *canary, counts),
    }


def _canary(
    key: _PromptKey, served: PromptDefinition, canary: Canary, changed: PromptDefinition, counts: _Counts
) -> Document:
    return {
        "id": canary.id,
        "version": changed.version,
        "share": canary.share,
        "by": canary.by,
        "why": canary.why,
        "judged": {
            "served": counts.judged(key, served.version),
            "canary": counts.judged(key, changed.version),
        },
    }


def _outcome(kept: Mapping[str, Any]) -> Document:
    """An outcome with its time and its content written out: only for who looks at it."""
    content = {"content": kept["content"]()} if "content" in kept else {}
    return {**kept, "at": iso(kept["at"]), **content}


def _change(change: AppliedChange) -> Document:
    return {
        "at": iso(change.at),
        "workspace": change.workspace,
        "entry": excerpt(change.entry),
        "action": change.action,
        "version": change.prompt and change.prompt.version,
        "by": change.by,
        "why": change.why,
    }


def _percentile(ordered: Sequence[float], share: float) -> float | None:
    """The least value that at least this share of the values does not exceed; None without values."""
    return round(ordered[math.ceil(share * len(ordered)) - 1], 4) if ordered else None
