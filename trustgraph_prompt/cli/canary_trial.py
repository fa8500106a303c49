"""The answers of a canary and of the served version, read from the topics of flows, side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from trustgraph_prompt.cli import output
from trustgraph_prompt.errors import Reason, RequestError
from trustgraph_prompt.worker.canary.compare import QUANTITIES, Observed, Rate, Ratio, ratio
from trustgraph_prompt.worker.canary.record import Canary
from trustgraph_prompt.worker.config.source import VERSION_CHARACTERS
from trustgraph_prompt.worker.messages.answer_record import Answer

if TYPE_CHECKING:
    from trustgraph_prompt.broker import Reader
    from trustgraph_prompt.cli.broker_view import BrokerView

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
        answers = self.answers
        served = [answer for answer in answers if answer.canary is None]
        canary = [answer for answer in answers if answer.canary is not None]
        ratios = {name: ratio(name, served, canary) for name in QUANTITIES}
        return {
            "prompt": self.id,
            "workspace": self.workspace,
            "id": self.canary.id,
            "share": self.canary.share,
            "by": self.canary.by,
            "began": output.time(self.began),
            "since": output.time(self.since),
            "served": _summary(served),
            "canary": _summary(canary),
            "ratios": {name: found and asdict(found) for name, found in ratios.items()},
        }

    def table(self) -> Iterator[str]:
        """The lines of the comparison, for people."""
        facts = self.facts()
        sides = facts["served"], facts["canary"]
        by = f" by {self.canary.by}" if self.canary.by else ""
        yield (
            f"{self.id} in workspace {self.workspace}: a canary for {100 * self.canary.share:g} % of the "
            f"requests, begun {facts['began']}{by}; answers since {facts['since']}"
        )
        yield _row("", "served", "canary", "canary / served")
        yield _row(
            "version", *(", ".join(v[:VERSION_CHARACTERS] for v in side["versions"]) or "-" for side in sides)
        )
        yield _row("answers", *(f"{side['answers']:,}" for side in sides))
        for name, title in _TITLES.items():
            rates = [side["rates"][name] for side in sides]
            if rates != [None, None]:
                found = facts["ratios"][name]
                yield _row(
                    title, *(_shown(name, rate) for rate in rates), str(Ratio(**found)) if found else ""
                )
            if name in ("refused", "failed"):
                reasons = [Counter(side[name]) for side in sides]
                for reason, _ in (reasons[0] + reasons[1]).most_common():
                    yield _row(f"  {reason}", *(f"{counts[reason]:,}" for counts in reasons))


def _summary(answers: list[Observed]) -> dict[str, Any]:
    """The answers of one version."""
    rates = {name: Rate.of(name, answers) for name in QUANTITIES}
    refused: Counter[str] = Counter()
    for answer in answers:
        refused.update(answer.refused)
    return {
        "answers": len(answers),
        "cached": sum(answer.cached for answer in answers),
        "versions": Counter(answer.version for answer in answers),
        "objects": sum(answer.objects for answer in answers),
        "refused": refused,
        "failed": Counter(answer.reason for answer in answers if answer.reason != Reason.SUCCESS),
        "rates": {name: rate and rate.value for name, rate in rates.items()},
    }


def _shown(name: str, rate: float | None) -> str:
    if rate is None:
        return "-"
    return f"{100 * rate:.1f} %" if name in _SHARES else f"{rate:,.4g}"


def _row(title: str, *cells: str) -> str:
    """A line with the values of both versions, and possibly their ratio."""
    values = "".join(f"{cell:>16}" for cell in cells[:2])
    return "   ".join([f"  {title:26}{values}", *cells[2:]]).rstrip()
