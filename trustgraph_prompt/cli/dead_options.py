"""Options of `dead`: which subscriptions' dead letters are meant."""

from __future__ import annotations

from trustgraph_prompt.cli import broker_options, flow_options
from trustgraph_prompt.cli.broker_options import RuleOptions
from trustgraph_prompt.cli.options import OptionGroup


class ScopeOptions(OptionGroup):
    """Flows or a subscription, whose dead letters are meant."""

    flows: flow_options.SeveralFlowsOption = None
    flow: flow_options.FlowOption = None
    id: flow_options.IdOption = "prompt"
    topic: str | None = flow_options.where_option(
        "--topic TOPIC",
        "With --subscription: the request topic of a subscription that no flow file names.",
        None,
    )
    subscription: str | None = flow_options.where_option(
        "--subscription NAME", "With --topic: the name of the subscription.", None
    )
    everywhere = False


class WideScopeOptions(ScopeOptions):
    """Flows, a subscription, or all dead letters that there are."""

    everywhere: bool = flow_options.where_option(
        "--all",
        "Also all other dead-letter topics: on Pulsar in the namespaces of the flows, "
        "on an embedded broker all of them.",
        False,
    )


class TermOptions(RuleOptions):
    """A broker that is read, and where the prompts are whose terms are changed."""

    config_topic: str = broker_options.config_topic_option(
        "--config-topic TOPIC",
        "The config topic, on which the terms of the prompts are looked up.",
        broker_options.DEFAULT_CONFIG_TOPIC,
    )
