"""Collects what the calls of a pass bring, objects, rejected objects and text, and merges it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

from trustgraph_prompt.ask.repetition import repeats_objects, repeats_text
from trustgraph_prompt.ask.step import ATTEMPTS, Reply
from trustgraph_prompt.contract import Grounding
from trustgraph_prompt.errors import Issue, ProviderError, Reason
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.reader import CallReport, Outcome, Rejected, Repaired, Stage


def still_rejected(reply: Reply, is_new: Callable[[Any], bool]) -> list[Rejected]:
    """The objects that were to be corrected and were not, as far as that is known.

    The model is asked to keep the order. If as many objects come as were to be corrected, with or without
    those that were there already, each replaces one: a valid object corrects it, a rejected one takes its
    index. Otherwise they cannot be matched, and all remain.
    """
    requested = reply.step.rejected
    for came in (_in_order(reply.outcome), _in_order(reply.outcome, is_new)):
        if len(came) == len(requested):
            return [
                old if new.raw == old.raw else replace(new, index=old.index)
                for old, new in zip(requested, came, strict=True)
                if new is not None
            ]
    return list(requested)


def _in_order(outcome: Outcome, counts: Callable[[Any], bool] = lambda value: True) -> list[Rejected | None]:
    """The objects of an answer in their order: the rejected ones, None for each valid one that `counts`."""
    refused = {rejected.index: rejected for rejected in outcome.rejected}
    valid = iter(outcome.value)
    came: list[Rejected | None] = []
    for index in range(len(outcome.value) + len(refused)):
        if index in refused:
            came.append(refused[index])
        elif counts(next(valid)):
            came.append(None)
    return came


_SPACE = re.compile(r"\s|\\[nrt]")


def _loosely(identity: bytes) -> bytes:
    """A key of a value that case and white space do not change."""
    return _SPACE.sub("", identity.decode().casefold()).encode()


def _next_index(outcome: Outcome) -> int:
    """The first index that no object of an outcome has."""
    rejected = outcome.rejected
    return max(len(outcome.value) + len(rejected), *(one.index + 1 for one in rejected), 0)


#: Continuations of truncated answers, whatever the budget, so that a model that invents objects without end
#: is stopped.
MOST_CONTINUATIONS = 50


class Collected:
    """Collects objects from all calls, and a single value from the best one.

    `calls` are all that were made. `last` is the reply to the last step that did not correct objects.

    Of objects that differ only in their quotes, the first one stays. `earlier` is the outcome of the passes
    before. What it has is not collected again, and neither are objects that differ from its own only in case
    or white space: the model was asked for what is missing, and another spelling is not.
    """

    def __init__(self, prompt: PromptDefinition, earlier: Outcome | None = None) -> None:
        self._prompt = prompt
        self.contract = prompt.contract
        self.calls: list[CallReport] = []
        self.objects: list[Any] = []
        self._grounding: list[Mapping[str, Grounding | None]] = []  # of each object
        self.rejected: list[Rejected] = []
        self._repaired: list[Repaired] = []
        self._retracted: list[Any] = []
        self._stage: Stage | None = None  # the worst of the calls that brought objects
        self._dead_end: str | None = None  # why the rest of a truncated answer cannot be had
        self.is_over = False  # whether further calls would be pointless
        self.broken: ProviderError | None = None  # why the last call did not end by itself
        self._last: Reply | None = None
        self._salvaged: Reply | None = None
        self._key = self.contract.identity if earlier is None else self._loose_key
        self._keys = set() if earlier is None else set(map(self._key, earlier.value))
        self._rejected_before = set() if earlier is None else {rejected.raw for rejected in earlier.rejected}
        self._keyed = 0  # how many objects have their keys in `_keys`
        self._fresh = 0  # how many objects of the last call are new
        self._continuations = 0
        self._start = self._seen = 0 if earlier is None else _next_index(earlier)

    @property
    def last(self) -> Reply:
        """The last reply; there must be one."""
        assert self._last is not None
        return self._last

    @property
    def _best(self) -> Reply:
        """The reply that the value is taken from: a salvaged one only if none is complete."""
        return self.last if self._salvaged is None or self.last.is_complete else self._salvaged

    @property
    def has_objects(self) -> bool:
        """Whether there are objects, of this pass or of those before."""
        return bool(self.objects or self._keys)

    @property
    def has_all(self) -> bool:
        """Whether there is what was asked for, as far as that can be known of text or objects."""
        if self.contract.format == "json":
            return self.last.is_complete
        return self.has_objects or self.last.outcome.ok

    @property
    def is_escalated(self) -> bool:
        """Whether the last answer meets the escalation condition of the prompt."""
        condition, outcome = self._prompt.escalation, self.last.outcome
        is_string = outcome.ok and isinstance(outcome.value, str)
        text = outcome.value if is_string else self.last.text
        return condition is not None and condition.holds(text, cut=self.last.is_truncated)

    @property
    def has_fresh_objects(self) -> bool:
        """Whether the last answer brought objects that no earlier one did."""
        return self._fresh > 0

    def new(self, values: Iterable[Any]) -> list[Any]:
        """The objects that no earlier call brought."""
        return [value for value in values if self.is_new(value)] if self.has_objects else list(values)

    def is_new(self, value: Any) -> bool:
        """Whether no earlier call brought an equal object."""
        return self._key(value) not in self._known()

    def add(self, reply: Reply) -> None:
        """Add a reply.

        Raises its error if it failed for good without an answer, and there was an answer before.
        """
        if reply.failure is not None and self._last is not None:
            raise reply.failure
        self.broken = reply.broken
        if reply.step.rejected:
            self._replace_rejected(reply)
            return
        discarded: list[Rejected] = []
        if reply.step.why in ATTEMPTS:
            # they explain the lack of objects if this attempt brings none either
            discarded, self.rejected = self.rejected, []
            self._repaired.clear()
            self._seen = self._start
        self._last = reply
        if self.contract.format == "json" and reply.outcome.ok and not reply.is_complete:
            is_longest = self._salvaged is None or len(reply.text) > len(self._salvaged.text)
            self._salvaged = reply if is_longest else self._salvaged
        is_repetition = reply.is_truncated and self._is_repetition(reply)  # before its objects are known
        if self.contract.format == "jsonl":
            known = self._rejected_before.union(rejected.raw for rejected in self.rejected)
            self.rejected += [
                replace(rejected, index=rejected.index + self._seen)
                for rejected in reply.outcome.rejected
                if rejected.raw not in known
            ]
            self._fresh = self._add_objects(reply)
            self.rejected = self.rejected or ([] if self.objects else discarded)
        self._find_dead_end(reply, is_repetition)

    def outcome(self, end: Issue | None = None, cause: ProviderError | None = None) -> Outcome:
        """Merge the calls. `end` says what ended the loop early: the budget, or an error (`cause`)."""
        ends, calls = () if end is None else (end,), tuple(self.calls)
        is_jsonl = self.contract.format == "jsonl"
        if self._last is None:
            reason = end.reason if end else Reason.EMPTY
            value = self.objects if is_jsonl else None
            return Outcome(value, reason, self.contract.without_terms, issues=ends, calls=calls, cause=cause)
        best = self._best.outcome
        merged: dict[str, Any] = {}
        if is_jsonl:
            merged = {
                "value": self.objects,
                "stage": best.stage if self._stage is None else self._stage,
                "rejected": tuple(sorted(self.rejected, key=lambda rejected: rejected.index)),
                "repaired": tuple(self._repaired),
                "retracted": tuple(self._retracted),
                "grounding": None if best.grounding is None else tuple(self._grounding),
            }
        # those of a continuation that brought no object do not concern the objects of earlier calls
        issues = best.issues if best.ok or not self.has_objects else ()
        if self._dead_end is not None:
            issues += (Issue(Reason.TRUNCATED, self._dead_end),)
        reason = self._reason(end if cause else None, cause)
        return replace(
            best,
            reason=reason,
            issues=issues + ends,
            truncated=self._is_truncated(),
            calls=calls,
            cause=cause or self.last.broken,
            escalated=self._escalated(reason, end),
            **merged,
        )

    def _reason(self, end: Issue | None, cause: ProviderError | None) -> Reason:
        """The reason of the last answer, even if a later call failed; that of the failure if there is none.

        A transient failure takes precedence over an invalid answer: the same question may be answered later.
        """
        best = self._best
        if self.objects:
            return Reason.SUCCESS
        if best.is_refusal:
            return Reason.REFUSED
        if best.outcome.ok:
            return Reason.SUCCESS
        failure = Reason.PROVIDER_ERROR if end is None else end.reason
        error = cause or best.broken
        is_transient = error is not None and error.transient and failure is Reason.PROVIDER_ERROR
        no_answer = best.broken is not None and not best.outcome.rejected
        return failure if is_transient or no_answer else best.outcome.reason

    def _escalated(self, reason: Reason, end: Issue | None) -> Literal["condition", "attempts"] | None:
        """Why the outcome is escalated.

        The reason is "attempts" where a prompt has several, or an escalation condition, and the loop came to
        its regular end without a usable answer.
        """
        if self.is_escalated:
            return "condition"
        is_watched = self._prompt.attempts > 1 or self._prompt.escalation is not None
        in_vain = reason not in (Reason.SUCCESS, Reason.PROVIDER_ERROR) and end is None
        return "attempts" if is_watched and in_vain else None

    def _is_truncated(self) -> bool | None:
        """Whether the end is missing; None where neither finish reason nor text tells."""
        best = self._best
        if best.is_truncated and not best.is_complete:
            return True
        if self.objects and best.outcome.reason is Reason.EXTRACTION_FAILED:
            return None  # the continuation had no JSON, which may mean that nothing was left
        return best.outcome.truncated

    def _find_dead_end(self, reply: Reply, is_repetition: bool) -> None:
        """Note why the rest cannot be had, and whether further calls would be pointless."""
        self._continuations += reply.step.why == "continue"
        capped = self._continuations >= MOST_CONTINUATIONS
        self._dead_end = None
        if not reply.is_truncated or (self.contract.format == "json" and reply.is_complete):
            self.is_over = reply.is_refusal or reply.exceeds_validation
            return
        if reply.has_failed_for_good and reply.broken is not None:
            self._dead_end = f"the answer was truncated by {reply.broken.category}: {reply.broken}"
        elif is_repetition:
            self._dead_end = "the answer was truncated, and only repeated itself"
        elif capped:
            self._dead_end = f"the answer was still truncated after {self._continuations} continuations"
        elif (self.objects and not self._fresh) or (reply.step.prefill and not reply.may_continue):
            self._dead_end = "the answer was truncated, and its continuation brought nothing new"
        self.is_over = reply.has_failed_for_good or is_repetition or capped or reply.exceeds_validation

    def _is_repetition(self, reply: Reply) -> bool:
        if reply.is_loop or repeats_text(reply.text, reply.report.text):
            return True
        if self.contract.format != "jsonl":
            return False
        return repeats_objects([self._key(value) for value in reply.outcome.value], self._known())

    def _add_objects(self, reply: Reply) -> int:
        """Add the new objects of a reply and return how many they are."""
        outcome = reply.outcome
        new = self.new(outcome.value)
        self._repaired += (replace(r, index=r.index + self._seen) for r in outcome.repaired)
        self._retracted += self.new(outcome.retracted)
        self.objects += new
        if outcome.grounding is not None:
            by_id = dict(zip(map(id, outcome.value), outcome.grounding, strict=True))
            self._grounding += (by_id[id(value)] for value in new)
        self._seen += len(outcome.value) + len(outcome.rejected)
        if outcome.ok:
            self._stage = outcome.stage if self._stage is None else max(self._stage, outcome.stage)
        return len(new)

    def _replace_rejected(self, reply: Reply) -> None:
        """Add the reply to a request to correct objects; there is no further one if it changed nothing."""
        requested = set(reply.step.rejected)
        remaining = still_rejected(reply, self.is_new)
        others = [rejected for rejected in self.rejected if rejected not in requested]
        fresh = self._add_objects(reply)
        in_vain = not fresh and {r.raw for r in remaining} == {r.raw for r in requested}
        stuck = in_vain and reply.step.why != "repair"  # after which the question itself may still help
        self.is_over = stuck or reply.is_loop or reply.has_failed_for_good or reply.is_refusal
        self.rejected = others + remaining  # so that the next attempt begins with the others

    def _loose_key(self, value: Any) -> bytes:
        return _loosely(self.contract.identity(value))

    def _known(self) -> set[bytes]:
        """The keys of all objects so far, computed when needed: most answers come in one call."""
        self._keys.update(map(self._key, self.objects[self._keyed :]))
        self._keyed = len(self.objects)
        return self._keys
