"""Inspects and creates tenants, namespaces, topics and subscriptions over Pulsar's admin API."""

from __future__ import annotations

from trustgraph_prompt.broker.pulsar.admin.client import (
    ADMIN_URL,
    PulsarAdmin,
    admin_of,
    admin_url,
    authorization,
    trust,
)
from trustgraph_prompt.broker.pulsar.admin.plan import (
    AdminStep,
    Finding,
    Found,
    FoundTopic,
    RequiredTopics,
    Topic,
    compare,
    steps,
)
from trustgraph_prompt.broker.pulsar.admin.prepare import (
    backlogs_of,
    carry_out,
    look,
    subscriptions_of,
    topics_in,
)

__all__ = [
    "ADMIN_URL",
    "AdminStep",
    "Finding",
    "Found",
    "FoundTopic",
    "PulsarAdmin",
    "RequiredTopics",
    "Topic",
    "admin_of",
    "admin_url",
    "authorization",
    "backlogs_of",
    "carry_out",
    "compare",
    "look",
    "steps",
    "subscriptions_of",
    "topics_in",
    "trust",
]
