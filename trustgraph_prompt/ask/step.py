"""One step of an asking: what is put to the model, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import Issue, ProviderError, Reason
from trustgraph_prompt.json_text.grammar import before_half_escape
from trustgraph_prompt.llm import Message, RuntimeConfig
from trustgraph_prompt.reader import CallReport, Outcome, Rejected, Stage

#: Why a step is another attempt at an answer that was no good.
ATTEMPTS = ("invalid", "repair")

#: What is wrong with an answer that says what was asked for, perhaps, and is not written as it should be.
_FORM = frozenset(
    {
        Reason.INVALID_JSON,
        Reason.EXTRACTION_FAILED,
        Reason.AMBIGUOUS,
        Reason.REPAIR_FAILED,
        Reason.WRONG_CONTAINER,
        Reason.SCHEMA_MISSING_FIELD,
        Reason.SCHEMA_EXTRA_FIELD,
        Reason.SCHEMA_TYPE_ERROR,
        Reason.SCHEMA_VALUE_ERROR,
    }
)

#: What is said of a text in which the value, or the first object, has not ended yet.
_UNFINISHED = frozenset(
    {Reason.EMPTY, Reason.TRUNCATED, Reason.EXTRACTION_FAILED, Reason.REPAIR_FAILED, Reason.SUCCESS}
)


@dataclass(frozen=True, slots=True)
class Step:
    """What is put to the model, and `why` (see `CallReport`).

    `begun` is the text that the answer goes on from. `refused` are the objects that are asked for again,
    alone. With room for no more than `more_than` tokens it would be the same call again, and is not put.
    `schema_in_words`: the model is told the schema, where its server does not hold it to that.
    """

    why: str
    conversation: Sequence[Message]
    config: RuntimeConfig
    begun: str = ""
    refused: tuple[Rejected, ...] = ()
    more_than: int = 0
    schema_in_words: bool = False

    @property
    def messages(self) -> Sequence[Message]:
        """All that is said, the beginning of the answer included."""
        return [*self.conversation, Message("assistant", self.begun)] if self.begun else self.conversation


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of a step that brought some text, or ended by itself.

    `text` is the answer so far, with what the step went on from; `outcome` is what that says. `broken` is why
    the call did not end by itself. `filled` says that the answer took all the room the prompt gives it.
    """

    step: Step
    outcome: Outcome
    report: CallReport
    text: str
    broken: ProviderError | None = None
    filled: bool = False

    @property
    def is_cut(self) -> bool:
        """Whether there was more to come; the text decides where the wire does not say, or of one value."""
        ended, said = self.report.finish_reason, self.outcome
        if said.contract.format == "json" and said.truncated is not None:
            return said.truncated and ended != "content_filter"
        if ended is None:
            return self.broken is not None or said.truncated is True
        return ended in ("length", "error")

    @property
    def is_lost(self) -> bool:
        """Whether it broke in a way that does not pass."""
        return self.broken is not None and not self.broken.transient

    @property
    def failure(self) -> ProviderError | None:
        """The error that ended it for good, where it brought nothing to keep."""
        said = self.outcome
        brought = said.ok or said.value or said.rejected or said.retracted
        return self.broken if self.is_lost and not brought else None

    @property
    def is_refusal(self) -> bool:
        """Whether the model, or a filter, would not answer; a refusal reads well as a text."""
        usable = self.outcome.ok and self.outcome.contract.format != "text"
        return self.report.finish_reason == "content_filter" and not usable

    @property
    def is_beyond_effort(self) -> bool:
        """Whether it takes more to judge it than its contract allows, as it would again."""
        return any(issue.reason is Reason.EFFORT_SPENT for issue in self.outcome.issues)

    @property
    def is_whole(self) -> bool:
        """Whether there is a value with nothing missing; a number under a cut may be half of another."""
        if not self.outcome.ok or self.outcome.stage is Stage.SALVAGED:
            return False
        closed = isinstance(self.outcome.value, (dict, list, str))
        return not self.is_cut or (self.outcome.contract.format == "json" and closed)

    @property
    def is_unfinished(self) -> bool:
        """Whether it was cut before anything that was asked for had ended."""
        said = self.outcome
        if said.contract.format == "jsonl" and (said.value or said.rejected or said.retracted):
            return False
        return self.is_cut and not self.is_whole and said.reason in _UNFINISHED

    @property
    def is_malformed(self) -> bool:
        """Whether it is whole, and refused for nothing but its form."""
        said = self.outcome
        refused = [issue for rejected in said.rejected for issue in rejected.issues]
        return not self.is_cut and said.reason in _FORM and is_about_form([*said.issues, *refused])

    @property
    def beginning(self) -> str:
        """What the same answer may go on from."""
        return self.text if self.outcome.contract.format == "text" else before_half_escape(self.text)

    @property
    def may_go_on(self) -> bool:
        """Whether going on may help: not where that brought nothing, or words before any object even then."""
        begun = self.beginning
        if not self.step.begun:
            return bool(begun.strip())
        has_begun = "{" in begun or "[" in begun or not _has_brackets(self.outcome.contract)
        return has_begun and begun != self.step.begun


def is_about_form(issues: Iterable[Issue]) -> bool:
    """Whether all that is wrong is how something is written."""
    return all(issue.reason in _FORM for issue in issues)


def _has_brackets(contract: Contract) -> bool:
    """Whether every value that is asked for is an object or an array."""
    if contract.format == "json" and not contract.many:
        return isinstance(contract.schema, dict) and contract.schema.get("type") in ("object", "array")
    return contract.format != "text"
