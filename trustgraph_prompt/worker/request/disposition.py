"""What becomes of a message: one table, read by one pure function.

`decide` is asked after each step of the work on a message: after the model was asked, after the answer was
sent, after either failed, and when the worker ends. Whoever carries out a disposition decides nothing.
`docs/dispositions.md` shows the table; decision 0019 has the reasons.
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
from trustgraph_prompt.worker.messages.answer import is_served, is_unusable

Result = Outcome | Exception

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds before a message is tried again: doubled with each delivery."""

PAUSE_FOR_DESCRIPTORS = 5.0
"""Seconds between tries: each takes a descriptor that somebody else may need."""

SECONDS_FOR_ANOTHER_TRY = 5.0
"""With less left, an error in time is worth more to the requester than another try."""

SECONDS_FOR_THE_LAST_TRY = 10.0
"""A pause ends when so much of the request's time is left."""


class StepResult(StrEnum):
    """What came of the latest step."""

    NOTHING = "nothing yet"
    CRASHES = "too many crashes"
    SERVED = "a useful answer"
    UNUSABLE = "an answer without use"
    NO_VALUE = "an invalid value, a refusal, a spent budget or a permanent provider error"
    PROVIDER_FAILED = "a temporary provider error"
    PROVIDER_PAUSED = "a provider that wants to be left alone and was not called"
    PROVIDER_AWAY = "a provider that is away"
    PROVIDER_UNREACHABLE = "a provider out of reach, as its broker is away or the worker out of descriptors"
    BROKER_AWAY = "a broker outage or a worker out of descriptors"
    BROKER_REFUSED = "another broker error"
    DEFECT = "a defect of the worker"
    INVALID = "an invalid request, a template error or a message too large"


UNCOUNTED = (
    StepResult.PROVIDER_PAUSED,
    StepResult.PROVIDER_AWAY,
    StepResult.PROVIDER_UNREACHABLE,
    StepResult.BROKER_AWAY,
)
"""What uses up no delivery."""


class AnswerSent(StrEnum):
    """How much of the answer the requester has."""

    NOTHING = "nothing"
    SOME = "some"
    ALL = "all"


@dataclass(kw_only=True, slots=True, eq=False)
class Known:
    """Everything that the disposition of a message depends on.

    `result` is what came of the latest step, None before anything did; when the worker ends, the outcome if
    there is one. `deliveries` of `deliveries_allowed` have been used, this one included. Of the message have
    died `crashes` workers while they worked on nothing else, before it came here. `unusable`: what the flow
    does with answers without use. `completion`: a text
    completion which can be answered; `direct`: one whose requester retries by itself. `paid`: the journal has
    the outcome. `sent`: this delivery has sent the outcome; `heard` also counts earlier deliveries.
    `seconds_left` until the requester gives up. `ending`: the worker stops, or gives up the flow. `jitter`
    (0.5 to 1) shortens pauses.
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
    heard: AnswerSent = AnswerSent.NOTHING
    seconds_left: float = inf
    ending: bool = False
    jitter: float = 1.0

    @property
    def came(self) -> StepResult:
        match self.result:
            case None:
                return StepResult.NOTHING if self.crashes < self.crashes_allowed else StepResult.CRASHES
            case Outcome(cause=ProviderAway() as away) if self._begins_anew:
                if away.own:
                    return StepResult.PROVIDER_FAILED
                # the next probe is another's, and may be one that only the topic holds
                gives_way = away.suspect and self.persistent and not self.direct
                return StepResult.PROVIDER_PAUSED if gives_way else StepResult.PROVIDER_AWAY
            case Outcome() as outcome if is_unusable(outcome):
                return StepResult.UNUSABLE
            case Outcome() as outcome if is_served(outcome, self.unusable):
                return StepResult.SERVED
            case Outcome(cause=cause) as outcome if cause is not None and _may_pass(outcome):
                if self.trustgraph and isinstance(cause, ProviderUnexplained):
                    # it may never pass, and TrustGraph's clients do not wait to find out
                    return StepResult.NO_VALUE
                if isinstance(cause, ProviderPaused) and not outcome.calls:
                    return StepResult.PROVIDER_PAUSED
                return (
                    StepResult.PROVIDER_UNREACHABLE
                    if _is_away(cause.__cause__)
                    else StepResult.PROVIDER_FAILED
                )
            case Outcome():
                return StepResult.NO_VALUE
            case RequestError() | RenderError() | MessageTooLarge():
                return StepResult.INVALID
            case Exception() as error if _is_away(error):
                return StepResult.BROKER_AWAY
            case BrokerError():
                return StepResult.BROKER_REFUSED
        return StepResult.DEFECT

    @property
    def _begins_anew(self) -> bool:
        """Whether an outage spoilt the outcome: there is none, or a part that nobody was told of."""
        assert isinstance(self.result, Outcome)
        is_part = self.heard is AnswerSent.NOTHING and self._in_time
        return is_part or self.result.reason is Reason.PROVIDER_ERROR

    @property
    def another_try(self) -> bool:
        """Whether another try can still become an answer that somebody waits for.

        An outage of the broker or the provider uses up no delivery, nor does a call that was not made or a
        process without file descriptors. An answer of which the requester has some is not started again: only
        an outcome that was paid for can still be sent.
        """
        if isinstance(self.result, Outcome):
            retries_by_itself = self.direct and self.came is not StepResult.PROVIDER_AWAY
            if retries_by_itself or self.heard is not AnswerSent.NOTHING or not self._in_time:
                return False
        elif self.heard is AnswerSent.SOME and not self.paid:
            return False
        if self.came in UNCOUNTED:
            return True
        return self.deliveries < self.deliveries_allowed and (self.persistent or self._in_time)

    @property
    def _in_time(self) -> bool:
        return self.seconds_left > SECONDS_FOR_ANOTHER_TRY

    @property
    def pause(self) -> float:
        """Seconds before another try, which is to come while there is time for it."""
        backoff = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (self.deliveries - 1)) * self.jitter
        cause = self.result.cause if isinstance(self.result, Outcome) else None
        asked = (cause.retry_after or 0.0) if isinstance(cause, ProviderError) else 0.0
        in_time = max(FIRST_PAUSE * self.jitter, self.seconds_left - SECONDS_FOR_THE_LAST_TRY)
        return min(max(min(asked, LONGEST_BELIEVED), backoff), in_time)


@dataclass(frozen=True, slots=True)
class Begin:
    """Read the request and ask the model, unless the journal knows the outcome. Then decide again."""


@dataclass(frozen=True, slots=True)
class SendOut:
    """Send the outcome: objects, answer, response. Then decide again."""


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Everything that was owed has been sent."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Have the broker deliver the message again in so many seconds.

    `ask_again`: what was asked is forgotten. `counted`: it uses up a delivery. `why` is for the log and has
    nothing of the contents of prompts and answers.
    """

    seconds: float
    why: str
    ask_again: bool
    counted: bool = True


@dataclass(frozen=True, slots=True)
class WaitHere:
    """Keep the message and try again in this process. Else as `Retry`."""

    seconds: float
    why: str
    ask_again: bool
    counted: bool


@dataclass(frozen=True, slots=True)
class AwaitProvider:
    """Keep the message until the circuit lets it be asked, for so many seconds; None is without end."""

    circuit: Circuit
    seconds: float | None


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The message is done with and was not served. `answer`: tell the requester the error first.

    `dead_letter`: leave one, else only acknowledge. The journal forgets the request: a replay, and a
    requester who tries again under the same id, are asked anew. `why` as in `Retry`; `error` may contain
    content.
    """

    error: Error
    why: str
    answer: bool
    dead_letter: bool


@dataclass(frozen=True, slots=True)
class Leave:
    """Settle nothing: the broker delivers the message to another worker."""


Settlement = Acknowledge | Retry | GiveUp | Leave
"""What ends the work on a message, as far as this delivery goes."""

Disposition = Begin | SendOut | WaitHere | AwaitProvider | Settlement

_OUT_OF_DESCRIPTORS = "the worker is out of file descriptors"


def _failure(known: Known) -> tuple[Error, str]:
    """Why there is no answer: as the requester and a dead letter say it, and as the log may say it."""
    match known.result:
        case None:
            died = f"{known.crashes} workers died while they worked on this request and nothing else"
            return Error("worker-crashed", died), died
        case Outcome(cause=ProviderAway() as away) if not known.completion:
            return Error("llm-error", str(away)), loggable(away)
        case Outcome(cause=ProviderError() as cause) as outcome:
            said = str(cause) if _may_pass(outcome) else f"{cause.category}: {cause}"
            return Error("llm-error", said), loggable(cause)
        case Outcome() as outcome:
            places = ", ".join(dict.fromkeys(f"{i.reason} at {i.path or '/'}" for i in outcome.issues[:5]))
            said = f"{outcome.reason}: {outcome.explain()}"
            return Error("llm-error", said), places or outcome.reason
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
    return Error("internal-error", type(known.result).__name__), "a defect of the worker"


def loggable(cause: ProviderError) -> str:
    """What of a provider's error may stand in a log."""
    if isinstance(cause, ProviderAway):
        return cause.loggable  # with the category of what opened the circuit
    return f"{cause.category}: {cause.loggable}" if cause.loggable else cause.category


def _may_pass(outcome: Outcome) -> bool:
    """Whether the same request may well succeed later."""
    failed = outcome.reason is Reason.PROVIDER_ERROR
    return failed and isinstance(outcome.cause, ProviderError) and outcome.cause.transient


def _is_away(error: BaseException | None) -> bool:
    """Whether it says nothing about the request: the broker is away, or the process can connect to nobody."""
    return isinstance(error, BrokerUnavailable | BrokerClosed) or out_of_descriptors(error)


@dataclass(frozen=True, slots=True)
class Then:
    """What follows, in words and in deed."""

    words: str
    make: Callable[[Known], Disposition]


def _retry(known: Known, *, ask_again: bool, counted: bool = True) -> Disposition:
    return Retry(known.pause, _failure(known)[1], ask_again, counted)


def _wait_here(known: Known, *, ask_again: bool, counted: bool = True) -> Disposition:
    return WaitHere(min(known.pause, LONGEST_PAUSE), _failure(known)[1], ask_again, counted)


def _await_end(known: Known, *, ask_again: bool) -> Disposition:
    failed = known.result.cause if isinstance(known.result, Outcome) else known.result
    if out_of_descriptors(failed):
        return WaitHere(PAUSE_FOR_DESCRIPTORS * known.jitter, _OUT_OF_DESCRIPTORS, ask_again, counted=False)
    why = f"the broker is away: {_failure(known)[1]}"
    return WaitHere(FIRST_PAUSE * known.jitter, why, ask_again, counted=False)


def _await_provider(known: Known) -> Disposition:
    assert isinstance(known.result, Outcome)
    assert isinstance(known.result.cause, ProviderAway)
    seconds = known.seconds_left - SECONDS_FOR_ANOTHER_TRY
    return AwaitProvider(known.result.cause.circuit, None if seconds == inf else seconds)


def _give_up(known: Known, *, answer: bool) -> Disposition:
    error, why = _failure(known)
    return GiveUp(error, why, answer, _leaves_dead_letters(known))


def _give_up_at_the_end(known: Known) -> Disposition:
    """What was streamed in part cannot be left to others: the requester would hear it twice."""
    error = Error("shutting-down", "the worker is shutting down; ask again")
    dead_letter = known.persistent and _leaves_dead_letters(known)
    return GiveUp(error, "the worker ended within the answer", answer=True, dead_letter=dead_letter)


def _leaves_dead_letters(known: Known) -> bool:
    """TrustGraph's own services leave none, and a text completion is the requester's to ask again."""
    return not known.completion and (known.persistent or not known.trustgraph)


_BEGIN = Then("ask, decide again", lambda known: Begin())
_SEND = Then("send it, decide again", lambda known: SendOut())
_ACKNOWLEDGE = Then("acknowledge", lambda known: Acknowledge())
_LEAVE = Then("leave it for others", lambda known: Leave())
_RETRY = Then("retry", partial(_retry, ask_again=False))
_RETRY_ASKING = Then("retry, ask again", partial(_retry, ask_again=True))
_RETRY_UNCOUNTED = Then("retry without a delivery, ask again", partial(_retry, ask_again=True, counted=False))
_WAIT = Then("wait here", partial(_wait_here, ask_again=False))
_WAIT_ASKING = Then("wait here, ask again", partial(_wait_here, ask_again=True))
_WAIT_UNCOUNTED = Then(
    "wait here without a delivery, ask again", partial(_wait_here, ask_again=True, counted=False)
)
_AWAIT_END = Then("wait here until the outage is over", partial(_await_end, ask_again=False))
_AWAIT_END_ASKING = Then("wait here until the outage is over, ask again", partial(_await_end, ask_again=True))
_AWAIT_PROVIDER = Then("wait here until the provider is back, ask again", _await_provider)
_BURY = Then("dead letter", partial(_give_up, answer=False))
_REFUSE = Then("error answer, dead letter", partial(_give_up, answer=True))
_REFUSE_AT_THE_END = Then("error answer `shutting-down`, dead letter", _give_up_at_the_end)
_ANSWER_AT_THE_END = Then("error answer `shutting-down`", _give_up_at_the_end)


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of the table: which situations it applies to (None: either), and what follows."""

    came: Collection[StepResult]
    then: Then
    sent: bool | None = None
    ending: bool | None = None
    persistent: bool | None = None
    heard: Collection[AnswerSent] = tuple(AnswerSent)
    unusable: Unusable | None = None
    another_try: bool | None = None

    def applies(self, known: Known) -> bool:
        """Whether the situation is one of this row, apart from what came."""
        return (
            (self.sent is None or self.sent == known.sent)
            and (self.ending is None or self.ending == known.ending)
            and (self.persistent is None or self.persistent == known.persistent)
            and known.heard in self.heard
            and (self.unusable is None or self.unusable == known.unusable)
            and (self.another_try is None or self.another_try == known.another_try)
        )


_ANYTHING, _INVALID = set(StepResult), {StepResult.INVALID}
_SERVED, _UNUSABLE, _NO_VALUE = {StepResult.SERVED}, {StepResult.UNUSABLE}, {StepResult.NO_VALUE}
_FAILED, _PAUSED = {StepResult.PROVIDER_FAILED}, {StepResult.PROVIDER_PAUSED}
_PROVIDER_AWAY, _UNREACHABLE = {StepResult.PROVIDER_AWAY}, {StepResult.PROVIDER_UNREACHABLE}
_NOT_NOW = _FAILED | _PAUSED | _PROVIDER_AWAY | _UNREACHABLE
_UNSERVED, _TROUBLE = _UNUSABLE | _NO_VALUE | _NOT_NOW, {StepResult.BROKER_REFUSED, StepResult.DEFECT}
_AWAY = {StepResult.BROKER_AWAY}
_HEARD_NOTHING, _HEARD_ALL = {AnswerSent.NOTHING}, {AnswerSent.ALL}

RULES: Final = (
    Rule(_SERVED, _ACKNOWLEDGE, sent=True),
    Rule(_UNUSABLE, _ACKNOWLEDGE, sent=True, unusable="answer"),
    Rule(_UNSERVED, _BURY, sent=True),
    Rule(_SERVED, _ACKNOWLEDGE, ending=True, heard=_HEARD_ALL),
    Rule(_UNUSABLE, _ACKNOWLEDGE, ending=True, heard=_HEARD_ALL, unusable="answer"),
    Rule(_UNSERVED, _BURY, ending=True, heard=_HEARD_ALL),
    Rule(_ANYTHING, _LEAVE, ending=True, persistent=True, heard=_HEARD_NOTHING),
    Rule(_ANYTHING, _REFUSE_AT_THE_END, ending=True, persistent=True),
    Rule(_ANYTHING, _ANSWER_AT_THE_END, ending=True, persistent=False),
    Rule({StepResult.NOTHING}, _BEGIN),
    Rule(_SERVED | _UNUSABLE | _NO_VALUE, _SEND),
    Rule(_PROVIDER_AWAY, _AWAIT_PROVIDER, another_try=True),
    Rule(_UNREACHABLE, _AWAIT_END_ASKING, another_try=True),
    Rule(_PAUSED, _RETRY_UNCOUNTED, persistent=True, another_try=True),
    Rule(_PAUSED, _WAIT_UNCOUNTED, persistent=False, another_try=True),
    Rule(_FAILED, _RETRY_ASKING, persistent=True, another_try=True),
    Rule(_FAILED, _WAIT_ASKING, persistent=False, another_try=True),
    Rule(_NOT_NOW, _SEND, another_try=False),
    Rule(_AWAY, _AWAIT_END, another_try=True),
    Rule(_TROUBLE, _RETRY, persistent=True, heard=_HEARD_NOTHING, another_try=True),
    Rule(_TROUBLE, _WAIT, another_try=True),
    Rule(_AWAY | _TROUBLE | _INVALID | {StepResult.CRASHES}, _REFUSE),
)
"""From top to bottom, the first that applies."""


_RULES_FOR: Final = {came: tuple(rule for rule in RULES if came in rule.came) for came in StepResult}


def rule_for(known: Known) -> Rule:
    """The row of the table that counts."""
    for rule in _RULES_FOR[known.came]:
        if rule.applies(known):
            return rule
    raise AssertionError(f"no rule for {known}")


def decide(known: Known) -> Disposition:
    """What becomes of a message now."""
    return rule_for(known).then.make(known)
