"""One step of `ask`: what is sent to the model, and the reply."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trustgraph_prompt.ask.messages import opening
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.contract.server_schema import server_schema
from trustgraph_prompt.errors import Issue, ProviderError, Reason
from trustgraph_prompt.json_text.grammar import before_half_escape
from trustgraph_prompt.llm import Call, Message, RuntimeConfig
from trustgraph_prompt.prompts import PromptDefinition, Question
from trustgraph_prompt.reader import CallReport, Outcome, Rejected, Stage

#: The reasons (`Step.why`) of another attempt after an invalid answer.
ATTEMPTS = ("invalid", "repair")

#: Reasons that concern the form of an answer, whose content may be right.
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

#: Reasons that a text may have in which the value, or the first object, has not ended.
_UNFINISHED = frozenset(
    {Reason.EMPTY, Reason.TRUNCATED, Reason.EXTRACTION_FAILED, Reason.REPAIR_FAILED, Reason.SUCCESS}
)


@dataclass(frozen=True, slots=True)
class Step:
    """What is sent to the model, and `why` (see `CallReport`).

    `prefill` is the beginning of the answer, to be continued. `rejected` are the objects to be corrected, if
    only these are asked for. `more_than` is the token limit at which the answer was truncated: without a
    higher one the call would be the same, and is not made. `schema_in_words`: the provider puts the schema
    into the prompt if the server does not enforce it.
    """

    why: str
    conversation: Sequence[Message]
    config: RuntimeConfig
    prefill: str = ""
    rejected: tuple[Rejected, ...] = ()
    more_than: int = 0
    schema_in_words: bool = False

    @property
    def messages(self) -> Sequence[Message]:
        """The messages of the call, with the prefill."""
        return [*self.conversation, Message("assistant", self.prefill)] if self.prefill else self.conversation

    def call(
        self,
        prompt: PromptDefinition,
        why: str,
        *,
        number: int = 1,
        answer_tokens: int | None = None,
        request: str = "",
    ) -> Call:
        """The call that makes the step, the `number`-th of the question; its answer has a limit of tokens."""
        return Call(
            self.messages,
            config=self.config.at_most(answer_tokens),
            response_schema=server_schema(prompt.contract, items=prompt.native_items),
            schema_in_words=self.schema_in_words,
            labels={"prompt": prompt.id, "call": str(number), "why": why},
            request=request,
        )


def first_step(prompt: PromptDefinition, question: Question) -> Step:
    """The step with which the model is asked the question."""
    return Step("first", opening(prompt, question), prompt.config)


def first_call(prompt: PromptDefinition, question: Question) -> Call:
    """The first call that `ask` makes for a question, if no budget limits the answer."""
    step = first_step(prompt, question)
    return step.call(prompt, step.why)


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a step that brought some text, or ended by itself.

    `text` is the answer so far, including the prefill of the step; `outcome` is what was read from it.
    `broken` is the error that broke off the call. `filled`: the answer has reached the token limit of the
    prompt. `is_loop`: it was ended because it only repeated itself.
    """

    step: Step
    outcome: Outcome
    report: CallReport
    text: str
    broken: ProviderError | None = None
    filled: bool = False
    is_loop: bool = False

    @property
    def is_truncated(self) -> bool:
        """Whether the answer was truncated; the text decides for a json value, or without a finish reason."""
        finish_reason, outcome = self.report.finish_reason, self.outcome
        if outcome.contract.format == "json" and outcome.truncated is not None:
            return outcome.truncated and finish_reason != "content_filter"
        if finish_reason is None:
            return self.broken is not None or outcome.truncated is True
        return finish_reason in ("length", "error")

    @property
    def has_failed_for_good(self) -> bool:
        """Whether it broke off with an error that is not transient."""
        return self.broken is not None and not self.broken.transient

    @property
    def failure(self) -> ProviderError | None:
        """The error that is not transient, if the reply brought nothing to keep."""
        outcome = self.outcome
        has_result = outcome.ok or outcome.value or outcome.rejected or outcome.retracted
        return self.broken if self.has_failed_for_good and not has_result else None

    @property
    def is_refusal(self) -> bool:
        """Whether the model or a content filter refused to answer. As a text, any refusal is readable."""
        usable = self.outcome.ok and self.outcome.contract.format != "text"
        return self.report.finish_reason == "content_filter" and not usable

    @property
    def exceeds_validation(self) -> bool:
        """Whether validation takes more steps than the contract allows, as another answer would."""
        return any(issue.reason is Reason.EFFORT_SPENT for issue in self.outcome.issues)

    @property
    def is_complete(self) -> bool:
        """Whether the value is complete; a number at the end of a truncated text may lack digits."""
        if not self.outcome.ok or self.outcome.stage is Stage.SALVAGED:
            return False
        closed = isinstance(self.outcome.value, (dict, list, str))
        return not self.is_truncated or (self.outcome.contract.format == "json" and closed)

    @property
    def is_unfinished(self) -> bool:
        """Whether it was truncated before the value, or the first object, had ended."""
        outcome = self.outcome
        has_objects = outcome.value or outcome.rejected or outcome.retracted
        if outcome.contract.format == "jsonl" and has_objects:
            return False
        return self.is_truncated and not self.is_complete and outcome.reason in _UNFINISHED

    @property
    def is_malformed(self) -> bool:
        """Whether it is complete, and was rejected only for its form."""
        outcome = self.outcome
        issues = [*outcome.issues, *(issue for rejected in outcome.rejected for issue in rejected.issues)]
        return not self.is_truncated and outcome.reason in _FORM and is_about_form(issues)

    @property
    def next_prefill(self) -> str:
        """The text that a continuation of this answer begins with."""
        return self.text if self.outcome.contract.format == "text" else before_half_escape(self.text)

    @property
    def may_continue(self) -> bool:
        """Whether a continuation may help: not if this one brought nothing, or still only prose."""
        text = self.next_prefill
        if not self.step.prefill:
            return bool(text.strip())
        has_value = "{" in text or "[" in text or not _has_brackets(self.outcome.contract)
        return has_value and text != self.step.prefill


def is_about_form(issues: Iterable[Issue]) -> bool:
    """Whether all issues concern the form."""
    return all(issue.reason in _FORM for issue in issues)


def _has_brackets(contract: Contract) -> bool:
    """Whether every value of the contract is an object or an array."""
    if contract.format == "json" and not contract.many:
        return isinstance(contract.schema, dict) and contract.schema.get("type") in ("object", "array")
    return contract.format != "text"
