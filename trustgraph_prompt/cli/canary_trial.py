"""The trial of a canary: its answers beside those of the served version, what follows, and its end."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum, auto
from typing import Any, TypeVar

import typer

from trustgraph_prompt.broker import Broker, Reader
from trustgraph_prompt.cli import output
from trustgraph_prompt.cli.broker_options import WorkspaceOptions, author
from trustgraph_prompt.cli.broker_view import BrokerView
from trustgraph_prompt.errors import ConfigError, Reason, RequestError
from trustgraph_prompt.prompts.prompt_set import PREFIX, SYSTEM_KEY
from trustgraph_prompt.worker.canary.compare import QUANTITIES, Look, Observed, Rate, Ratio, ratio
from trustgraph_prompt.worker.canary.record import CANARY, Canary
from trustgraph_prompt.worker.config import config_topic, history
from trustgraph_prompt.worker.config.source import VERSION_CHARACTERS
from trustgraph_prompt.worker.config.versions import Read
from trustgraph_prompt.worker.messages.answer_record import Answer

T = TypeVar("T")

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


class Move(Enum):
    """What follows from what a trial has shown so far."""

    WAIT = auto()
    START_OVER = auto()  # with the answers since the served version changed
    GIVE_UP = auto()  # another client has ended or replaced the canary
    FINISH = auto()  # a promotion by a process that died before it ended the canary
    ABORT = auto()
    PROMOTE = auto()


def next_move(trial: Trial, now: Trial | None, seen: Sequence[Look], looks_in_all: int) -> Move:
    """Return what follows, where `now` is the trial as the topics have it, and `seen` what the rules saw."""
    if now is None or now.canary.id != trial.canary.id:
        return Move.GIVE_UP
    if now.promoted:
        return Move.FINISH
    if now.since != trial.since:
        return Move.START_OVER
    if seen and seen[-1].fired:
        return Move.ABORT
    return Move.PROMOTE if len(seen) == looks_in_all else Move.WAIT


async def carry_out(
    move: Move,
    broker: Broker,
    at: WorkspaceOptions,
    trial: Trial,
    now: Trial | None,
    seen: Sequence[Look],
    by: str | None,
) -> bool:
    """Make the last move, and say why; return whether the canary is promoted."""
    if move is Move.GIVE_UP:
        output.note(f"the canary of {trial.id} has been {'replaced' if now else 'ended'} by another client")
        return False
    if move is Move.ABORT:
        answers = output.counted(seen[-1].answers, "answer")
        typer.echo(f"aborted: {seen[-1].fired}, after {answers} of the canary")
        await _end(broker, at, trial.id)
        return False
    if move is Move.PROMOTE:
        answers = output.counted(seen[-1].answers, "answer")
        typer.echo(f"promoted: no rule has fired after {answers} of the canary")
    await _promote(broker, now or trial, at, by)
    return True


def print_look(look: Look) -> None:
    """Print what the rules saw after so many answers."""
    found = "; ".join(
        f"{rule}: {'too few events to tell' if ratio is None else ratio}"
        for rule, ratio in look.ratios.items()
    )
    percent = f"{100 * look.confidence:.3g} %"
    answers = output.counted(look.answers, "answer")
    typer.echo(f"after {answers} of the canary ({percent} intervals): {found}")
    sys.stdout.flush()


async def trials_of(read: Read, at: WorkspaceOptions) -> dict[str, Trial]:
    """Return the trials of a workspace by prompt, without their answers; note records that are not valid."""
    records = await read(at.topic + CANARY, at.workspace)
    served = await read(at.topic, at.workspace)
    trials: dict[str, Trial] = {}
    for key, record in sorted(records.items()):
        try:
            canary = Canary.decode(record.data)
        except ConfigError as error:
            output.note(f"warning: ignored {error.at(record.key or '')}")
            continue
        changed = [record, *(served[each] for each in (key, SYSTEM_KEY) if each in served)]
        since = max(message.published for message in changed)
        promoted = key in served and served[key].data == canary.entry.encode()
        id = key.removeprefix(PREFIX)
        trials[id] = Trial(at.workspace, id, canary, record.published, since, promoted)
    return trials


async def promote(broker: Broker, at: WorkspaceOptions, id: str, by: str | None) -> None:
    """Promote the canary of a prompt. Raises `ConfigError` if it has none."""
    trials = await trials_of(
        lambda topic, workspace: config_topic.messages(broker, workspace, topic=topic), at
    )
    await _promote(broker, chosen(trials, at.workspace, id), at, by)


async def abort(broker: Broker, at: WorkspaceOptions, id: str) -> None:
    """End the canary of a prompt, also one whose record is not valid. Raises `ConfigError` if it has none."""
    there = await config_topic.entries(broker, at.workspace, topic=at.topic + CANARY)
    chosen({key.removeprefix(PREFIX): canary for key, canary in there.items()}, at.workspace, id)
    await _end(broker, at, id)


async def _promote(broker: Broker, trial: Trial, at: WorkspaceOptions, by: str | None) -> None:
    """Publish the entry of a canary, unless that was done, then end the canary."""
    if not trial.promoted:
        entries = {PREFIX + trial.id: trial.canary.entry}
        who = author(by, trial.canary.why or "promoted a canary")
        await history.push(broker, at.workspace, entries, who, topic=at.topic)
    typer.echo(f"promoted {trial.id} in workspace {at.workspace}")
    await _end(broker, at, trial.id)


async def _end(broker: Broker, at: WorkspaceOptions, id: str) -> None:
    await config_topic.push(broker, at.workspace, {PREFIX + id: ""}, topic=at.topic + CANARY)
    typer.echo(f"ended the canary of {id} in workspace {at.workspace}")


def chosen(trials: Mapping[str, T], workspace: str, id: str) -> T:
    """Return the one of a prompt. Raises `ConfigError` if it has none."""
    if id not in trials:
        raise ConfigError(
            f"no prompt of workspace {workspace} with this id has a canary",
            where="ID",
            found=id,
            expected="a prompt that `config canary status` lists",
        )
    return trials[id]
