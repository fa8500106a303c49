"""Decides what happens to a message: one table, evaluated by one pure function.

`decide` is called before the first step and after each one (the model call, sending the answer, a failure of
either), of a request that cannot be decoded, and on shutdown. The code that carries out a disposition decides
nothing itself. The table is in docs/reference/dispositions.md, the reasons are in decision 0019.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from math import inf
from typing import Final

from trustgraph_prompt.errors import (
    BrokerClosed,
    BrokerError,
    BrokerUnavailable,
    MessageTooLarge,
    ProviderError,
    ProviderPaused,
    ProviderUnexplained,
    Reason,
    RenderError,
    RequestError,
)
from trustgraph_prompt.file_descriptors import out_of_descriptors
from trustgraph_prompt.llm.circuit import Circuit, ProviderAway
from trustgraph_prompt.llm.retry import LONGEST_BELIEVED
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.wire import Error
from trustgraph_prompt.worker.flow import Unusable
from trustgraph_prompt.worker.messages.answer_record import failure_type, is_served, is_unusable

Result = Outcome | Exception

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds before a retry; doubled with each delivery."""

PAUSE_FOR_DESCRIPTORS = 5.0
"""Seconds between retries; each takes a descriptor that another request may need."""

SECONDS_FOR_ANOTHER_TRY = 5.0
"""With less time left, the requester gets an error in time instead of another try."""

SECONDS_FOR_THE_LAST_TRY = 10.0
"""Every pause ends when this much of the request's time is left."""


class StepResult(StrEnum):
    """The kind of result of the latest step, in the words of the table."""

    NOTHING = "nothing yet"
    CRASHES = "too many crashes"
    SERVED = "a useful answer"
    UNUSABLE = "an answer without use"
    NO_VALUE = "an invalid value, a refusal, a spent budget or a permanent provider error"
    PROVIDER_FAILED = "a temporary provider error"
    PROVIDER_PAUSED = "a paused provider that was not called"
    PROVIDER_AWAY = "a provider that is away"
    PROVIDER_UNREACHABLE = "a provider out of reach, as its broker is away or the worker out of descriptors"
    BROKER_AWAY = "a broker outage or a worker out of descriptors"
    BROKER_REFUSED = "another broker error"
    DEFECT = "an internal error"
    INVALID = "an invalid request, a template error or a message too large"


UNCOUNTED = (
    StepResult.PROVIDER_PAUSED,
    StepResult.PROVIDER_AWAY,
    StepResult.PROVIDER_UNREACHABLE,
    StepResult.BROKER_AWAY,
)
"""Results that use up no delivery."""


class AnswerSent(StrEnum):
    """How much of the answer was sent to the requester."""

    NOTHING = "nothing"
    SOME = "some"
    ALL = "all"


@dataclass(kw_only=True, slots=True, eq=False)
class Situation:
    """Everything that the disposition of a message depends on.

    `result` is that of the latest step, None before the first one; on shutdown the outcome, if there is one.
    `deliveries` includes this one. `crashes` counts the workers that died while they processed this message
    alone. `unusable` is the flow's setting for answers without use. `completion`: a text completion with an
    id to answer to; `direct`: its requester retries itself. `paid`: the journal has the outcome. `sent`: the
    outcome was sent and need not be repeated; `answer_sent` includes what a requester may have missed.
    `seconds_left` until the requester stops waiting. `ending`: the worker stops, or the flow is removed.
    `jitter` (0.5 to 1) shortens pauses.
    """

    result: Result | None
    deliveries: int = 1
    deliveries_allowed: int
    crashes: int = 0
    crashes_allowed: int = 1
    persistent: bool
    trustgraph: bool = False
    unusable: Unusable = "dead-letter"
    completion: bool = False
    direct: bool = False
    paid: bool = False
    sent: bool = False
    answer_sent: AnswerSent = AnswerSent.NOTHING
    seconds_left: float = inf
    ending: bool = False
    jitter: float = 1.0

    @property
    def step_result(self) -> StepResult:
        """The kind of `result`."""
        match self.result:
            case None:
                return StepResult.NOTHING if self.crashes < self.crashes_allowed else StepResult.CRASHES
            case Outcome(cause=ProviderAway() as away) if self._is_discarded:
                if away.own:
                    return StepResult.PROVIDER_FAILED
                # The next probe must be another request, perhaps one that only the topic holds.
                gives_way = away.suspect and self.persistent and not self.direct
                return StepResult.PROVIDER_PAUSED if gives_way else StepResult.PROVIDER_AWAY
            case Outcome() as outcome if is_unusable(outcome):
                return StepResult.UNUSABLE
            case Outcome() as outcome if is_served(outcome, self.unusable):
                return StepResult.SERVED
            case Outcome(cause=cause) as outcome if cause is not None and _is_transient(outcome):
                if self.trustgraph and isinstance(cause, ProviderUnexplained):
                    # It may be permanent, and TrustGraph's clients do not wait to find out.
                    return StepResult.NO_VALUE
                if isinstance(cause, ProviderPaused) and not outcome.calls:
                    return StepResult.PROVIDER_PAUSED
                return (
                    StepResult.PROVIDER_UNREACHABLE
                    if _is_outage(cause.__cause__)
                    else StepResult.PROVIDER_FAILED
                )
            case Outcome():
                return StepResult.NO_VALUE
            case RequestError() | RenderError() | MessageTooLarge():
                return StepResult.INVALID
            case Exception() as error if _is_outage(error):
                return StepResult.BROKER_AWAY
            case BrokerError():
                return StepResult.BROKER_REFUSED
        return StepResult.DEFECT

    @property
    def _is_discarded(self) -> bool:
        """Whether an interrupted answer is discarded: there is none, or nothing of it was sent yet."""
        assert isinstance(self.result, Outcome)
        is_unsent = self.answer_sent is AnswerSent.NOTHING and self._in_time
        return is_unsent or self.result.reason is Reason.PROVIDER_ERROR

    @property
    def another_try(self) -> bool:
        """Whether another try can still result in an answer in time.

        An answer of which the requester has a part is never restarted: only an outcome in the journal can
        still be sent.
        """
        if isinstance(self.result, Outcome):
            requester_retries = self.direct and self.step_result is not StepResult.PROVIDER_AWAY
            if requester_retries or self.answer_sent is not AnswerSent.NOTHING or not self._in_time:
                return False
        elif self.answer_sent is AnswerSent.SOME and not self.paid:
            return False
        if self.step_result in UNCOUNTED:
            return True
        return self.deliveries < self.deliveries_allowed and (self.persistent or self._in_time)

    @property
    def _in_time(self) -> bool:
        return self.seconds_left > SECONDS_FOR_ANOTHER_TRY

    @property
    def pause(self) -> float:
        """Seconds before another try."""
        backoff = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (self.deliveries - 1)) * self.jitter
        cause = self.result.cause if isinstance(self.result, Outcome) else None
        requested = (cause.retry_after or 0.0) if isinstance(cause, ProviderError) else 0.0
        limit = max(FIRST_PAUSE * self.jitter, self.seconds_left - SECONDS_FOR_THE_LAST_TRY)
        return min(max(min(requested, LONGEST_BELIEVED), backoff), limit)


@dataclass(frozen=True, slots=True)
class Begin:
    """Call the model, unless the journal has the outcome. Then decide again."""


@dataclass(frozen=True, slots=True)
class SendOut:
    """Send the outcome: objects, answer, response. Then decide again."""


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Acknowledge the message; everything was sent."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Have the broker redeliver the message after `seconds`.

    `ask_again`: the journal forgets the outcome. `counted`: this uses up a delivery. `why` is for the log and
    contains nothing of prompts and answers.
    """

    seconds: float
    why: str
    ask_again: bool
    counted: bool = True


@dataclass(frozen=True, slots=True)
class WaitHere:
    """Keep the message and try again in this process after `seconds`. Otherwise like `Retry`."""

    seconds: float
    why: str
    ask_again: bool
    counted: bool


@dataclass(frozen=True, slots=True)
class AwaitProvider:
    """Keep the message until the circuit allows a call, for at most `seconds`; None is unlimited."""

    circuit: Circuit
    seconds: float | None


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Settle a message that was not served. `answer`: send the error to the requester first.

    `dead_letter`: move the message to the dead letters, else only acknowledge it. The journal forgets the
    request, so that a replay or a retry under the same id calls the model again. `why` as in `Retry`; `error`
    may quote prompts and answers.
    """

    error: Error
    why: str
    answer: bool
    dead_letter: bool


@dataclass(frozen=True, slots=True)
class Leave:
    """Do not settle the message: the broker delivers it to another worker."""


Settlement = Acknowledge | Retry | GiveUp | Leave
"""Ends the work on a message in this delivery."""

Disposition = Begin | SendOut | WaitHere | AwaitProvider | Settlement

_OUT_OF_DESCRIPTORS = "the worker is out of file descriptors"


def _failure(situation: Situation) -> tuple[Error, str]:
    """Why there is no answer: for the requester and the dead letter, and as text that may be logged."""
    match situation.result:
        case None:
            why = f"{situation.crashes} workers died while they processed this request and nothing else"
            return Error("worker-crashed", why), why
        case Outcome(cause=ProviderAway() as away) if not situation.completion:
            return Error("llm-error", str(away)), loggable(away)
        case Outcome(cause=ProviderError() as cause) as outcome:
            message = str(cause) if _is_transient(outcome) else f"{cause.category}: {cause}"
            return Error("llm-error", message), loggable(cause)
        case Outcome() as outcome:
            places = ", ".join(dict.fromkeys(f"{i.reason} at {i.path or '/'}" for i in outcome.issues[:5]))
            message = f"{outcome.reason}: {outcome.explain()}"
            return Error(failure_type(outcome), message), places or outcome.reason
        case RequestError() as invalid:
            return Error(invalid.type, str(invalid)), str(invalid)
        case RenderError() as unrendered:
            why = "the template cannot be rendered with the terms"
            return Error("template-error", str(unrendered)), why
        case MessageTooLarge() as refused:
            return Error("too-large", str(refused)), str(refused)
        case BrokerError() as refused:
            return Error("broker-error", str(refused)), str(refused)
        case Exception() as error if out_of_descriptors(error):
            return Error("internal-error", _OUT_OF_DESCRIPTORS), _OUT_OF_DESCRIPTORS
    return Error("internal-error", type(situation.result).__name__), "internal error of the worker"


def loggable(cause: ProviderError) -> str:
    """The part of a provider's error that may be logged: nothing of prompts and answers."""
    if isinstance(cause, ProviderAway):
        return cause.loggable  # includes the category of the error that opened the circuit
    return f"{cause.category}: {cause.loggable}" if cause.loggable else cause.category


def _is_transient(outcome: Outcome) -> bool:
    """Whether the same request may succeed later."""
    failed = outcome.reason is Reason.PROVIDER_ERROR
    return failed and isinstance(outcome.cause, ProviderError) and outcome.cause.transient


def _is_outage(error: BaseException | None) -> bool:
    """Whether the error is independent of the request: a broker outage, or no file descriptors."""
    return isinstance(error, BrokerUnavailable | BrokerClosed) or out_of_descriptors(error)


@dataclass(frozen=True, slots=True)
class Action:
    """Makes a disposition; `description` is its text in the table."""

    description: str
    make: Callable[[Situation], Disposition]


def _retry(situation: Situation, *, ask_again: bool, counted: bool = True) -> Disposition:
    return Retry(situation.pause, _failure(situation)[1], ask_again, counted)


def _wait_here(situation: Situation, *, ask_again: bool, counted: bool = True) -> Disposition:
    return WaitHere(min(situation.pause, LONGEST_PAUSE), _failure(situation)[1], ask_again, counted)


def _wait_for_outage(situation: Situation, *, ask_again: bool) -> Disposition:
    failed = situation.result.cause if isinstance(situation.result, Outcome) else situation.result
    if out_of_descriptors(failed):
        return WaitHere(
            PAUSE_FOR_DESCRIPTORS * situation.jitter, _OUT_OF_DESCRIPTORS, ask_again, counted=False
        )
    why = f"the broker is unavailable: {_failure(situation)[1]}"
    return WaitHere(FIRST_PAUSE * situation.jitter, why, ask_again, counted=False)


def _await_provider(situation: Situation) -> Disposition:
    assert isinstance(situation.result, Outcome)
    assert isinstance(situation.result.cause, ProviderAway)
    seconds = situation.seconds_left - SECONDS_FOR_ANOTHER_TRY
    return AwaitProvider(situation.result.cause.circuit, None if seconds == inf else seconds)


def _give_up(situation: Situation, *, answer: bool) -> Disposition:
    error, why = _failure(situation)
    return GiveUp(error, why, answer, _leaves_dead_letters(situation))


def _give_up_on_shutdown(situation: Situation) -> Disposition:
    """A partly streamed answer cannot be left to another worker: the requester would get its begin twice."""
    error = Error("shutting-down", "the worker is shutting down; ask again")
    dead_letter = situation.persistent and _leaves_dead_letters(situation)
    return GiveUp(error, "the worker stopped while it sent the answer", answer=True, dead_letter=dead_letter)


def _leaves_dead_letters(situation: Situation) -> bool:
    """TrustGraph's own services have none, and text completions are retried by their requester."""
    return not situation.completion and (situation.persistent or not situation.trustgraph)


_BEGIN = Action("ask, decide again", lambda situation: Begin())
_SEND = Action("send it, decide again", lambda situation: SendOut())
_ACKNOWLEDGE = Action("acknowledge", lambda situation: Acknowledge())
_LEAVE = Action("leave it for others", lambda situation: Leave())
_RETRY = Action("retry", partial(_retry, ask_again=False))
_RETRY_ASKING = Action("retry, ask again", partial(_retry, ask_again=True))
_RETRY_UNCOUNTED = Action(
    "retry without a delivery, ask again", partial(_retry, ask_again=True, counted=False)
)
_WAIT = Action("wait here", partial(_wait_here, ask_again=False))
_WAIT_ASKING = Action("wait here, ask again", partial(_wait_here, ask_again=True))
_WAIT_UNCOUNTED = Action(
    "wait here without a delivery, ask again", partial(_wait_here, ask_again=True, counted=False)
)
_WAIT_FOR_OUTAGE = Action("wait here until the outage is over", partial(_wait_for_outage, ask_again=False))
_WAIT_FOR_OUTAGE_ASKING = Action(
    "wait here until the outage is over, ask again", partial(_wait_for_outage, ask_again=True)
)
_AWAIT_PROVIDER = Action("wait here until the provider is back, ask again", _await_provider)
_DEAD_LETTER = Action("dead letter", partial(_give_up, answer=False))
_ERROR_AND_DEAD_LETTER = Action("error answer, dead letter", partial(_give_up, answer=True))
_DEAD_LETTER_ON_SHUTDOWN = Action("error answer `shutting-down`, dead letter", _give_up_on_shutdown)
_ERROR_ON_SHUTDOWN = Action("error answer `shutting-down`", _give_up_on_shutdown)


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of the table: the situations it applies to (None: either), and the action."""

    step_results: Collection[StepResult]
    action: Action
    sent: bool | None = None
    ending: bool | None = None
    persistent: bool | None = None
    answer_sent: Collection[AnswerSent] = tuple(AnswerSent)
    unusable: Unusable | None = None
    another_try: bool | None = None

    def applies(self, situation: Situation) -> bool:
        """Whether the row applies, apart from the result of the step."""
        return (
            (self.sent is None or self.sent == situation.sent)
            and (self.ending is None or self.ending == situation.ending)
            and (self.persistent is None or self.persistent == situation.persistent)
            and situation.answer_sent in self.answer_sent
            and (self.unusable is None or self.unusable == situation.unusable)
            and (self.another_try is None or self.another_try == situation.another_try)
        )


_ANYTHING, _INVALID = set(StepResult), {StepResult.INVALID}
_SERVED, _UNUSABLE, _NO_VALUE = {StepResult.SERVED}, {StepResult.UNUSABLE}, {StepResult.NO_VALUE}
_FAILED, _PAUSED = {StepResult.PROVIDER_FAILED}, {StepResult.PROVIDER_PAUSED}
_PROVIDER_AWAY, _UNREACHABLE = {StepResult.PROVIDER_AWAY}, {StepResult.PROVIDER_UNREACHABLE}
_NOT_NOW = _FAILED | _PAUSED | _PROVIDER_AWAY | _UNREACHABLE
_UNSERVED, _ERRORS = _UNUSABLE | _NO_VALUE | _NOT_NOW, {StepResult.BROKER_REFUSED, StepResult.DEFECT}
_AWAY = {StepResult.BROKER_AWAY}
_SENT_NOTHING, _SENT_ALL = {AnswerSent.NOTHING}, {AnswerSent.ALL}

RULES: Final = (
    Rule(_SERVED, _ACKNOWLEDGE, sent=True),
    Rule(_UNUSABLE, _ACKNOWLEDGE, sent=True, unusable="answer"),
    Rule(_UNSERVED, _DEAD_LETTER, sent=True),
    Rule(_SERVED, _ACKNOWLEDGE, ending=True, answer_sent=_SENT_ALL),
    Rule(_UNUSABLE, _ACKNOWLEDGE, ending=True, answer_sent=_SENT_ALL, unusable="answer"),
    Rule(_UNSERVED, _DEAD_LETTER, ending=True, answer_sent=_SENT_ALL),
    Rule(_ANYTHING, _LEAVE, ending=True, persistent=True, answer_sent=_SENT_NOTHING),
    Rule(_ANYTHING, _DEAD_LETTER_ON_SHUTDOWN, ending=True, persistent=True),
    Rule(_ANYTHING, _ERROR_ON_SHUTDOWN, ending=True, persistent=False),
    Rule({StepResult.NOTHING}, _BEGIN),
    Rule(_SERVED | _UNUSABLE | _NO_VALUE, _SEND),
    Rule(_PROVIDER_AWAY, _AWAIT_PROVIDER, another_try=True),
    Rule(_UNREACHABLE, _WAIT_FOR_OUTAGE_ASKING, another_try=True),
    Rule(_PAUSED, _RETRY_UNCOUNTED, persistent=True, another_try=True),
    Rule(_PAUSED, _WAIT_UNCOUNTED, persistent=False, another_try=True),
    Rule(_FAILED, _RETRY_ASKING, persistent=True, another_try=True),
    Rule(_FAILED, _WAIT_ASKING, persistent=False, another_try=True),
    Rule(_NOT_NOW, _SEND, another_try=False),
    Rule(_AWAY, _WAIT_FOR_OUTAGE, another_try=True),
    Rule(_ERRORS, _RETRY, persistent=True, answer_sent=_SENT_NOTHING, another_try=True),
    Rule(_ERRORS, _WAIT, another_try=True),
    Rule(_AWAY | _ERRORS | _INVALID | {StepResult.CRASHES}, _ERROR_AND_DEAD_LETTER),
)
"""The first rule that applies counts."""

_RULES_FOR: Final = {
    result: tuple(rule for rule in RULES if result in rule.step_results) for result in StepResult
}


def rule_for(situation: Situation) -> Rule:
    """The first rule that applies."""
    for rule in _RULES_FOR[situation.step_result]:
        if rule.applies(situation):
            return rule
    raise AssertionError(f"no rule for {situation}")


def decide(situation: Situation) -> Disposition:
    """What to do with a message now."""
    return rule_for(situation).action.make(situation)
