"""The durable record of a request: what came of it, the ids of its objects, what it cost."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import accumulate, count
from typing import Any, Self

from trustgraph_prompt import wire
from trustgraph_prompt.contract import Grounding
from trustgraph_prompt.errors import Issue, Reason, RequestError
from trustgraph_prompt.reader import Outcome, Rejected
from trustgraph_prompt.worker.flow import Unusable
from trustgraph_prompt.worker.messages.request import Request

MAX_RAW = 2_000
"""Characters of a refused object that the record keeps; with `MAX_REJECTED` it bounds the record's size."""

MAX_REJECTED = 200

MAX_GROUNDING, MAX_GROUNDINGS = 8_000, 256_000
"""Bytes of what is said of where one object stands, and of where all objects of a record do."""


LISTS = ("objects", "rejected", "issues", "calls")

UNSERVED = frozenset({Reason.PROVIDER_ERROR, Reason.BUDGET_SPENT, Reason.REFUSED})


def is_unusable(outcome: Outcome) -> bool:
    """Whether a model was asked for many objects, gave none that stands, and did not say that there is none.

    An object that stands and that no message can carry is not the model's fault.
    """
    asked_for_many = outcome.contract.format == "jsonl"
    return asked_for_many and outcome.reason not in UNSERVED | {Reason.SUCCESS, Reason.TOO_LARGE}


def is_served(outcome: Outcome, unusable: Unusable) -> bool:
    """Whether the requester gets a value, in a flow that does this with unusable answers."""
    if outcome.contract.format != "jsonl" or outcome.reason in UNSERVED:
        return outcome.ok
    return unusable == "answer" or not is_unusable(outcome)


def without(outcome: Outcome, why_not: Callable[[object], str | None]) -> Outcome:
    """The outcome of many objects with those of them refused that there is a reason not to send.

    Of these `raw` has the beginning alone, and where it stands in the answer is not known any more.
    """
    others = {rejected.index for rejected in outcome.rejected}
    indexes = (index for index in count() if index not in others)
    kept: list[object] = []
    rejected = list(outcome.rejected)
    for index, value in zip(indexes, outcome.value, strict=False):
        if (why := why_not(value)) is None:
            kept.append(value)
        else:
            raw = wire.encode(value)[:MAX_RAW].decode(errors="ignore")
            rejected.append(Rejected(index, raw, (Issue(Reason.TOO_LARGE, why),), 0))
    reason = Reason.TOO_LARGE if outcome.ok and not kept else outcome.reason
    rejected.sort(key=lambda one: one.index)
    ids = set(map(id, kept))
    grounding = outcome.grounding and tuple(
        found for value, found in zip(outcome.value, outcome.grounding, strict=True) if id(value) in ids
    )
    return replace(outcome, value=kept, rejected=tuple(rejected), reason=reason, grounding=grounding)


def told(grounding: Mapping[str, Grounding | None]) -> Mapping[str, Grounding | None]:
    """Where an object stands: all places, or the first of each value, or nothing, as far as it fits."""
    for spans in (None, 1, 0):
        said = {
            path: found and replace(found, spans=found.spans[:spans]) for path, found in grounding.items()
        }
        if len(wire.encode(said)) <= MAX_GROUNDING:
            return said
    return {}


def object_id(request: str, prompt: str, value: object) -> str:
    """What names an object: the same for the same object of the same request, whichever run made it."""
    return object_ids(request, prompt)(value)


def object_ids(request: str, prompt: str) -> Callable[[object], str]:
    """Names the objects of one request; what they have in common is hashed once."""
    common = hashlib.sha256(_part(request.encode()) + _part(prompt.encode()))

    def id_of(value: object) -> str:
        digest = common.copy()
        digest.update(_part(wire.canonical(value)))
        return digest.hexdigest()[:32]

    return id_of


def _part(data: bytes) -> bytes:
    return len(data).to_bytes(8, "big") + data


@dataclass(frozen=True, slots=True)
class Answer:
    """On the flow's compacted answers topic under the request's id, published after its objects.

    `objects` are the ids of the objects that stand: one that no answer names came from a run that died.
    `value` holds what a `text` or `json` prompt gave. `reason`, `stage`, `issues`, `cached` and `escalated`
    are the Outcome's. `grounding` says, by id, where objects stand in the terms. `cost` is money, None where
    the flow has no price.
    """

    request: str
    flow: str
    prompt: str
    version: str
    reason: str
    stage: str
    truncated: bool | None
    objects: tuple[str, ...]
    value: Any = None
    rejected_count: int = 0
    rejected: tuple[Mapping[str, Any], ...] = ()
    issues: tuple[Mapping[str, str], ...] = ()
    calls: tuple[Mapping[str, Any], ...] = ()
    usage: Mapping[str, int | None] = field(default_factory=dict)
    cost: float | None = None
    source: Mapping[str, str] = field(default_factory=dict)
    cached: bool = False
    escalated: str | None = None
    grounding: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        request: Request,
        flow: str,
        prompt: str,
        version: str,
        outcome: Outcome,
        objects: tuple[str, ...],
        grounding: Mapping[str, Mapping[str, Grounding | None]] | None = None,
    ) -> Self:
        """The record of `outcome`, bounded in size."""
        return cls(
            request=request.id,
            flow=flow,
            prompt=prompt,
            version=version,
            reason=outcome.reason.value,
            stage=outcome.stage.name.lower(),
            truncated=outcome.truncated,
            objects=objects,
            value=outcome.value if outcome.ok and outcome.contract.format != "jsonl" else None,
            rejected_count=len(outcome.rejected),
            rejected=tuple(
                {"index": r.index, "raw": r.raw[:MAX_RAW], "issues": [_issue(issue) for issue in r.issues]}
                for r in outcome.rejected[:MAX_REJECTED]
            ),
            issues=tuple(_issue(issue) for issue in outcome.issues),
            calls=tuple(
                {
                    "why": call.why,
                    "finish_reason": call.finish_reason,
                    "model": call.model,
                    "error": call.error,
                    "usage": asdict(call.usage),
                    "cost": call.cost,
                }
                for call in outcome.calls
            ),
            usage=asdict(outcome.usage),
            cost=outcome.cost,
            source=request.source,
            cached=outcome.cached,
            escalated=outcome.escalated,
            grounding=_bounded(grounding, objects) if grounding else {},
        )

    @property
    def gave_nothing(self) -> bool:
        """Whether there is neither an object nor a value, for whatever reason: also where that is right."""
        return not self.objects and self.value in (None, "", [])

    @property
    def why(self) -> str:
        """Why there is nothing to use, in a line; nothing where the answer is as it should be."""
        if self.reason == Reason.SUCCESS:
            return ""
        told = [issue["message"] for issue in self.issues]
        if self.rejected and not told:
            first = self.rejected[0]["issues"][0]
            place = f"{first['path']}: " if first["path"] else ""
            told = [f"{self.rejected_count:,} refused, the first: {place}{first['message']}"]
        told += [call["error"] for call in self.calls]
        return str(next(filter(None, told), self.reason.replace("_", " ")))

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Reads the record back; unknown fields are ignored. Raises `RequestError` where it is none."""
        record = wire.decode(data, "Answer")
        known: dict[str, Any] = {name: record[name] for name in cls.__dataclass_fields__ if name in record}
        try:
            return cls(**known | {name: tuple(known[name]) for name in LISTS if name in known})
        except TypeError as error:
            raise RequestError(f"Answer: {error}") from None

    def encode(self) -> bytes:
        """The record as it goes onto the topic."""
        return wire.encode(self)


def _bounded(
    grounding: Mapping[str, Mapping[str, Grounding | None]], objects: tuple[str, ...]
) -> dict[str, Mapping[str, Grounding | None]]:
    """What of it fits into a record, by the ids of objects."""
    bounded = {id: told(grounding[id]) for id in objects if id in grounding}
    sizes = accumulate(len(wire.encode(found)) for found in bounded.values())
    pairs = zip(bounded.items(), sizes, strict=True)
    return {id: found for (id, found), size in pairs if found and size <= MAX_GROUNDINGS}


def _issue(issue: Issue) -> dict[str, str]:
    return {"reason": issue.reason.value, "path": issue.path, "message": issue.message}
