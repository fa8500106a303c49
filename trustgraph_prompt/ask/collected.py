"""Collects what the calls of a request have brought: objects, refused objects, text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from trustgraph_prompt.ask.repetition import repeats_objects, repeats_text
from trustgraph_prompt.ask.step import ATTEMPTS, Reply
from trustgraph_prompt.contract import Grounding
from trustgraph_prompt.errors import ProviderError
from trustgraph_prompt.json_text.encoding import canonical
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.reader import CallReport, Outcome, Rejected, Repaired, Stage


def still_refused(reply: Reply, is_new: Callable[[Any], bool]) -> list[Rejected]:
    """Those that were asked for and have not been put right, as far as that is known.

    The model is asked to keep the order, so where as many come as were asked for, each takes the place of
    one: a valid one puts it right, a refused one stands for it. So it is where they are as many without the
    objects that were there already. Otherwise nobody knows which were put right, and all remain.
    """
    asked = reply.step.refused
    for came in (_in_order(reply.outcome), _in_order(reply.outcome, is_new)):
        if len(came) == len(asked):
            pairs = zip(asked, came, strict=True)
            return [_instead_of(old, new) for old, new in pairs if new is not None]
    return list(asked)


def _in_order(outcome: Outcome, counts: Callable[[Any], bool] = lambda value: True) -> list[Rejected | None]:
    """The objects of an answer in its order: the refused ones, None for each valid one that `counts`."""
    refused = {rejected.index: rejected for rejected in outcome.rejected}
    valid = iter(outcome.value)
    came: list[Rejected | None] = []
    for index in range(len(outcome.value) + len(refused)):
        if index in refused:
            came.append(refused[index])
        elif counts(next(valid)):
            came.append(None)
    return came


def _instead_of(old: Rejected, new: Rejected) -> Rejected:
    return old if new.raw == old.raw else replace(new, index=old.index)


#: Calls that go on with cut answers at most, whatever the budget: a model that invents new objects without
#: end must end somewhere.
MOST_CONTINUATIONS = 50


class Collected:
    """Collects what calls bring: objects from all of them, the one value of another answer from the best.

    `calls` are all that were made. `last` is what the last step brought that was not about refused objects.
    """

    def __init__(self, prompt: PromptDefinition) -> None:
        self.prompt = prompt
        self.contract = prompt.contract
        self.calls: list[CallReport] = []
        self.objects: list[Any] = []
        self.grounding: list[Mapping[str, Grounding | None]] = []  # of each object, where that is looked for
        self.rejected: list[Rejected] = []
        self.repaired: list[Repaired] = []
        self.retracted: list[Any] = []
        self.stage: Stage | None = None  # of what brought objects
        self.dead_end: str | None = None  # why the rest of a cut answer is not to be had, in words
        self.is_over = False  # whether asking for anything more would be paid for nothing
        self.broken: ProviderError | None = None  # why the last call did not end by itself
        self._last: Reply | None = None
        self._salvaged: Reply | None = None
        self._keys: set[bytes] = set()
        self._keyed = 0  # how many objects have their keys there
        self._fresh = 0  # objects of the last call that no earlier one brought
        self._continuations = 0
        self._seen = 0

    @property
    def is_empty(self) -> bool:
        """Whether no step brought anything."""
        return self._last is None

    @property
    def last(self) -> Reply:
        """What the last step brought. There has to be one."""
        assert self._last is not None
        return self._last

    @property
    def best(self) -> Reply:
        """What the value is taken from: a cut value that was closed up, only where none came whole."""
        return self.last if self._salvaged is None or self.last.is_whole else self._salvaged

    @property
    def has_all(self) -> bool:
        """Whether there is what was asked for, or as much of it as a text or objects ever have."""
        if self.contract.format == "json":
            return self.last.is_whole
        return bool(self.objects) or self.last.outcome.ok

    @property
    def is_escalated(self) -> bool:
        """Whether the last answer is one that the prompt wants somebody else to deal with."""
        condition, outcome = self.prompt.escalation, self.last.outcome
        is_string = outcome.ok and isinstance(outcome.value, str)
        said = outcome.value if is_string else self.last.text
        return condition is not None and condition.holds(said, cut=self.last.is_cut)

    @property
    def may_have_more_objects(self) -> bool:
        """Whether the last call was cut and brought objects that are new."""
        return self.last.is_cut and self._fresh > 0

    def new(self, values: Iterable[Any]) -> list[Any]:
        """Those of the objects that no earlier call brought."""
        return [value for value in values if self.is_new(value)] if self.objects else list(values)

    def is_new(self, value: Any) -> bool:
        """Whether no earlier call brought the same object."""
        return canonical(value) not in self._known()

    def add(self, reply: Reply) -> None:
        """Take in what a step brought.

        Raises its error where there was an answer before, and it failed for good without bringing another.
        """
        if reply.failure is not None and not self.is_empty:
            raise reply.failure
        self.broken = reply.broken
        if reply.step.refused:
            self._put_right(reply)
            return
        forgotten = self._forget_the_attempt() if reply.step.why in ATTEMPTS else []
        self._last = reply
        if self.contract.format == "json":
            self._keep_the_salvaged(reply)
        goes_round = reply.is_cut and self._goes_round(reply)  # before its objects are among the known
        if self.contract.format == "jsonl":
            twice = {rejected.raw for rejected in self.rejected}
            self.rejected += [
                replace(rejected, index=rejected.index + self._seen)
                for rejected in reply.outcome.rejected
                if rejected.raw not in twice
            ]
            self._fresh = self._take_in(reply)
            self.rejected = self.rejected or ([] if self.objects else forgotten)
        self._look_ahead(reply, goes_round)

    def _look_ahead(self, reply: Reply, goes_round: bool) -> None:
        """Whether there is a way on from here."""
        self._continuations += reply.step.why == "continue"
        capped = self._continuations >= MOST_CONTINUATIONS
        self.dead_end = None
        if not reply.is_cut or (self.contract.format == "json" and reply.is_whole):
            self.is_over = reply.is_refusal or reply.is_beyond_effort
            return
        if reply.is_lost and reply.broken is not None:
            self.dead_end = f"the answer was cut by {reply.broken.category}: {reply.broken}"
        elif goes_round:
            self.dead_end = "the answer was cut, and only repeated itself"
        elif capped:
            self.dead_end = f"the answer was still cut after {self._continuations} continuations"
        elif (self.objects and not self._fresh) or (reply.step.begun and not reply.may_go_on):
            self.dead_end = "the answer was cut, and going on brought nothing new"
        self.is_over = reply.is_lost or goes_round or capped or reply.is_beyond_effort

    def _goes_round(self, reply: Reply) -> bool:
        if repeats_text(reply.text, reply.report.text):
            return True
        if self.contract.format != "jsonl":
            return False
        return repeats_objects([canonical(value) for value in reply.outcome.value], self._known())

    def _take_in(self, reply: Reply) -> int:
        """Keep the objects of a call that no earlier one brought; how many they are."""
        said = reply.outcome
        new = self.new(said.value)
        self.repaired += (replace(r, index=r.index + self._seen) for r in said.repaired)
        self.retracted += self.new(said.retracted)
        self.objects += new
        if said.grounding is not None:
            of = dict(zip(map(id, said.value), said.grounding, strict=True))
            self.grounding += (of[id(value)] for value in new)
        self._seen += len(said.value) + len(said.rejected)
        if said.ok:
            self.stage = said.stage if self.stage is None else max(self.stage, said.stage)
        return len(new)

    def _put_right(self, reply: Reply) -> None:
        """Take in what came for objects that had been refused; it ends where nothing comes of it."""
        asked = set(reply.step.refused)
        remain = still_refused(reply, self.is_new)
        untouched = [rejected for rejected in self.rejected if rejected not in asked]
        fresh = self._take_in(reply)
        in_vain = not fresh and {r.raw for r in remain} == {r.raw for r in asked}
        stuck = in_vain and reply.step.why != "repair"  # which the question itself may still help
        self.is_over = stuck or reply.is_lost or reply.is_refusal
        # those that were asked for come last, so that the next attempt is about the others first
        self.rejected = untouched + remain

    def _keep_the_salvaged(self, reply: Reply) -> None:
        longest = -1 if self._salvaged is None else len(self._salvaged.text)
        if reply.outcome.ok and not reply.is_whole and len(reply.text) > longest:
            self._salvaged = reply

    def _known(self) -> set[bytes]:
        """The keys of all objects so far, made when first needed: most answers come in one call."""
        self._keys.update(map(canonical, self.objects[self._keyed :]))
        self._keyed = len(self.objects)
        return self._keys

    def _forget_the_attempt(self) -> list[Rejected]:
        """What it refused, which still says why there is nothing if the next attempt brings nothing."""
        refused, self.rejected = self.rejected, []
        self.repaired.clear()
        self._seen = 0
        return refused
