from __future__ import annotations

import pytest

from trustgraph_prompt.broker import topics
from trustgraph_prompt.errors import TopicInvalid


@pytest.mark.parametrize(
    ("name", "topic"),
    [
        ("flow:tg:triples-store:default:f", "persistent://tg/flow/triples-store:default:f"),
        ("request:tg:prompt:default:f", "non-persistent://tg/request/prompt:default:f"),
        ("response:tg:prompt:default:f", "non-persistent://tg/response/prompt:default:f"),
        ("notify:tg:config", "non-persistent://tg/notify/config"),
    ],
)
def test_queue_names_and_topics_are_each_others_inverse(name: str, topic: str) -> None:
    assert topics.resolve(name) == topic
    assert topics.queue_name(topic) == name


@pytest.mark.parametrize("topic", ["persistent://tg/config/prompt", "persistent://tg/request/kept"])
def test_topic_that_is_no_queue_stays_a_uri(topic: str) -> None:
    assert topics.resolve(topic) == topic
    assert topics.queue_name(topic) == topic


@pytest.mark.parametrize(
    "nonsense",
    [
        "",
        "x",
        "flow",
        "flow:tg",
        "flow:tg:",
        "flow::x",
        "queue:tg:x",
        "FLOW:tg:x",
        "flow:tg:a/b",
        "flow:t g:x",
        "flow:tg:a b",
        "flow:tg:a\x00",
        "flow:tg:a\ud800",
        "persistent://tg/flow/\udfff",
        "kafka://tg/flow/x",
        "persistent://tg/flow",
        "persistent://tg/flow/",
        "persistent://tg//x",
        "persistent://tg/flow/a/b",
        "persistent://tg/flow/a\nb",
        " persistent://tg/flow/a",
        "flow:tg:" + "x" * 10_000,
    ],
)
def test_malformed_topic_is_refused_with_a_short_message(nonsense: str) -> None:
    with pytest.raises(TopicInvalid) as refusal:
        topics.resolve(nonsense)
    assert len(str(refusal.value)) < 1000


def test_class_of_a_queue_name_decides_whether_its_topic_is_persistent() -> None:
    assert topics.is_persistent("flow:tg:x")
    assert not topics.is_persistent("request:tg:x")
    assert not topics.is_persistent("non-persistent://tg/flow/x")


def test_subscription_has_retry_and_dead_letter_topics_of_its_own() -> None:
    assert topics.retry_topic("flow:tg:x", "s--a") == "persistent://tg/flow/x-s--a-RETRY"
    assert topics.dead_letter_topic("flow:tg:x", "s--a") == "persistent://tg/flow/x-s--a-DLQ"


def test_retries_of_the_bundled_dead_letter_subscription_stay_on_its_topic() -> None:
    assert topics.retry_topic("flow:tg:x-s-DLQ", "dead") == "persistent://tg/flow/x-s-DLQ"
    assert topics.retry_topic("flow:tg:x-s-DLQ", "mine") == "persistent://tg/flow/x-s-DLQ-mine-RETRY"


def test_dead_letters_of_a_non_persistent_topic_are_kept() -> None:
    assert topics.dead_letter_topic("request:tg:x", "s") == "persistent://tg/request/x-s-DLQ"


def test_non_persistent_topic_has_no_retry() -> None:
    with pytest.raises(TopicInvalid, match="not persistent"):
        topics.retry_topic("request:tg:x", "s")


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a\n", "x" * 10_000])
def test_subscription_needs_a_name_that_fits_into_a_topic(name: str) -> None:
    with pytest.raises(TopicInvalid):
        topics.check_subscription(name)
