"""The answers of a canary and of the served version, read from the topics of flows, side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trustgraph_prompt.cli import output
from trustgraph_prompt.errors import RequestError
from trustgraph_prompt.worker.canary.compare import QUANTITIES, Observed, Rate, Ratio, ratio
from trustgraph_prompt.worker.canary.record import Canary
from trustgraph_prompt.worker.messages.answer_record import Answer

if TYPE_CHECKING:
    from trustgraph_prompt.broker import Reader
    from trustgraph_prompt.cli.inspect_broker import BrokerView

AnswerTopics = Mapping[str, Collection[str]]
"""The names of flows by the topic on which they keep answers."""

_TITLES: Mapping[str, str] = {
    "objects": "objects per answer",
    "refused": "refused objects",
    "failed": "answers without a result",
    "truncated": "truncated answers",
    "attempts": "calls per answer",
    "tokens": "tokens per answer",
    "cost": "cost per answer",
    "seconds": "seconds per answer",
}
_SHARES = ("refused", "failed", "truncated")
_VERSION_CHARACTERS = 12


@dataclass
class Trial:
    """A canary and the served version of its prompt, with their answers.

    The canary `began`, and both versions are as they are now `since`, in seconds since the epoch. `promoted`:
    its entry is the served one.
    """

    workspace: str
    id: str
    canary: Canary
    began: float
    since: float
    promoted: bool
    _observed: dict[tuple[str, str], Observed] = field(default_factory=dict)
    _readers: dict[str, Reader] = field(default_factory=dict)

    async def read(self, view: BrokerView, topics: AnswerTopics) -> None:
        """Read the answers that have been published since the last call; the last of a request counts."""
        for topic, flows in topics.items():
            if topic not in self._readers and await view.has(topic):
                self._readers[topic] = await view.broker.reader(topic)
            reader = self._readers.get(topic)
            while reader and await reader.behind() and (message := await reader.receive()):
                if message.key is None or message.published < self.since:
                    continue
                try:
                    answer = Answer.decode(message.data)
                    observed = Observed.of(answer, message.published)
                    is_ours = answer.prompt == self.id and answer.flow in flows
                except (RequestError, LookupError, TypeError, ValueError, AttributeError):
                    continue  # a deletion, or a message of another program
                if is_ours:
                    self._observed.pop((topic, message.key), None)
                    self._observed[topic, message.key] = observed

    @property
    def answers(self) -> list[Observed]:
        """The answers of both versions in the order of publication."""
        ours = (None, self.canary.id)
        found = (
            each for each in self._observed.values() if each.published >= self.since and each.canary in ours
        )
        return sorted(found, key=lambda each: each.published)

    def facts(self) -> dict[str, Any]:
        """The comparison, for programs."""
        served, canary = self._sides()
        return {
            "prompt": self.id,
            "workspace": self.workspace,
            "id": self.canary.id,
            "share": self.canary.share,
            "by": self.canary.by,
            "began": output.time(self.began),
            "since": output.time(self.since),
            "served": _side_as_json(served),
            "canary": _side_as_json(canary),
            "ratios": {
                name: found and {"value": found.value, "low": found.low, "high": found.high}
                for name, found in _ratios(served, canary).items()
            },
        }

    def table(self) -> Iterator[str]:
        """The lines of the comparison, for people."""
        served, canary = self._sides()
        by = f" by {self.canary.by}" if self.canary.by else ""
        yield (
            f"{self.id} in workspace {self.workspace}: a canary for {100 * self.canary.share:g} % of the "
            f"requests, begun {output.time(self.began)}{by}; answers since {output.time(self.since)}"
        )
        yield _row("", "served", "canary", "canary / served")
        yield _row("version", _versions(served), _versions(canary))
        yield _row("answers", f"{len(served):,}", f"{len(canary):,}")
        ratios = _ratios(served, canary)
        for name, title in _TITLES.items():
            old, new = Rate.of(name, served), Rate.of(name, canary)
            if old or new:
                compared = "" if ratios[name] is None else str(ratios[name])
                yield _row(title, _shown(name, old), _shown(name, new), compared)
            if name == "refused":
                yield from _reason_rows(_refused(served), _refused(canary))
            if name == "failed":
                yield from _reason_rows(_failed(served), _failed(canary))

    def _sides(self) -> tuple[list[Observed], list[Observed]]:
        answers = self.answers
        return (
            [answer for answer in answers if answer.canary is None],
            [answer for answer in answers if answer.canary is not None],
        )


def _ratios(served: list[Observed], canary: list[Observed]) -> dict[str, Ratio | None]:
    return {name: ratio(name, served, canary) for name in QUANTITIES}


def _side_as_json(answers: list[Observed]) -> dict[str, Any]:
    rates = {name: Rate.of(name, answers) for name in QUANTITIES}
    return {
        "answers": len(answers),
        "cached": sum(answer.cached for answer in answers),
        "versions": dict(Counter(answer.version for answer in answers)),
        "objects": sum(answer.objects for answer in answers),
        "refused": dict(_refused(answers)),
        "failed": dict(_failed(answers)),
        "rates": {name: rate and rate.value for name, rate in rates.items()},
    }


def _refused(answers: list[Observed]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for answer in answers:
        counts.update(answer.refused)
    return counts


def _failed(answers: list[Observed]) -> Counter[str]:
    return Counter(answer.reason for answer in answers if answer.reason != "success")


def _reason_rows(served: Counter[str], canary: Counter[str]) -> Iterator[str]:
    for reason, _ in (served + canary).most_common():
        yield _row(f"  {reason}", f"{served[reason]:,}", f"{canary[reason]:,}")


def _versions(answers: list[Observed]) -> str:
    return ", ".join(dict.fromkeys(answer.version[:_VERSION_CHARACTERS] for answer in answers)) or "-"


def _shown(name: str, rate: Rate | None) -> str:
    if rate is None:
        return "-"
    return f"{100 * rate.value:.1f} %" if name in _SHARES else f"{rate.value:,.4g}"


def _row(title: str, served: str, canary: str, compared: str = "") -> str:
    return f"  {title:26}{served:>16}{canary:>16}   {compared}".rstrip()
