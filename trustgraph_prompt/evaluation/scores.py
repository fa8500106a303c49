"""The answers of one version of a prompt, scored text by text, and what two versions do differently."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from trustgraph_prompt.cost import Price, Usage
from trustgraph_prompt.errors import Reason
from trustgraph_prompt.evaluation.gold import FEWEST, GoldQuestion
from trustgraph_prompt.evaluation.matching import Matching, differences, match
from trustgraph_prompt.evaluation.measures import Counts, Measure, compared, measured
from trustgraph_prompt.extraction.results import Result
from trustgraph_prompt.outcome import Stage
from trustgraph_prompt.prompts.gold_file import GoldText
from trustgraph_prompt.prompts.match_clause import MatchClause
from trustgraph_prompt.worker.messages.answer_record import UNSERVED, Answer

_REPAIRED = frozenset(stage.name.lower() for stage in (Stage.REPAIRED, Stage.SALVAGED))


class Mistake(NamedTuple):
    """An expected object and the one that came, None where there is none; `keys` have other values."""

    what: str
    expected: Any
    came: Any
    keys: Sequence[str] = ()


@dataclass(frozen=True)
class TextScore:
    """The objects that came of a text, matched with those that should."""

    text: GoldText
    found: tuple[Any, ...]
    matching: Matching

    @property
    def counts(self) -> tuple[int, int, int]:
        """The objects that match, the expected ones and the found ones."""
        return len(self.matching.matched), len(self.text.objects), len(self.found)

    @property
    def f1(self) -> float:
        """The F1 of this text; 1 if nothing should come, and nothing came."""
        right, expected, found = self.counts
        return 2 * right / (expected + found) if expected or found else 1.0

    def mistakes(self, clause: MatchClause) -> Iterator[Mistake]:
        """What is wrong. Objects that are right may have other values in keys they are not matched by."""
        expected, found = self.text.objects, self.found
        for one, other in self.matching.near:
            yield Mistake("different", expected[one], found[other])
        for one in self.matching.missing:
            yield Mistake("missing", expected[one], None)
        for other in self.matching.unexpected:
            yield Mistake("too many", None, found[other])
        for one, other in self.matching.matched:
            if keys := differences(expected[one], found[other], clause):
                yield Mistake("right", expected[one], found[other], keys)

    @property
    def unexpected(self) -> list[Any]:
        """The objects that should not have come."""
        right = {found for _, found in self.matching.matched}
        return [value for index, value in enumerate(self.found) if index not in right]


@dataclass(frozen=True)
class Evaluation:
    """One version of a prompt on gold texts.

    `failed` has the reason for each text without an answer. Of one that the model refuses, nothing came.
    """

    version: str
    model: str
    clause: MatchClause
    scores: Sequence[TextScore]
    answers: Sequence[Answer]
    failed: Sequence[tuple[GoldText, str]]

    @classmethod
    def of(
        cls,
        version: str,
        model: str,
        clause: MatchClause,
        results: Sequence[Result[GoldQuestion]],
        as_asked: Callable[[Any], Any] = lambda value: value,
    ) -> Self:
        """Score the results of one prompt, in the order of the texts.

        `as_asked` makes of an object of an answer what the prompt asks for, with which it is compared.
        """
        scores: list[TextScore] = []
        failed: list[tuple[GoldText, str]] = []
        for result in sorted(results, key=lambda result: result.job.position):
            text = result.job.text
            if is_unanswered(result):
                failed.append((text, result.failure or "no answer"))
                continue
            found = tuple(map(as_asked, _found(result)))
            scores.append(TextScore(text, found, match(text.objects, found, clause)))
        answers = {result.job.id: result.answer for result in results if not is_unanswered(result)}
        return cls(version, model, clause, scores, [each for each in answers.values() if each], failed)

    @cached_property
    def counts(self) -> Counts:
        """A row for each scored text."""
        return np.array([score.counts for score in self.scores], np.int64).reshape(-1, 3)

    @cached_property
    def measures(self) -> dict[str, Measure]:
        """Precision, recall and F1; empty if nothing is scored."""
        return measured(self.counts) if self.scores else {}

    def spent(self, price: Price | None) -> dict[str, float | None]:
        """What the answers took, and what became of them; `money` only with a price, in its currency."""
        usage = Usage.sum(Usage(**answer.usage) for answer in self.answers)
        return {
            "answers": len(self.answers),
            "refused_objects": sum(answer.rejected_count for answer in self.answers),
            "repaired": sum(answer.stage in _REPAIRED for answer in self.answers),
            "truncated": sum(answer.truncated is True for answer in self.answers),
            "completed": sum(answer.completed for answer in self.answers),
            "calls": sum(len(answer.calls) for answer in self.answers),
            "tokens_in": usage.prompt_tokens,
            "tokens_out": usage.completion_tokens,
            "money": None if price is None else price.of(usage),
            "seconds": sum(answer.seconds or 0 for answer in self.answers),
        }


def _found(result: Result[GoldQuestion]) -> tuple[Any, ...]:
    """The objects of a jsonl answer; else the value, or the elements of its list, of any type."""
    value = None if result.answer is None else result.answer.value
    if value is None:
        return tuple(each.value for each in result.objects)
    return tuple(value) if isinstance(value, list) else (value,)


def is_unanswered(result: Result[GoldQuestion]) -> bool:
    """Whether there is nothing to score. A refusal is an answer: the model finds nothing."""
    return result.answer is None or result.answer.reason in UNSERVED - {Reason.REFUSED}


class ObjectChange(NamedTuple):
    """An object about which two versions disagree: `what` became of it in the new one."""

    text: str
    what: str
    object: Any


Verdict = Literal["too few texts", "noise", "better", "worse"]


class Comparison(NamedTuple):
    """By how much a version differs from another on the `texts` that both answered."""

    texts: int
    differences: dict[str, Measure]
    changes: Sequence[ObjectChange]

    @property
    def verdict(self) -> Verdict:
        """Whether the F1 differs by more than noise."""
        if self.texts < FEWEST:
            return "too few texts"
        f1 = self.differences["f1"]
        if f1.low is None or f1.high is None or f1.low <= 0 <= f1.high:
            return "noise"
        return "better" if f1.value > 0 else "worse"

    @classmethod
    def of(cls, new: Evaluation, old: Evaluation) -> Self:
        """Compare two versions."""
        before = {score.text.where: score for score in old.scores}
        pairs = [(score, before[score.text.where]) for score in new.scores if score.text.where in before]
        changes = [change for pair in pairs for change in _changes(*pair, new.clause)]
        if not pairs:
            return cls(0, {}, changes)
        counts = (np.array([score.counts for score in side], np.int64) for side in zip(*pairs, strict=True))
        return cls(len(pairs), compared(*counts), changes)


def _changes(new: TextScore, old: TextScore, clause: MatchClause) -> Iterator[ObjectChange]:
    now, before = ({expected for expected, _ in score.matching.matched} for score in (new, old))
    for index, value in enumerate(new.text.objects):
        if index in now ^ before:
            yield ObjectChange(new.text.name, "found" if index in now else "missing", value)
    wrong, wrong_before = new.unexpected, old.unexpected
    same = match(wrong, wrong_before, clause).matched
    for what, values, kept in (
        ("too many", wrong, {index for index, _ in same}),
        ("no longer too many", wrong_before, {index for _, index in same}),
    ):
        yield from (
            ObjectChange(new.text.name, what, value)
            for index, value in enumerate(values)
            if index not in kept
        )
