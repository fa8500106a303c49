"""Adds up the statuses of workers: a row for each worker, flow and version of a prompt."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from trustgraph_prompt.cli.worker_status import Status


class Order(StrEnum):
    """By what the rows are sorted."""

    name = "name"
    rate = "rate"
    in_work = "in-work"
    requests = "requests"
    failed = "failed"
    refused = "refused"
    spend = "spend"
    slow = "slow"
    backlog = "backlog"
    dead = "dead"


Row = dict[str, Any]
Backlogs = Mapping[tuple[str, str], int]
"""Messages that wait in the broker, by topic and subscription."""

_OF_BOTH: Final[Row] = {
    "requests": 0,
    "outcomes": {},
    "objects": 0,
    "tokens": {"in": 0, "out": 0},
    "cost": None,
}
_OF_FLOWS: Final[Row] = {
    **_OF_BOTH,
    "rejected": 0,
    "in_work": 0,
    "concurrency": 0,
    "retries": 0,
    "dead_letters": {},
    "cost_per_hour": None,
    "per_second": {"10s": 0, "60s": 0},
}
_OF_PROMPTS: Final[Row] = {**_OF_BOTH, "rejected": {}, "repaired": {}, "truncated": 0, "completed": 0}
"""What is added up, from these on."""


def summed(values: Iterable[Any]) -> Any:
    """Add numbers, or mappings key by key. None counts nothing; the sum of nothing else is None."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    if isinstance(known[0], Mapping):
        names = dict.fromkeys(name for value in known for name in value)
        return {name: summed(value.get(name) for value in known) for name in names}
    return sum(known)


def everything(
    statuses: Mapping[str, Status],
    missing: Mapping[str, str],
    backlogs: Backlogs,
    no_backlogs: str | None = None,
) -> Row:
    """Return all rows, and the sums over all workers. Counts are those since the start of each worker.

    `missing` says why an address has no status, `no_backlogs` why the broker told none.
    """
    return {
        "workers": [_worker(address, status) for address, status in statuses.items()],
        "missing": dict(missing),
        "no_backlogs": no_backlogs,
        "flows": [
            _flow(flows, backlogs) for flows in _groups(statuses, "flows", "name", "topic", "subscription")
        ],
        "prompts": [
            _prompt(prompts) for prompts in _groups(statuses, "prompts", "workspace", "id", "version")
        ],
        **_sums([*statuses.values()], {"dead_letters": {}, "omitted": {"flows": 0, "prompts": 0}}),
    }


def failed(row: Row) -> int:
    """The requests without a usable value."""
    count: int = row["requests"] - row["outcomes"].get("success", 0)
    return count


def _groups(statuses: Mapping[str, Status], part: str, *names: str) -> list[Sequence[Row]]:
    """The flows or prompts of all workers, those together that are the same."""
    groups: defaultdict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for status in statuses.values():
        for item in status[part]:
            groups[tuple(item[name] for name in names)].append(item)
    return list(groups.values())


def _sums(items: Sequence[Mapping[str, Any]], zeros: Row) -> Row:
    return {name: summed([zero, *(item[name] for item in items)]) for name, zero in zeros.items()}


def _worker(address: str, status: Status) -> Row:
    row = {name: status[name] for name in ("worker", "ready", "since", "waiting", "notes", "at")}
    sums = _sums(status["flows"], _OF_FLOWS) | {"dead_letters": status["dead_letters"]}
    return {"name": address, **row, "flows": len(status["flows"]), **sums}


def _flow(flows: Sequence[Row], backlogs: Backlogs) -> Row:
    first = flows[0]
    return {
        **{name: first[name] for name in ("name", "workspace", "kind", "topic", "subscription", "prompt")},
        "models": sorted({flow["model"] for flow in flows if flow["model"]}),
        "workers": len(flows),
        "waiting": sorted({flow["waiting"] for flow in flows if flow["waiting"]}),
        **_sums(flows, _OF_FLOWS),
        "seconds": {
            name: max(
                (flow["seconds"][name] for flow in flows if flow["seconds"][name] is not None), default=None
            )
            for name in ("p50", "p99")
        },
        "backlog": backlogs.get((first["topic"], first["subscription"])),
    }


def _prompt(prompts: Sequence[Row]) -> Row:
    first = prompts[0]
    canary = next((prompt["canary"] for prompt in prompts if prompt["canary"]), None)
    if canary is not None:
        same = [each for prompt in prompts if (each := prompt["canary"]) and each["id"] == canary["id"]]
        canary = {**canary, "judged": summed(each["judged"] for each in same)}
    return {
        **{name: first[name] for name in ("workspace", "id", "version")},
        "name": first["id"] if first["workspace"] == "default" else f"{first['workspace']}/{first['id']}",
        "workers": len(prompts),
        **_sums(prompts, _OF_PROMPTS),
        "canary": canary,
    }
