"""What becomes of a message: one table, read by one pure function.

`decide` is asked after each step of the work on a message: after the model was asked, after the answer was
sent, after either failed, and when the worker ends. Whoever carries out a disposition decides nothing.
`docs/dispositions.md` shows the table (decision 0004 has the reasons).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, partial
from math import inf
from typing import Final

from trustgraph_prompt.errors import (
    BrokerClosed,
    BrokerError,
    BrokerUnavailable,
    MessageTooLarge,
    ProviderError,
    ProviderUnexplained,
    Reason,
    RenderError,
    RequestError,
)
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.wire import Error
from trustgraph_prompt.worker.answer import is_served

Result = Outcome | Exception

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds before a message is tried again: doubled with each delivery."""

LONGEST_RETRY_AFTER = 600.0
"""Seconds that a provider may ask for at most. In memory, where a slot waits, it is `LONGEST_PAUSE`."""

SECONDS_FOR_ANOTHER_TRY = 5.0
"""With less left, an error in time is worth more to the requester than another try."""

SECONDS_FOR_THE_LAST_TRY = 10.0
"""A wait in memory ends when so much of the request's time is left."""


class Came(StrEnum):
    """What came of the latest step."""

    NOTHING = "nothing yet"
    SERVED = "an answer of use"
    USELESS = "an answer of no use, or a provider error that will not pass"
    PROVIDER_FAILED = "a provider error that may pass"
    PROVIDER_CUT_OFF = "a provider that the broker cannot reach"
    BROKER_AWAY = "the broker is away"
    BROKER_REFUSED = "the broker refused something"
    DEFECT = "a defect of the worker"
    INVALID = "an invalid request, a template error, a message too large"


class Heard(StrEnum):
    """How much of the answer the requester has."""

    NOTHING = "nothing"
    SOME = "some"
    ALL = "all"


@dataclass(frozen=True, kw_only=True)
class Known:
    """Everything that the disposition of a message depends on.

    `result` is what came of the latest step, None before anything did. `deliveries` of `deliveries_allowed`
    have been used, this one included. `completion`: a text completion which can be answered; `direct`: one
    whose requester retries by itself. `paid`: the journal has the outcome. `sent`: this delivery has sent
    the outcome; `heard` also counts earlier deliveries. `seconds_left` until the requester gives up.
    `ending`: the worker stops, or gives up the flow. `jitter` (0.5 to 1) shortens pauses.
    """

    result: Result | None
    deliveries: int = 1
    deliveries_allowed: int
    persistent: bool
    trustgraph: bool = False
    completion: bool = False
    direct: bool = False
    paid: bool = False
    sent: bool = False
    heard: Heard = Heard.NOTHING
    seconds_left: float = inf
    ending: bool = False
    jitter: float = 1.0

    @cached_property
    def came(self) -> Came:
        match self.result:
            case None:
                return Came.NOTHING
            case Outcome() as outcome if is_served(outcome):
                return Came.SERVED
            case Outcome(cause=cause) as outcome if _may_pass(outcome) and not self._may_never_pass(cause):
                return Came.PROVIDER_CUT_OFF if _is_away(cause and cause.__cause__) else Came.PROVIDER_FAILED
            case Outcome():
                return Came.USELESS
            case RequestError() | RenderError() | MessageTooLarge():
                return Came.INVALID
            case BrokerError() as error:
                return Came.BROKER_AWAY if _is_away(error) else Came.BROKER_REFUSED
        return Came.DEFECT

    @property
    def another_try(self) -> bool:
        """Whether another try can still become an answer that somebody waits for.

        An outage of the broker uses up no delivery. A failure before the model was asked, or after its
        answer was paid for, leaves nothing undone; but an answer of which the requester has some is not
        begun anew.
        """
        outage = self.came in (Came.PROVIDER_CUT_OFF, Came.BROKER_AWAY)
        if not outage and self.deliveries >= self.deliveries_allowed:
            return False
        if isinstance(self.result, Outcome):
            in_time = self.seconds_left > SECONDS_FOR_ANOTHER_TRY
            return in_time and not self.direct and self.heard is Heard.NOTHING
        return self.paid or self.heard is not Heard.SOME

    @property
    def pause(self) -> float:
        """Seconds before another try."""
        backoff = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (self.deliveries - 1)) * self.jitter
        cause = self.result.cause if isinstance(self.result, Outcome) else None
        asked = (cause.retry_after or 0.0) if isinstance(cause, ProviderError) else 0.0
        return max(min(asked, LONGEST_RETRY_AFTER), backoff)

    def _may_never_pass(self, cause: Exception | None) -> bool:
        """TrustGraph's completion service does not say why it failed; its clients do not wait to find out."""
        return self.trustgraph and isinstance(cause, ProviderUnexplained)


@dataclass(frozen=True, slots=True)
class SendOut:
    """Send the outcome: objects, answer, response. Then decide again."""


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Everything that was owed has been sent."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Have the broker deliver the message again in so many seconds. `ask_again`: what was asked is forgotten.

    `why` is for the log and has nothing of the contents of prompts and answers.
    """

    seconds: float
    why: str
    ask_again: bool


@dataclass(frozen=True, slots=True)
class WaitHere:
    """Keep the message and try again in this process. `counted`: it uses up a delivery. Else as `Retry`."""

    seconds: float
    why: str
    ask_again: bool
    counted: bool


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The message is done with and was not served. `answer`: tell the requester the error first.

    `dead_letter`: leave one, else only acknowledge. `forget`: a replay, or a requester who tries again under
    the same id, is asked anew. `why` as in `Retry`; `error` may contain content.
    """

    error: Error
    why: str
    answer: bool
    dead_letter: bool
    forget: bool


@dataclass(frozen=True, slots=True)
class Leave:
    """Settle nothing: the broker delivers the message to another worker."""


Disposition = SendOut | Acknowledge | Retry | WaitHere | GiveUp | Leave


def _failure(known: Known) -> tuple[Error, str]:
    """Why there is no answer: as the requester and a dead letter say it, and as the log may say it."""
    if known.ending:
        error = Error("shutting-down", "the worker is shutting down; ask again")
        return error, "the worker ended within the answer"
    match known.result:
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
    return Error("internal-error", type(known.result).__name__), "a defect of the worker"


def loggable(cause: ProviderError) -> str:
    """What of a provider's error may stand in a log."""
    return f"{cause.category}: {cause.loggable}" if cause.loggable else cause.category


def _may_pass(outcome: Outcome) -> bool:
    """Whether the same request may well succeed later."""
    failed = outcome.reason is Reason.PROVIDER_ERROR
    return failed and isinstance(outcome.cause, ProviderError) and outcome.cause.transient


def _is_away(error: BaseException | None) -> bool:
    return isinstance(error, BrokerUnavailable | BrokerClosed)


def _acknowledge(known: Known) -> Disposition:
    return Acknowledge()


def _leave(known: Known) -> Disposition:
    return Leave()


def _send_out(known: Known) -> Disposition:
    return SendOut()


def _retry(known: Known, *, ask_again: bool = False) -> Disposition:
    return Retry(known.pause, _failure(known)[1], ask_again)


def _pause(known: Known, *, ask_again: bool = False) -> Disposition:
    time = max(0.0, known.seconds_left - SECONDS_FOR_THE_LAST_TRY)
    seconds = min(known.pause, LONGEST_PAUSE, time)
    return WaitHere(seconds, _failure(known)[1], ask_again, counted=True)


def _wait_for_broker(known: Known, *, ask_again: bool = False) -> Disposition:
    return WaitHere(FIRST_PAUSE * known.jitter, _failure(known)[1], ask_again, counted=False)


_retry_and_ask_again = partial(_retry, ask_again=True)
_pause_and_ask_again = partial(_pause, ask_again=True)
_wait_and_ask_again = partial(_wait_for_broker, ask_again=True)


def _give_up(known: Known, *, answer: bool, dead_letter: bool) -> Disposition:
    """TrustGraph's services leave no dead letters, and a text completion is the requester's to ask again."""
    error, why = _failure(known)
    leaves_one = dead_letter and not known.completion and (known.persistent or not known.trustgraph)
    return GiveUp(error, why, answer, leaves_one, forget=not known.completion)


_bury = partial(_give_up, answer=False, dead_letter=True)
_refuse = partial(_give_up, answer=True, dead_letter=True)
_answer_with_error = partial(_give_up, answer=True, dead_letter=False)


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of the table: which situations it applies to (None: either), and what follows."""

    came: Collection[Came]
    follows: str
    then: Callable[[Known], Disposition]
    sent: bool | None = None
    ending: bool | None = None
    persistent: bool | None = None
    heard: Collection[Heard] = tuple(Heard)
    another_try: bool | None = None

    def applies(self, known: Known) -> bool:
        """Whether the situation is one of this row."""
        return (
            known.came in self.came
            and known.heard in self.heard
            and self.sent in (None, known.sent)
            and self.ending in (None, known.ending)
            and self.persistent in (None, known.persistent)
            and self.another_try in (None, known.another_try)
        )


_SERVED, _USELESS, _INVALID = {Came.SERVED}, {Came.USELESS}, {Came.INVALID}
_FAILED, _CUT_OFF, _AWAY = {Came.PROVIDER_FAILED}, {Came.PROVIDER_CUT_OFF}, {Came.BROKER_AWAY}
_TROUBLE = {Came.BROKER_REFUSED, Came.DEFECT}
_SOME, _NOT_SOME, _NOTHING = {Heard.SOME}, {Heard.NOTHING, Heard.ALL}, {Heard.NOTHING}

RULES: Final = (
    Rule(_SERVED, "acknowledge", _acknowledge, sent=True),
    Rule(_USELESS | _FAILED | _CUT_OFF, "dead letter", _bury, sent=True),
    Rule(_SERVED, "acknowledge", _acknowledge, ending=True, heard={Heard.ALL}),
    Rule(set(Came), "leave it for others", _leave, ending=True, persistent=True, heard=_NOT_SOME),
    Rule(set(Came), "error answer, dead letter", _refuse, ending=True, persistent=True, heard=_SOME),
    Rule(set(Came), "error answer", _answer_with_error, ending=True, persistent=False),
    Rule(_SERVED | _USELESS, "send it and decide again", _send_out),
    Rule(_CUT_OFF, "wait here for the broker, ask again", _wait_and_ask_again, another_try=True),
    Rule(_FAILED, "retry, ask again", _retry_and_ask_again, persistent=True, another_try=True),
    Rule(_FAILED, "wait here, ask again", _pause_and_ask_again, persistent=False, another_try=True),
    Rule(_FAILED | _CUT_OFF, "send it and decide again", _send_out, another_try=False),
    Rule(_AWAY, "wait here for the broker", _wait_for_broker, another_try=True),
    Rule(_TROUBLE, "retry", _retry, persistent=True, heard=_NOTHING, another_try=True),
    Rule(_TROUBLE, "wait here", _pause, another_try=True),
    Rule(_AWAY | _TROUBLE | _INVALID, "error answer, dead letter", _refuse),
)
"""From top to bottom, the first that applies."""


def decide(known: Known) -> Disposition:
    """What becomes of a message now."""
    return next(rule for rule in RULES if rule.applies(known)).then(known)
