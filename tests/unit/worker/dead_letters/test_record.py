"""Of what requests die: each type can be asked for (`dead list --error`)."""

from __future__ import annotations

import pytest

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import (
    BrokerClosed,
    BrokerUnavailable,
    MessageTooLarge,
    ProviderAuthentication,
    ProviderUnavailable,
    Reason,
    RenderError,
    RequestError,
)
from trustgraph_prompt.prompts import PromptSet
from trustgraph_prompt.reader import Outcome, read
from trustgraph_prompt.worker.dead_letters.letters import ERRORS
from trustgraph_prompt.worker.decide import AnswerSent, GiveUp, Situation, decide


def failed(cause: Exception) -> Outcome:
    contract = Contract.from_schema(None, format="json")
    return Outcome(None, Reason.PROVIDER_ERROR, contract, cause=cause)


def unknown_prompt() -> RequestError:
    with pytest.raises(RequestError) as raised:
        PromptSet.build({}).question("nosuch", {})
    return raised.value


def missing_term() -> RequestError:
    prompts = PromptSet.build({"template.say": '{"prompt": "{{ text }}", "dialect": "jinja"}'})
    with pytest.raises(RequestError) as raised:
        prompts.question("say", {})
    return raised.value


RESULTS = [
    read("no json", "json"),
    failed(ProviderUnavailable("down")),
    failed(ProviderAuthentication("who are you?")),
    RequestError("no request"),
    unknown_prompt(),
    missing_term(),
    RenderError("division by zero"),
    MessageTooLarge("too much"),
    BrokerUnavailable("away"),
    BrokerClosed("gone"),
    ValueError("a defect"),
]


@pytest.mark.parametrize("result", RESULTS, ids=lambda result: type(result).__name__)
def test_every_error_of_a_dead_letter_can_be_filtered_by(result: Outcome | Exception) -> None:
    sent = isinstance(result, Outcome)
    heard = AnswerSent.NOTHING if sent else AnswerSent.SOME  # so that even an outage is no reason to wait

    disposition = decide(
        Situation(result=result, deliveries_allowed=1, persistent=True, sent=sent, answer_sent=heard)
    )

    assert isinstance(disposition, GiveUp)
    assert disposition.dead_letter
    assert disposition.error.type in ERRORS
