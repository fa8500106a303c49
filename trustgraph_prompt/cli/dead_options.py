"""Options of `dead`: which subscriptions' dead letters are meant, and which of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from trustgraph_prompt.cli import broker_options, flow_options
from trustgraph_prompt.cli.broker_options import RuleOptions
from trustgraph_prompt.cli.options import OptionGroup

if TYPE_CHECKING:
    from trustgraph_prompt.cli.broker_options import Readable
    from trustgraph_prompt.cli.dead_scope import ChosenLetters


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

    def letters(
        self, at: Readable, ids: Iterable[str] = (), error: str | None = None, prompt: str | None = None
    ) -> ChosenLetters:
        """Return the dead letters on the broker that are meant. Raises `ConfigError`."""
        from trustgraph_prompt.cli.dead_scope import ChosenLetters
        from trustgraph_prompt.worker.dead_letters.browse_and_replay import DeadLetterFilter

        return ChosenLetters.of(self, at, DeadLetterFilter(frozenset(ids), error, prompt))


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
