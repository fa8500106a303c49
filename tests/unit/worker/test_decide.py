"""What becomes of a message: the table of `dispositions.md`, and what each situation leads to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from errno import ECONNRESET, EMFILE, ENFILE
from itertools import product
from math import inf
from typing import Any

import pytest

from tests.support.guides import guide_page
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import (
    BrokerClosed,
    BrokerError,
    BrokerUnavailable,
    MessageTooLarge,
    ProviderAuthentication,
    ProviderError,
    ProviderPaused,
    ProviderRateLimit,
    ProviderUnavailable,
    ProviderUnexplained,
    Reason,
    RenderError,
    RequestError,
)
from trustgraph_prompt.llm.circuit import Circuit, ProviderAway
from trustgraph_prompt.reader import CallReport, Outcome, read
from trustgraph_prompt.worker.decide import (
    RULES,
    UNCOUNTED,
    Acknowledge,
    AnswerSent,
    AwaitProvider,
    Begin,
    GiveUp,
    Leave,
    Result,
    Retry,
    Rule,
    SendOut,
    Situation,
    StepResult,
    WaitHere,
    decide,
    rule_for,
)
from trustgraph_prompt.worker.messages.answer_record import is_served

PAGE = guide_page("dispositions.md")


def failed(cause: ProviderError) -> Outcome:
    return Outcome(None, Reason.PROVIDER_ERROR, Contract.from_schema(None, format="json"), cause=cause)


def unreachable(why: Exception) -> Outcome:
    error = ProviderUnavailable("no answer")
    error.__cause__ = why
    return failed(error)


def refused(why: Exception) -> BrokerError:
    error = BrokerError("no answer")
    error.__cause__ = why
    return error


SERVED = read("[1]", "json")
NOTHING = read("[]", "jsonl")
PROSE = read("I'm sorry, I can't do that.", "jsonl")
BLANK = read(" ", "jsonl")
REFUSED_ALL = read('{"a": 1}', Contract.from_schema({"required": ["b"]}, format="jsonl"))
UNSENDABLE = replace(NOTHING, reason=Reason.TOO_LARGE)
USELESS = read("no json", "json")
DOWN = failed(ProviderUnavailable("down"))
SLOW = failed(ProviderRateLimit("too fast", retry_after=100.0))
ENDLESS = failed(ProviderRateLimit("too fast", retry_after=1e9))
PAUSED = failed(ProviderPaused("no calls for 300 seconds", retry_after=300.0))
PAUSED_LATER = replace(PAUSED, calls=(CallReport("first", ""),))
AWAY_MODEL = failed(ProviderAway(Circuit()))
OWN = failed(ProviderAway(Circuit(), own=True))
SUSPECT = failed(ProviderAway(Circuit(), suspect=True))
INTERRUPTED = replace(SERVED, truncated=True, cause=ProviderAway(Circuit()))
FORBIDDEN = failed(ProviderAuthentication("who are you?"))
UNEXPLAINED = failed(ProviderUnexplained("no"))
UNREACHABLE = unreachable(BrokerUnavailable("away"))
FULL = OSError(EMFILE, "Too many open files")
UNCONNECTED = unreachable(FULL)
UNSENT = refused(OSError(ENFILE, "Too many open files in system"))
HUNG_UP = unreachable(OSError(ECONNRESET, "Connection reset by peer"))
AWAY = BrokerUnavailable("away")
CLOSED = BrokerClosed("gone")
REFUSED = BrokerError("not allowed")
DEFECT = ZeroDivisionError("a defect")
TOO_LARGE = MessageTooLarge("6 MB")
NO_REQUEST = RequestError("no id")
NO_TEMPLATE = RenderError("no")

ONE_OF_EACH: list[Result | None] = [
    *(None, SERVED, PROSE, USELESS, DOWN, FORBIDDEN, UNEXPLAINED, PAUSED, UNREACHABLE, AWAY, CLOSED, REFUSED),
    *(AWAY_MODEL, SUSPECT, OWN, INTERRUPTED),
    *(UNCONNECTED, FULL, UNSENT, HUNG_UP, DEFECT, TOO_LARGE, NO_REQUEST, NO_TEMPLATE),
]


def known(result: Result | None, **facts: Any) -> Situation:
    return Situation(**{"result": result, "deliveries_allowed": 3, "persistent": True, **facts})


LAST = {"deliveries": 3}
VOLATILE = {"persistent": False}
ENDING = {"ending": True}
STREAMED = {"answer_sent": AnswerSent.SOME}
SENT = {"sent": True, "answer_sent": AnswerSent.ALL}
REPEATED = {"answer_sent": AnswerSent.ALL, "paid": True}
TRUSTGRAPH = {"trustgraph": True, **VOLATILE}
COMPLETION = {"completion": True}
ANSWERING = {"unusable": "answer"}

#: A situation, and what becomes of the message, in the words of the function `said`.
SITUATIONS: list[tuple[Result | None, dict[str, Any], str]] = [
    # The question is put, unless too many workers have died of it.
    (None, {}, "ask"),
    (None, LAST, "ask"),
    (None, REPEATED, "ask"),
    (None, REPEATED | SENT, "ask"),
    (None, {"crashes": 2, "crashes_allowed": 3}, "ask"),
    (None, {"crashes": 3, "crashes_allowed": 3}, "answer, dead letter worker-crashed"),
    (None, {"crashes": 3, "crashes_allowed": 3} | COMPLETION, "answer, give up worker-crashed"),
    (None, {"crashes": 3, "crashes_allowed": 3} | ENDING, "leave"),
    (DOWN, {"crashes": 3, "crashes_allowed": 3}, "retry in 1, ask again"),
    # An answer is sent first, whatever it is worth; then it is settled.
    (SERVED, {}, "send"),
    (NOTHING, {}, "send"),
    (PROSE, {}, "send"),
    (USELESS, {}, "send"),
    (FORBIDDEN, {}, "send"),
    (SERVED, REPEATED, "send"),
    (SERVED, SENT, "acknowledge"),
    (NOTHING, SENT, "acknowledge"),
    (UNSENDABLE, SENT, "acknowledge"),
    # What becomes of an answer without use is the flow's choice.
    (PROSE, SENT, "dead letter unusable-answer"),
    (BLANK, SENT, "dead letter unusable-answer"),
    (REFUSED_ALL, SENT, "dead letter unusable-answer"),
    (PROSE, SENT | VOLATILE, "dead letter unusable-answer"),
    (PROSE, SENT | LAST, "dead letter unusable-answer"),
    (PROSE, SENT | ANSWERING, "acknowledge"),
    (BLANK, SENT | ANSWERING, "acknowledge"),
    (REFUSED_ALL, SENT | ANSWERING, "acknowledge"),
    (PROSE, SENT | TRUSTGRAPH | ANSWERING, "acknowledge"),
    (NOTHING, SENT | ANSWERING, "acknowledge"),
    (PROSE, ENDING | REPEATED, "dead letter unusable-answer"),
    (PROSE, ENDING | REPEATED | ANSWERING, "acknowledge"),
    (USELESS, SENT | ANSWERING, "dead letter unusable-answer"),
    # Other answers and errors are nobody's choice.
    (USELESS, SENT, "dead letter unusable-answer"),
    (FORBIDDEN, SENT, "dead letter llm-error"),
    (DOWN, SENT | LAST, "dead letter llm-error"),
    (UNREACHABLE, SENT, "dead letter llm-error"),
    (SERVED, SENT | COMPLETION, "acknowledge"),
    (DOWN, SENT | COMPLETION, "give up llm-error"),
    (DOWN, SENT | TRUSTGRAPH, "give up llm-error"),
    (USELESS, SENT | VOLATILE, "dead letter unusable-answer"),
    # A provider that may recover is asked again, while that is of use to the requester.
    (DOWN, {}, "retry in 1, ask again"),
    (DOWN, {"deliveries": 2}, "retry in 2, ask again"),
    (DOWN, {"deliveries": 9, "deliveries_allowed": 20}, "retry in 60, ask again"),
    (SLOW, {}, "retry in 100, ask again"),
    (ENDLESS, {}, "retry in 300, ask again"),
    (ENDLESS, {"seconds_left": 25.0}, "retry in 15, ask again"),
    (ENDLESS, {"seconds_left": 7.0}, "retry in 1, ask again"),
    (DOWN, VOLATILE, "wait 1, ask again, counted"),
    (SLOW, VOLATILE, "wait 60, ask again, counted"),
    (SLOW, VOLATILE | {"seconds_left": 40.0}, "wait 30, ask again, counted"),
    (SLOW, VOLATILE | {"seconds_left": 7.0}, "wait 1, ask again, counted"),
    (SLOW, VOLATILE | {"seconds_left": 5.0}, "send"),
    (DOWN, {"seconds_left": -1.0}, "send"),
    (DOWN, LAST, "send"),
    (DOWN, VOLATILE | LAST, "send"),
    (DOWN, STREAMED, "send"),
    (DOWN, REPEATED, "send"),
    (DOWN, COMPLETION, "retry in 1, ask again"),
    (DOWN, COMPLETION | {"direct": True}, "send"),
    (UNEXPLAINED, {}, "retry in 1, ask again"),
    (UNEXPLAINED, TRUSTGRAPH, "send"),
    # A call that was never made uses up no delivery.
    (PAUSED, LAST, "retry in 300, ask again, not counted"),
    (PAUSED, LAST | {"seconds_left": 25.0}, "retry in 15, ask again, not counted"),
    (PAUSED, LAST | VOLATILE, "wait 60, ask again"),
    (PAUSED, LAST | VOLATILE | {"seconds_left": 25.0}, "wait 15, ask again"),
    (PAUSED, {"seconds_left": 5.0}, "send"),
    (PAUSED, STREAMED, "send"),
    (PAUSED, SENT, "dead letter llm-error"),
    (PAUSED, COMPLETION | {"direct": True}, "send"),
    (PAUSED_LATER, {}, "retry in 300, ask again"),
    (PAUSED_LATER, LAST, "send"),
    # A model that is away is waited for, while somebody waits for the answer.
    (AWAY_MODEL, LAST, "wait for the provider"),
    (AWAY_MODEL, LAST | VOLATILE, "wait for the provider"),
    (AWAY_MODEL, {"seconds_left": 30.0}, "wait for the provider, 25"),
    (AWAY_MODEL, {"seconds_left": 5.0}, "send"),
    (AWAY_MODEL, COMPLETION | {"direct": True}, "wait for the provider"),
    (AWAY_MODEL, STREAMED, "send"),
    # What an outage interrupted begins anew, unless the requester has some of it, or no time is left.
    (INTERRUPTED, LAST, "wait for the provider"),
    (INTERRUPTED, STREAMED, "send"),
    (INTERRUPTED, {"seconds_left": 5.0}, "send"),
    (INTERRUPTED, SENT, "acknowledge"),
    (INTERRUPTED, ENDING, "leave"),
    (AWAY_MODEL, SENT, "dead letter llm-error"),
    (SUSPECT, {}, "retry in 1, ask again, not counted"),
    (OWN, {}, "retry in 1, ask again"),
    (OWN, LAST, "send"),
    (SUSPECT, LAST | VOLATILE, "wait for the provider"),
    (SUSPECT, COMPLETION | {"direct": True}, "wait for the provider"),
    # An outage of the broker uses up no delivery, and nothing that was paid for is asked again.
    (UNREACHABLE, LAST, "wait 1, ask again"),
    (UNREACHABLE, LAST | VOLATILE, "wait 1, ask again"),
    (UNREACHABLE, STREAMED, "send"),
    (UNREACHABLE, {"seconds_left": 3.0}, "send"),
    (AWAY, LAST, "wait 1"),
    (CLOSED, LAST, "wait 1"),
    (AWAY, STREAMED | {"paid": True}, "wait 1"),
    (AWAY, STREAMED, "answer, dead letter broker-error"),
    # A process without file descriptors is its own trouble, and no request's.
    (UNCONNECTED, LAST, "wait 5, ask again"),
    (UNCONNECTED, LAST | VOLATILE, "wait 5, ask again"),
    (UNCONNECTED, {"seconds_left": 3.0}, "send"),
    (UNCONNECTED, STREAMED, "send"),
    (FULL, LAST, "wait 5"),
    (UNSENT, LAST | {"paid": True}, "wait 5"),
    (HUNG_UP, LAST, "send"),
    # Other trouble is tried again; what streamed already, only by the process that knows it.
    (REFUSED, {}, "retry in 1"),
    (REFUSED, {"paid": True}, "retry in 1"),
    (REFUSED, VOLATILE, "wait 1, counted"),
    (REFUSED, STREAMED | {"paid": True}, "wait 1, counted"),
    (REFUSED, STREAMED, "answer, dead letter broker-error"),
    (REFUSED, LAST, "answer, dead letter broker-error"),
    (REFUSED, {"seconds_left": -1.0}, "retry in 1"),  # the objects are still worth publishing
    (REFUSED, VOLATILE | {"seconds_left": 3.0, "paid": True}, "answer, dead letter broker-error"),
    (REFUSED, VOLATILE | {"seconds_left": 8.0, "paid": True}, "wait 1, counted"),
    (AWAY, VOLATILE | {"seconds_left": -1.0, "paid": True}, "wait 1"),
    (DEFECT, {}, "retry in 1"),
    (DEFECT, LAST, "answer, dead letter internal-error"),
    (DEFECT, STREAMED, "answer, dead letter internal-error"),
    (FULL, STREAMED, "answer, dead letter internal-error"),
    (DEFECT, STREAMED | VOLATILE | COMPLETION, "answer, give up internal-error"),
    # What no other try can mend.
    (NO_REQUEST, {}, "answer, dead letter invalid-request"),
    (NO_TEMPLATE, {}, "answer, dead letter template-error"),
    (TOO_LARGE, {"paid": True}, "answer, dead letter too-large"),
    (NO_REQUEST, TRUSTGRAPH, "answer, give up invalid-request"),
    (NO_REQUEST, COMPLETION, "answer, give up invalid-request"),
    # The worker ends.
    (None, ENDING, "leave"),
    (SERVED, ENDING | {"paid": True}, "leave"),
    (None, ENDING | STREAMED, "answer, dead letter shutting-down"),
    (SERVED, ENDING | STREAMED, "answer, dead letter shutting-down"),
    (None, ENDING | STREAMED | COMPLETION, "answer, give up shutting-down"),
    (None, ENDING | VOLATILE, "answer, give up shutting-down"),
    (None, ENDING | VOLATILE | STREAMED, "answer, give up shutting-down"),
    (SERVED, ENDING | SENT, "acknowledge"),
    (SERVED, ENDING | REPEATED, "acknowledge"),
    (USELESS, ENDING | REPEATED, "dead letter unusable-answer"),
    (USELESS, ENDING | SENT, "dead letter unusable-answer"),
    (DOWN, ENDING | SENT | COMPLETION, "give up llm-error"),
    (USELESS, ENDING | REPEATED | TRUSTGRAPH, "give up unusable-answer"),
]


def said(known: Situation) -> str:
    match decide(known):
        case Begin():
            return "ask"
        case SendOut():
            return "send"
        case Acknowledge():
            return "acknowledge"
        case Leave():
            return "leave"
        case Retry(seconds, _, ask_again, counted):
            return f"retry in {seconds:g}" + ", ask again" * ask_again + ", not counted" * (not counted)
        case WaitHere(seconds, _, ask_again, counted):
            return f"wait {seconds:g}" + ", ask again" * ask_again + ", counted" * counted
        case AwaitProvider(_, seconds):
            return "wait for the provider" + (f", {seconds:g}" if seconds is not None else "")
        case GiveUp(error, _, answer, dead_letter):
            how = "dead letter" if dead_letter else "give up"
            return "answer, " * answer + f"{how} {error.type}"


@pytest.mark.parametrize(("result", "facts", "expected"), SITUATIONS)
def test_disposition_of_each_situation(result: Result | None, facts: dict[str, Any], expected: str) -> None:
    assert said(known(result, **facts)) == expected


def every_situation() -> Iterator[Situation]:
    either = (False, True)
    for result, unusable, deliveries, persistent, trustgraph, completion in product(
        ONE_OF_EACH, ("dead-letter", "answer"), (1, 3), either, either, either
    ):
        for direct, paid, sent, heard, left, ending, crashes in product(
            either, either, either, AnswerSent, (inf, 3.0), either, (0, 3)
        ):
            yield known(
                result,
                unusable=unusable,
                deliveries=deliveries,
                persistent=persistent,
                trustgraph=trustgraph,
                completion=completion,
                direct=direct,
                paid=paid,
                sent=sent,
                answer_sent=heard,
                seconds_left=left,
                ending=ending,
                crashes=crashes,
                crashes_allowed=3,
            )


def possible(known: Situation) -> bool:
    """Whether the work on a message can get there."""
    asked = isinstance(known.result, Outcome)
    return (
        (not asked or known.paid)
        and (not known.sent or known.answer_sent is AnswerSent.ALL)
        and (known.answer_sent is not AnswerSent.ALL or known.paid)
        and (not known.ending or asked or known.result is None)
    )


def test_every_situation_has_a_rule_and_every_rule_a_situation() -> None:
    used: set[int] = set()
    for situation in filter(possible, every_situation()):
        decide(situation)
        used.add(RULES.index(rule_for(situation)))
    assert used == set(range(len(RULES)))


def test_no_message_is_lost_or_worked_on_without_end() -> None:
    for situation in filter(possible, every_situation()):
        disposition = decide(situation)
        if isinstance(disposition, Acknowledge):
            assert isinstance(situation.result, Outcome)
            assert is_served(situation.result, situation.unusable)
            assert situation.answer_sent is AnswerSent.ALL
        if isinstance(disposition, SendOut):
            assert not situation.sent
        if isinstance(disposition, Retry | Leave):
            assert situation.persistent
        if isinstance(disposition, Retry | WaitHere):
            if disposition.counted:
                assert situation.deliveries < situation.deliveries_allowed
            else:
                assert situation.step_result in UNCOUNTED
        if isinstance(disposition, AwaitProvider):
            assert situation.step_result in UNCOUNTED
        if isinstance(disposition, Retry | WaitHere | AwaitProvider | SendOut | Begin):
            assert not situation.ending
        if isinstance(disposition, Begin):
            assert situation.crashes < situation.crashes_allowed


def test_pauses_have_jitter() -> None:
    assert said(known(DOWN, deliveries=2, jitter=0.5)) == "retry in 1, ask again"
    assert said(known(SLOW, jitter=0.5)) == "retry in 100, ask again"
    assert said(known(AWAY, jitter=0.5)) == "wait 0.5"


def test_reason_for_the_log_has_nothing_of_the_content() -> None:
    error = ProviderAuthentication("Jane's key is wrong", loggable="HTTP 401")
    for result in (failed(error), read('{"a": "Jane"}', Contract.from_schema({"required": ["b"]}))):
        disposition = decide(known(result, sent=True, answer_sent=AnswerSent.ALL))
        assert isinstance(disposition, GiveUp)
        assert "Jane" not in disposition.why


def table() -> str:
    """The rules, as the page has them."""
    columns = ["what came", "sent", "worker ends", "topic", "requester has", "`unusable`", "another try"]
    lines = [f"| {' | '.join([*columns, 'what follows'])} |", "|---" * 8 + "|"]
    return "\n".join(lines + [row(rule) for rule in RULES])


def row(rule: Rule) -> str:
    def either(fact: bool | None, yes: str = "yes", no: str = "no") -> str:
        return "" if fact is None else yes if fact else no

    cells = [
        "anything"
        if len(rule.step_results) == len(StepResult)
        else "; ".join(c for c in StepResult if c in rule.step_results),
        either(rule.sent),
        either(rule.ending),
        either(rule.persistent, "persistent", "non-persistent"),
        ""
        if len(rule.answer_sent) == len(AnswerSent)
        else " or ".join(h for h in AnswerSent if h in rule.answer_sent),
        rule.unusable or "",
        either(rule.another_try),
        rule.action.description,
    ]
    return "| " + " | ".join(cells) + " |"


def test_page_of_dispositions_shows_the_table() -> None:
    assert table() in PAGE.read_text(), f"docs/reference/dispositions.md must have this table:\n\n{table()}"


def test_error_says_that_file_descriptors_ran_out() -> None:
    disposition = decide(known(FULL, answer_sent=AnswerSent.SOME))
    assert isinstance(disposition, GiveUp)
    assert "out of file descriptors" in disposition.why
    assert "out of file descriptors" in disposition.error.message


def test_reason_of_an_outage_is_named_once() -> None:
    async def main() -> None:
        circuit = Circuit()
        circuit.open(ProviderAuthentication("no", loggable="HTTP 401"))
        gone = decide(known(failed(ProviderAway(circuit)), sent=True, answer_sent=AnswerSent.ALL))
        assert isinstance(gone, GiveUp)
        assert gone.error.message == "the model is away: provider_authentication: HTTP 401"
        assert gone.why == "provider_authentication: HTTP 401"
        circuit.close()

    asyncio.run(main())
