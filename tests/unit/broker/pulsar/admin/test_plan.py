"""What flows need on a broker, and the steps that make it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from trustgraph_prompt import package_data
from trustgraph_prompt.broker.pulsar.admin.client import admin_url
from trustgraph_prompt.broker.pulsar.admin.plan import (
    Finding,
    Found,
    FoundTopic,
    RequiredTopics,
    Topic,
    compare,
)
from trustgraph_prompt.errors import ConfigError, TopicInvalid
from trustgraph_prompt.worker import flow_file
from trustgraph_prompt.worker.flow import Flow, Input, Outputs, TopicChoice
from trustgraph_prompt.worker.required_topics import required_topics

CONFIG = "persistent://tg/config/prompt"

FLOW = Flow(
    name="f",
    input=Input("persistent://tg/flow/requests", "prompt--default--f--request"),
    outputs=Outputs(
        answers="persistent://tg/flow/answers",
        response="non-persistent://tg/response/responses",
        objects={"": "persistent://tg/flow/objects"},
    ),
)


def needed(*flows: Flow) -> dict[str, Topic]:
    return {topic.name: topic for topic in required_topics(flows, CONFIG).topics}


def found(wanted: RequiredTopics, **changes: object) -> Found:
    """A broker on which all that is wanted is there."""
    topics = {
        topic.name: FoundTopic(frozenset(topic.subscriptions), compaction=1, kept=True)
        for topic in wanted.topics
    }
    tenants = frozenset(name.partition("/")[0] for name in wanted.namespaces)
    namespaces: dict[str, dict[str, Any]] = {name: {} for name in wanted.namespaces}
    return replace(Found(("c1",), tenants, namespaces, topics), **changes)  # type: ignore[arg-type]


def amiss(findings: list[Finding]) -> list[tuple[str, str, str | None]]:
    return [(finding.state, finding.name, finding.of) for finding in findings if finding.state != "ok"]


def steps(wanted: RequiredTopics, found: Found) -> list[str]:
    return [finding.step.what for finding in compare(wanted, found) if finding.step]


def test_persistent_input_is_subscribed_with_its_retries_and_its_dead_letters() -> None:
    topics = needed(FLOW)
    requests, name = "persistent://tg/flow/requests", "prompt--default--f--request"
    assert topics[requests] == Topic(requests, (name,))
    assert topics[f"{requests}-{name}-RETRY"].subscriptions == (name,)
    assert topics[f"{requests}-{name}-DLQ"].subscriptions == ("dead",)


def test_non_persistent_topic_needs_its_namespace_and_dead_letters_only() -> None:
    volatile = replace(FLOW, input=Input("non-persistent://tg/request/prompt", "s"))
    wanted = required_topics([volatile], CONFIG)
    of_request = [topic.name for topic in wanted.topics if topic.namespace == "tg/request"]
    assert of_request == ["persistent://tg/request/prompt-s-DLQ"]
    assert set(wanted.namespaces) == {"tg/config", "tg/flow", "tg/request", "tg/response"}


def test_config_answer_and_work_topics_are_tables_and_object_topics_are_not() -> None:
    tables = {name for name, topic in needed(FLOW).items() if topic.table}
    in_work = "persistent://tg/flow/requests-prompt--default--f--request-WORK"
    config = {CONFIG, *(f"{CONFIG}-{beside}" for beside in ("report", "owners", "history", "canary"))}
    assert tables == {*config, "persistent://tg/flow/answers", in_work}
    assert needed(FLOW)["persistent://tg/flow/objects"] == Topic("persistent://tg/flow/objects")


def test_topics_of_a_topic_provider_are_needed_too() -> None:
    over = TopicChoice("persistent://tg/llm/ask", "non-persistent://tg/llm-answers/said")
    wanted = required_topics([replace(FLOW, provider=over)], CONFIG)
    assert Topic("persistent://tg/llm/ask") in wanted.topics
    assert "tg/llm-answers" in wanted.namespaces


def test_topic_of_two_flows_has_two_subscriptions() -> None:
    second = replace(FLOW, name="g", input=replace(FLOW.input, subscription="other"))
    wanted = required_topics([FLOW, second], CONFIG)
    assert len({topic.name for topic in wanted.topics}) == len(wanted.topics)
    [requests] = [topic for topic in wanted.topics if topic.name == FLOW.input.topic]
    assert requests.subscriptions == ("prompt--default--f--request", "other")


def test_topic_between_two_flows_is_subscribed() -> None:
    next_flow = replace(FLOW, name="g", input=Input("persistent://tg/flow/objects", "next"))
    assert needed(FLOW, next_flow)["persistent://tg/flow/objects"].subscriptions == ("next",)


def test_bundled_flows_are_subscribed_under_the_id_of_the_processor() -> None:
    served = flow_file.load(package_data.flows(), processor="mine")
    subscriptions = {name for topic in required_topics(served, CONFIG).topics for name in topic.subscriptions}
    names = ("chunks", "knowledge-graph", "requests")
    assert subscriptions == {"dead", *(f"mine--default--{name}--request" for name in names)}


def test_flow_whose_dead_letter_topic_would_be_too_long_is_refused() -> None:
    long = replace(FLOW, input=Input("persistent://tg/flow/" + "x" * 480, "prompt--default--f--request"))
    with pytest.raises(TopicInvalid, match="512"):
        required_topics([long], CONFIG)


def test_only_a_namespace_of_tables_alone_keeps_everything() -> None:
    namespaces = required_topics([FLOW], CONFIG).namespaces
    keeps = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
    assert namespaces["tg/config"]["retention_policies"] == keeps
    assert namespaces["tg/config"]["compaction_threshold"] > 0
    assert namespaces["tg/flow"] == {}
    assert required_topics([FLOW], "persistent://tg/flow/config").namespaces["tg/flow"] == {}


def test_table_beside_a_non_persistent_topic_shares_its_namespace() -> None:
    wanted = RequiredTopics.of([Topic("persistent://t/n/table", table=True), Topic("non-persistent://t/n/x")])
    assert wanted.namespaces == {"t/n": {}}


def test_trustgraph_needs_the_namespaces_of_its_classes() -> None:
    wanted = RequiredTopics.of_trustgraph()
    assert wanted.topics == ()
    kept = {name: policies.get("retention_policies") for name, policies in wanted.namespaces.items()}
    brief = {"retentionTimeInMinutes": 3, "retentionSizeInMB": -1}
    assert kept == {"tg/flow": None, "tg/request": None, "tg/response": brief, "tg/notify": brief}


def test_on_an_empty_broker_everything_is_missing_and_is_made_in_order() -> None:
    wanted = required_topics([FLOW], CONFIG)
    findings = compare(wanted, Found(("c1", "c2")))
    assert {finding.state for finding in findings} == {"missing"}
    planned = [finding.step for finding in findings if finding.step]
    assert len(planned) == len(findings)
    # the namespace of the config topic is made so that its topics need no policies of their own
    assert CONFIG not in {finding.of for finding in findings if finding.kind == "policy"}
    assert (planned[0].what, planned[0].path) == ("create tenant tg, for c1, c2", "tenants/tg")
    assert planned[0].body["allowedClusters"] == ["c1", "c2"]
    paths = [step.path for step in planned]
    topic = "persistent/tg/flow/requests"
    assert paths.index("namespaces/tg/flow") < paths.index(topic)
    assert paths.index(topic) < paths.index(f"{topic}/subscription/prompt--default--f--request")


def test_complete_broker_needs_no_step() -> None:
    wanted = required_topics([FLOW], CONFIG)
    findings = compare(wanted, found(wanted))
    assert findings
    assert {finding.state for finding in findings} == {"ok"}
    assert [finding.step for finding in findings if finding.step] == []


def test_new_flow_on_a_prepared_broker_adds_only_its_own_topics() -> None:
    there = required_topics([FLOW], CONFIG)
    second = replace(FLOW, name="g", input=replace(FLOW.input, subscription="s"))
    assert steps(required_topics([FLOW, second], CONFIG), found(there)) == [
        "subscribe s to persistent://tg/flow/requests, from the earliest message",
        "create topic persistent://tg/flow/requests-s-RETRY",
        "subscribe s to persistent://tg/flow/requests-s-RETRY, from the earliest message",
        "create topic persistent://tg/flow/requests-s-WORK",
        "compact persistent://tg/flow/requests-s-WORK from 1,048,576 bytes on",
        "keep persistent://tg/flow/requests-s-WORK while it is unused",
        "create topic persistent://tg/flow/requests-s-DLQ",
        "subscribe dead to persistent://tg/flow/requests-s-DLQ, from the earliest message",
    ]


def test_subscription_begins_with_the_earliest_message() -> None:
    wanted = RequiredTopics.of([Topic("persistent://t/n/x", ("s",))])
    [step] = [
        f.step for f in compare(wanted, found(wanted, topics={"persistent://t/n/x": FoundTopic()})) if f.step
    ]
    assert step.body == {"ledgerId": -1, "entryId": -1, "partitionIndex": -1}


def test_table_that_is_not_compacted_or_may_be_deleted_is_mended() -> None:
    wanted = RequiredTopics.of([Topic("persistent://t/n/x", table=True)])
    state = found(wanted, topics={"persistent://t/n/x": FoundTopic()})
    assert amiss(compare(wanted, state)) == [
        ("differs", "compaction", "persistent://t/n/x"),
        ("differs", "inactive-topic", "persistent://t/n/x"),
    ]
    assert steps(wanted, state) == [
        "compact persistent://t/n/x from 1,048,576 bytes on",
        "keep persistent://t/n/x while it is unused",
    ]


def test_any_compaction_threshold_of_a_table_is_accepted() -> None:
    wanted = RequiredTopics.of([Topic("persistent://t/n/x", table=True)])
    state = found(wanted, topics={"persistent://t/n/x": FoundTopic(compaction=10**9, kept=True)})
    assert amiss(compare(wanted, state)) == []


def test_topic_made_in_a_namespace_with_policies_needs_none_of_its_own() -> None:
    wanted = RequiredTopics.of([Topic("persistent://t/n/x", table=True)])
    theirs = {
        "compaction_threshold": 5,
        "inactive_topic_policies": {"deleteWhileInactive": False},
        "retention_policies": {"retentionTimeInMinutes": 3},
    }
    assert steps(wanted, found(wanted, topics={}, namespaces={"t/n": theirs})) == [
        "create topic persistent://t/n/x"
    ]
    unlike = dict.fromkeys(theirs, "odd")
    assert len(steps(wanted, found(wanted, topics={}, namespaces={"t/n": unlike}))) == 3


def test_unknown_subscriptions_on_a_topic_are_accepted() -> None:
    wanted = RequiredTopics.of([Topic("persistent://t/n/x", ("s",))])
    state = found(wanted, topics={"persistent://t/n/x": FoundTopic(frozenset({"s", "theirs"}))})
    assert amiss(compare(wanted, state)) == []


@pytest.mark.parametrize(
    ("policies", "name"),
    [
        ({"message_ttl_in_seconds": 3600}, "message-ttl"),
        ({"subscription_expiration_time_minutes": 5}, "subscription-expiration"),
    ],
)
def test_policies_that_drop_waiting_requests_are_reported_and_left(
    policies: dict[str, Any], name: str
) -> None:
    wanted = required_topics([FLOW], CONFIG)
    namespaces = dict.fromkeys(wanted.namespaces, policies)
    findings = compare(wanted, found(wanted, namespaces=namespaces))
    assert amiss(findings) == [("differs", name, "tg/flow")]  # nothing waits in tg/config
    assert [finding.step for finding in findings if finding.step] == []


@pytest.mark.parametrize(
    ("minutes", "found"), [(-1, "for ever"), (10 * 1440, None), (10 * 1440 + 36, "10.025 d"), (0, None)]
)
def test_retention_of_objects_beyond_their_records_is_reported_and_left(
    minutes: int, found: str | None
) -> None:
    wanted = required_topics([replace(FLOW, keep_answers=10 * 86_400.0)], CONFIG)
    retention = {"retention_policies": {"retentionTimeInMinutes": minutes, "retentionSizeInMB": -1}}
    there = {topic.name: FoundTopic.under(retention) for topic in wanted.topics}

    for topics in (there, {}):  # a topic that exists, and one that will have the policies of its namespace
        state = Found(("c1",), frozenset({"tg"}), dict.fromkeys(wanted.namespaces, retention), topics)
        findings = [f for f in compare(wanted, state) if f.name == "retention" and f.state != "ok"]
        assert [(f.of, f.found, f.step) for f in findings] == (
            [("persistent://tg/flow/objects", found, None)] if found else []
        )


def test_topic_of_two_flows_retains_objects_no_longer_than_the_shorter_records() -> None:
    flows = [
        replace(FLOW, name=str(days), keep_answers=days and days * 86_400.0) for days in (None, 7.0, 3.0)
    ]

    assert needed(*flows)["persistent://tg/flow/objects"].longest_retention == 3 * 86_400


def test_topic_and_subscription_names_are_quoted_in_paths() -> None:
    wanted = RequiredTopics.of([Topic("persistent://t/n/a:b?c%d#é", ("s;1",))])
    paths = [finding.step.path for finding in compare(wanted, Found(("c",))) if finding.step]
    assert paths[2] == "persistent/t/n/a:b%3Fc%25d%23%C3%A9"
    assert paths[3] == f"{paths[2]}/subscription/s%3B1"


@pytest.mark.parametrize(
    ("broker", "admin"),
    [
        ("pulsar://h:6650", "http://h:8080"),
        ("pulsar+ssl://h:6651", "https://h:8443"),
        ("pulsar://a:6650,b:6650", "http://a:8080"),
        ("pulsar://[::1]:16650", "http://[::1]:8080"),
    ],
)
def test_admin_api_is_looked_for_at_the_host_of_the_broker(broker: str, admin: str) -> None:
    assert admin_url(broker) == admin


@pytest.mark.parametrize(
    "broker", ["", "kafka://h", "pulsar://", "pulsar://[h", "pulsar://h:665o", "http://h:8080"]
)
def test_admin_url_of_another_broker_than_pulsar_is_refused(broker: str) -> None:
    with pytest.raises(ConfigError, match="not a Pulsar URL"):
        admin_url(broker)
