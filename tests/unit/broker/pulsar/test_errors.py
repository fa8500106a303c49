"""Every error of the client is one of ours, and says what can be done."""

from __future__ import annotations

import pytest
from pulsar import Result
from pulsar.asyncio import PulsarException

from trustgraph_prompt.broker.pulsar.errors import translating
from trustgraph_prompt.errors import (
    BrokerClosed,
    BrokerError,
    BrokerUnavailable,
    MessageTooLarge,
    SubscriptionBusy,
    TopicInvalid,
)

FAILURES = [code for name, code in Result.__members__.items() if name != "Ok"]


@pytest.mark.parametrize("code", FAILURES, ids=lambda code: str(code.name))
def test_every_failure_of_pulsars_client_is_an_error_of_ours(code: Result) -> None:
    with (
        pytest.raises(BrokerError, match=r"^persistent://tg/flow/x: .*the detail$"),
        translating("persistent://tg/flow/x"),
    ):
        raise PulsarException(code, "the detail")


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("Timeout", BrokerUnavailable),
        ("ConnectError", BrokerUnavailable),
        ("ProducerQueueIsFull", BrokerUnavailable),
        ("TopicNotFound", TopicInvalid),
        ("InvalidTopicName", TopicInvalid),
        ("ConsumerBusy", SubscriptionBusy),
        ("MessageTooBig", MessageTooLarge),
        ("AlreadyClosed", BrokerClosed),
    ],
)
def test_each_result_of_the_client_has_its_class_of_error(name: str, error: type[BrokerError]) -> None:
    with pytest.raises(error), translating("persistent://tg/flow/x"):
        raise PulsarException(Result.__members__[name])


def test_authorization_error_is_not_an_unavailable_broker() -> None:
    with pytest.raises(BrokerError) as refusal, translating("persistent://tg/flow/x"):
        raise PulsarException(Result.__members__["AuthorizationError"])
    assert not isinstance(refusal.value, BrokerUnavailable)


def test_topic_not_found_mentions_that_its_namespace_may_be_missing() -> None:
    with (
        pytest.raises(TopicInvalid, match=r"tenant or its namespace does not exist .*`topics create`"),
        translating("persistent://nosuch/work/x"),
    ):
        raise PulsarException(Result.__members__["TopicNotFound"])
