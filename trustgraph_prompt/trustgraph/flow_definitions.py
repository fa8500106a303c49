"""Translates TrustGraph's flow definitions into flows of this worker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import orjson

from trustgraph_prompt.broker import topics
from trustgraph_prompt.cost import Budget
from trustgraph_prompt.errors import FlowError, TopicInvalid
from trustgraph_prompt.trustgraph.config_client import Values
from trustgraph_prompt.worker.flow import Flow, Input, Outputs, TopicChoice
from trustgraph_prompt.worker.flow_file import check_distinct, invalid, temperature

REQUESTER_TIMEOUT = 600.0
"""Seconds that TrustGraph's clients wait by default."""

SECONDS_FOR_A_REQUEST = REQUESTER_TIMEOUT - 60
"""Less than the default timeout of requesters, so that they receive at least an error."""

SECONDS_TO_ANOTHER = 240.0
"""Before a completion is requested again: TrustGraph's services lose requests on rate limits.

A service that answers later is slow or has a long queue. It is asked a second time and never a third, and its
first answer counts whenever it arrives within the seconds for the request.
"""

CONCURRENCY = 64
"""Default number of concurrent requests per flow. TrustGraph's own services handle one."""

TEMPERATURE = 0.0
"""TrustGraph's default for text completions, if neither flow nor request has one."""

DELIVERIES = 1_000
"""Practically unlimited: the seconds of the budget are the limit."""

REQUEST, RESPONSE = "text-completion-request", "text-completion-response"
"""The specs of the topics on which the prompt service asks a text-completion service."""

NO_VALUES: Final[Mapping[str, Values]] = {}


@dataclass(frozen=True, slots=True)
class Processor:
    """A TrustGraph processor; its `id` names its type of config and its subscriptions.

    `concurrency` is the number of concurrent requests per flow. `asks_topics`: prompts are sent to the
    text-completion topics of their flow. `space` is the topic space (tenant) of the config service.
    """

    id: str = "prompt"
    kind: Literal["prompt-request", "text-completion"] = "prompt-request"
    concurrency: int = CONCURRENCY
    asks_topics: bool = True
    space: str = "tg"

    @property
    def needs(self) -> tuple[str, ...]:
        """The other types of config that the flows are made of."""
        return ()

    @property
    def facts(self) -> dict[str, str]:
        """The settings that the metric `tg_processor` shows."""
        return {"id": self.id, "concurrency": str(self.concurrency)}

    @property
    def type(self) -> str:
        """The type of config that defines the flows of this processor."""
        return f"processor:{self.id}"

    def flow(self, workspace: str, variant: str, text: str, config: Mapping[str, Values] = NO_VALUES) -> Flow:
        """Make the flow of a definition, `{"topics": {spec: queue}, "parameters": {name: text}}`.

        `config` has the workspace's values of the types that it `needs`. Raises `FlowError`.
        """
        try:
            return self._flow(workspace, variant, Definition.parse(text), config)
        except FlowError as error:
            raise error.at(f"{self.type} {workspace}/{variant}") from None

    def _flow(
        self, workspace: str, variant: str, definition: Definition, config: Mapping[str, Values]
    ) -> Flow:
        specs = ["request", "response"]
        if self.asks_topics:
            specs += [REQUEST, RESPONSE]
        topic = definition.distinct_topics(specs)
        completes = self.kind == "text-completion"
        given = temperature(definition.parameters.get("temperature")) if completes else None
        return Flow(
            name=f"{workspace}/{variant}",
            workspace=workspace,
            input=Input(topic["request"], f"{self.id}--{workspace}--{variant}--request", self.kind),
            outputs=Outputs(response=topic["response"]),
            concurrency=self.concurrency,
            deliveries=DELIVERIES,
            unusable="answer",
            budget=Budget(seconds=SECONDS_FOR_A_REQUEST, characters=None),  # TrustGraph limits no characters
            provider=completions(topic) if self.asks_topics else None,
            model=definition.text("model") if completes else None,
            temperature=TEMPERATURE if completes and given is None else given,
            trustgraph=True,
        )


def completions(topic: Mapping[str, str]) -> TopicChoice:
    """The text-completion service of a flow, by the topics of its specs."""
    return TopicChoice(
        topic[REQUEST], topic[RESPONSE], timeout=SECONDS_FOR_A_REQUEST, again=SECONDS_TO_ANOTHER, counts=False
    )


@dataclass(frozen=True, slots=True)
class Definition:
    """What the config service says of a flow of one processor. Its methods raise `FlowError`."""

    queues: Mapping[str, Any]
    parameters: Mapping[str, Any]

    @classmethod
    def parse(cls, text: str) -> Definition:
        """Parse a definition."""
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise FlowError(f"the definition is not JSON: {error}") from None
        if not isinstance(value, dict):
            raise FlowError("the definition is not an object", found=value, expected="an object")
        return cls(_member(value, "topics"), _member(value, "parameters"))

    def distinct_topics(self, specs: Iterable[str]) -> dict[str, str]:
        """The topics of the specs, which must be distinct."""
        taken: dict[str, str | None] = {}
        topic_of: dict[str, str] = {}
        for spec in specs:
            path, queue = f"/topics/{spec}", self.queues.get(spec)
            if not isinstance(queue, str):
                wrong = "is missing" if queue is None else "is not valid: it is not a string"
                raise invalid(path, f"the topic {wrong}", queue, "the name of a queue")
            try:
                topic_of[spec] = topics.resolve(queue)
            except TopicInvalid as error:
                raise invalid(path, str(error)) from None
            check_distinct(topic_of[spec], path, taken, found=queue)
        return topic_of

    def text(self, parameter: str) -> str | None:
        """The text of a parameter, None if it is empty."""
        value = self.parameters.get(parameter)
        if value is not None and not isinstance(value, str):
            wrong = f"the {parameter} is not valid: it is not a string"
            raise invalid(f"/parameters/{parameter}", wrong, value, "a name")
        return value or None


def _member(definition: dict[str, Any], key: str) -> dict[str, Any]:
    value = definition.get(key)
    if not isinstance(value, dict | None):
        raise invalid(f"/{key}", "not an object", value, "an object")
    return value or {}
