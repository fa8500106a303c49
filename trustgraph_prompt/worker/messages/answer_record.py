"""The durable record of a request: its outcome, its objects and its cost; and the search for records."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate, count
from typing import Any, Self

from trustgraph_prompt import wire
from trustgraph_prompt.broker import Broker, Message
from trustgraph_prompt.broker.opened import opened
from trustgraph_prompt.contract import Grounding
from trustgraph_prompt.cost import Usage
from trustgraph_prompt.errors import Issue, Reason, RequestError
from trustgraph_prompt.reader import CallReport, Outcome, Rejected
from trustgraph_prompt.reader.decode import has_long_number
from trustgraph_prompt.worker.flow import Unusable
from trustgraph_prompt.worker.messages.request import Request

MAX_RAW = 2_000
"""Characters kept of a rejected object; with `MAX_REJECTED` this bounds the record's size."""

MAX_REJECTED = 200

MAX_GROUNDING, MAX_GROUNDINGS = 8_000, 256_000
"""Bytes of the grounding of one object, and of all objects of a record."""

MAX_REMARKS = 500

LISTS = ("objects", "rejected", "issues", "calls", "examples", "remarks")

UNSERVED = frozenset({Reason.PROVIDER_ERROR, Reason.BUDGET_SPENT, Reason.REFUSED})

_NOT_UNUSABLE = UNSERVED | {Reason.SUCCESS, Reason.TOO_LARGE}


def was_completed(truncated: bool | None, calls: Iterable[str]) -> bool:
    """Whether an answer was truncated, and then continued to its end; `calls` says why each call was made."""
    return not truncated and "continue" in calls


def is_unusable(outcome: Outcome) -> bool:
    """Whether a jsonl answer has no valid object and does not say that there are none.

    Valid objects that are too large for a message count as valid.
    """
    return outcome.contract.format == "jsonl" and outcome.reason not in _NOT_UNUSABLE


def is_served(outcome: Outcome, unusable: Unusable) -> bool:
    """Whether the requester gets a value; `unusable` is the flow's setting for unusable answers."""
    if outcome.contract.format != "jsonl" or outcome.reason in UNSERVED:
        return outcome.ok
    return unusable == "answer" or not is_unusable(outcome)


def failure_type(outcome: Outcome) -> str:
    """The type of the error without a value: no answer from the model, or one that cannot be used."""
    return "llm-error" if outcome.reason in UNSERVED else "unusable-answer"


def reject_objects(outcome: Outcome, why_not: Callable[[object], str | None]) -> Outcome:
    """A jsonl outcome with those objects rejected for which `why_not` returns a reason.

    Their `raw` is truncated, and their position in the answer is not known any more.
    """
    others = {rejected.index for rejected in outcome.rejected}
    indexes = (index for index in count() if index not in others)
    kept: list[object] = []
    places: dict[int, int] = {}
    rejected = list(outcome.rejected)
    for place, (index, value) in enumerate(zip(indexes, outcome.value, strict=False)):
        if (why := why_not(value)) is None:
            places[place] = len(kept)
            kept.append(value)
        else:
            raw = wire.encode(value)[:MAX_RAW].decode(errors="ignore")
            rejected.append(Rejected(index, raw, (Issue(Reason.TOO_LARGE, why),), 0))
    reason = Reason.TOO_LARGE if outcome.ok and not kept else outcome.reason
    rejected.sort(key=lambda rejection: rejection.index)
    grounding = outcome.grounding and tuple(outcome.grounding[place] for place in places)
    remarks = tuple(
        replace(each, index=places[each.index]) for each in outcome.remarks if each.index in places
    )
    return replace(
        outcome, value=kept, rejected=tuple(rejected), reason=reason, grounding=grounding, remarks=remarks
    )


def bounded_grounding(grounding: Mapping[str, Grounding | None]) -> Mapping[str, Grounding | None]:
    """The grounding of an object with all spans, one per value, or none, whichever fits."""
    for spans in (None, 1, 0):
        bounded = {
            path: found and replace(found, spans=found.spans[:spans]) for path, found in grounding.items()
        }
        if len(wire.encode(bounded)) <= MAX_GROUNDING:
            return bounded
    return {}


def object_ids(
    request: str, prompt: str, identity: Callable[[object], bytes] = wire.canonical
) -> Callable[[object], str]:
    """Returns a function that computes the id of an object of one request.

    The id is the same in every run for the same object of the same request and prompt. `identity` gives the
    same bytes for objects that say the same, as `Contract.identity`.
    """
    common = hashlib.sha256(_part(request.encode()) + _part(prompt.encode()))

    def id_of(value: object) -> str:
        digest = common.copy()
        digest.update(_part(identity(value)))
        return digest.hexdigest()[:32]

    return id_of


def _part(data: bytes) -> bytes:
    return len(data).to_bytes(8, "big") + data


@dataclass(frozen=True, slots=True)
class Answer:
    """The record of a request, published after its objects on the flow's compacted answers topic.

    `objects` has the ids of the valid objects; objects that no record names are of a worker that crashed.
    `value` is the result of a `text` or `json` prompt. `reason`, `stage`, `issues`, `cached` and `escalated`
    are those of the Outcome. `grounding` has the positions of objects in the terms, by id. `cost` is in the
    currency of the flow's price, None without one. `seconds` is how long asking took. `canary` is the id of
    the canary that answered, None for the served version of the prompt. `examples` are the ids of the texts
    of a pool that were shown. `remarks` say what of the objects was not read as written, in the terms of an
    ontology; their `index` counts `objects`.
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
    seconds: float | None = None
    canary: str | None = None
    examples: tuple[str, ...] = ()
    remarks: tuple[Mapping[str, Any], ...] = ()

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
        *,
        seconds: float | None = None,
        canary: str | None = None,
    ) -> Self:
        """Make the record of an outcome, bounded in size."""
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
            issues=tuple(map(_issue, outcome.issues)),
            calls=tuple(map(_call, outcome.calls)),
            usage=_counts(outcome.usage),
            cost=outcome.cost,
            source=request.source,
            cached=outcome.cached,
            escalated=outcome.escalated,
            grounding=_bounded(grounding, objects) if grounding else {},
            seconds=seconds,
            canary=canary,
            examples=outcome.examples,
            remarks=tuple(remark.as_json() for remark in outcome.remarks[:MAX_REMARKS]),
        )

    @property
    def gave_nothing(self) -> bool:
        """Whether there is neither an object nor a value, even if that is the correct result."""
        return not self.objects and self.value in (None, "", [])

    @property
    def completed(self) -> bool:
        """Whether the answer was truncated, and then continued to its end."""
        return was_completed(self.truncated, (call["why"] for call in self.calls))

    def rejected_objects(self) -> list[Rejected]:
        """The rejected objects that the record has kept; `raw` may be cut. Raises `RequestError`."""
        try:
            return [
                Rejected(int(each["index"]), str(each["raw"]), tuple(map(_as_issue, each["issues"])), 0)
                for each in self.rejected
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise RequestError(f"Answer/rejected: {type(error).__name__}: {error}") from None

    @property
    def why(self) -> str:
        """The reason for the failure in one line; empty after a success."""
        if self.reason == Reason.SUCCESS:
            return ""
        reasons = [issue["message"] for issue in self.issues]
        if self.rejected and not reasons:
            first = self.rejected[0]["issues"][0]
            place = f"{first['path']}: " if first["path"] else ""
            reasons = [f"{self.rejected_count:,} refused, the first: {place}{first['message']}"]
        reasons += [call["error"] for call in self.calls]
        return str(next(filter(None, reasons), self.reason.replace("_", " ")))

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Parse a record; unknown fields are ignored. Raises `RequestError`."""
        record = wire.decode(data, "Answer")
        if record.get("value") is not None and has_long_number(text := data.decode()):
            record["value"] = json.loads(text)["value"]  # exactly, as the objects are
        known: dict[str, Any] = {name: record[name] for name in cls.__dataclass_fields__ if name in record}
        try:
            return cls(**known | {name: tuple(known[name]) for name in LISTS if name in known})
        except TypeError as error:
            raise RequestError(f"Answer: {error}") from None

    def encode(self) -> bytes:
        """Serialize the record for the topic; without `examples` and `remarks` if there are none."""
        is_new = {"examples": self.examples, "remarks": self.remarks}
        names = [name for name in self.__dataclass_fields__ if is_new.get(name, True)]
        return wire.encode({name: getattr(self, name) for name in names})


def _bounded(
    grounding: Mapping[str, Mapping[str, Grounding | None]], objects: tuple[str, ...]
) -> dict[str, Mapping[str, Grounding | None]]:
    """The grounding that fits into a record, by the ids of objects."""
    bounded = {id: bounded_grounding(grounding[id]) for id in objects if id in grounding}
    sizes = accumulate(len(wire.encode(found)) for found in bounded.values())
    pairs = zip(bounded.items(), sizes, strict=True)
    return {id: found for (id, found), size in pairs if found and size <= MAX_GROUNDINGS}


def _call(call: CallReport) -> dict[str, Any]:
    names = ("why", "finish_reason", "model", "error", "usage", "cost")
    return {name: getattr(call, name) for name in names} | {"usage": _counts(call.usage)}


def _counts(usage: Usage) -> dict[str, int | None]:
    """The fields of a usage. `asdict` copies each of them, which takes ten times as long."""
    return {name: getattr(usage, name) for name in Usage.__dataclass_fields__}


def _issue(issue: Issue) -> dict[str, str]:
    keyword = {"keyword": issue.keyword} if issue.keyword else {}
    return {"reason": issue.reason.value, "path": issue.path, "message": issue.message, **keyword}


def _as_issue(issue: Mapping[str, Any]) -> Issue:
    texts = (str(issue.get(name, "")) for name in ("message", "path", "keyword"))
    return Issue(Reason(issue["reason"]), *texts)


@dataclass(frozen=True, slots=True)
class AnswerFilter:
    """Matches the records of a flow that have no result and the given reason and prompt."""

    flow: str
    reason: str | None = None
    prompt: str | None = None

    def matches(self, answer: Answer) -> bool:
        return (
            answer.gave_nothing
            and answer.flow == self.flow
            and self.reason in (None, answer.reason)
            and self.prompt in (None, answer.prompt)
        )


async def find(broker: Broker, topic: str, request: str) -> tuple[float, Answer] | None:
    """The last record of a request, with its time of publication. Reads the whole topic.

    Raises `BrokerError`.
    """
    return (await _last_records(broker, topic, lambda key: key == request)).get(request)


async def search(broker: Broker, topic: str, filter: AnswerFilter) -> list[tuple[float, Answer]]:
    """The matching records, the last one of each request, in order, with their time of publication.

    Keeps only these in memory: a topic has a record for each request. Raises `BrokerError`.
    """
    return [*(await _last_records(broker, topic, lambda key: True, filter.matches)).values()]


async def _last_records(
    broker: Broker,
    topic: str,
    concerns: Callable[[str], bool],
    matches: Callable[[Answer], bool] = lambda answer: True,
) -> dict[str, tuple[float, Answer]]:
    found: dict[str, tuple[float, Answer]] = {}
    async with opened(broker.reader(topic)) as reader:
        while await reader.behind() and (message := await reader.receive()):
            if (key := message.key) is not None and concerns(key):
                found.pop(key, None)
                if (answer := _decoded(message)) is not None and matches(answer):
                    found[key] = message.published, answer
    return found


def _decoded(message: Message) -> Answer | None:
    """The record in a message; None for a deletion, or a message of another program."""
    try:
        return Answer.decode(message.data)
    except RequestError:
        return None
