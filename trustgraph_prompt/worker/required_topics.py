"""The topics and subscriptions that a worker needs on a broker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf

from trustgraph_prompt.broker import topics
from trustgraph_prompt.broker.pulsar.admin.plan import RequiredTopics, Topic
from trustgraph_prompt.worker.canary.record import CANARY
from trustgraph_prompt.worker.config.apply import OWNERS
from trustgraph_prompt.worker.config.history import HISTORY
from trustgraph_prompt.worker.config.report_topic import REPORT
from trustgraph_prompt.worker.flow import Flow, TopicChoice


def required_topics(flows: Iterable[Flow], config_topic: str) -> RequiredTopics:
    """The topics of the flows and of the config. Raises `TopicInvalid` if a name is too long."""
    config = topics.resolve(config_topic)
    return RequiredTopics.of(
        [
            Topic(config, table=True),
            Topic(config + REPORT, table=True),
            Topic(config + OWNERS, table=True),
            Topic(config + HISTORY, table=True),
            Topic(config + CANARY, table=True),
            *(topic for flow in flows for topic in _used_by(flow)),
        ]
    )


def _used_by(flow: Flow) -> Iterator[Topic]:
    source, subscription = flow.input.topic, flow.input.subscription
    topics.check_own_topics(source, subscription)
    yield Topic(source, (subscription,))
    if flow.input.persistent:
        yield Topic(topics.retry_topic(source, subscription), (subscription,))
        yield Topic(topics.in_progress_topic(source, subscription), table=True)
    yield Topic(topics.dead_letter_topic(source, subscription), (topics.DEAD_LETTER_SUBSCRIPTION,))
    if flow.outputs.answers is not None:
        yield Topic(flow.outputs.answers, table=True)
    if flow.outputs.response is not None:
        yield Topic(flow.outputs.response)
    outputs = flow.outputs
    yield from map(Topic, filter(None, (outputs.triples, outputs.entity_contexts, outputs.rows)))
    for topic in outputs.objects.values():
        yield Topic(topic, longest_retention=flow.keep_answers or inf)
    if isinstance(flow.provider, TopicChoice):
        yield Topic(flow.provider.request)
        yield Topic(flow.provider.response)
