"""What a process is to TrustGraph, and what its definitions of flows mean for us."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import orjson

from trustgraph_prompt.broker import topics
from trustgraph_prompt.cost import Budget
from trustgraph_prompt.errors import FlowError, TopicInvalid
from trustgraph_prompt.worker.flow import Flow, Input, Outputs, TopicChoice
from trustgraph_prompt.worker.flow_file import temperature

REQUESTERS_WAIT = 600.0
"""Seconds, unless they were told otherwise; then they hear of nothing any more."""

SECONDS_FOR_A_REQUEST = REQUESTERS_WAIT - 60
"""So that a requester that waits as long as it usually does hears at least an error."""

SECONDS_TO_ANOTHER = 240.0
"""Without a response from a text-completion service: those of TrustGraph lose what meets a rate limit.

Who answers later than that is slow or has a long queue. It is asked a second time and never a third, and its
first answer is taken whenever it comes, until the seconds for the request are over.
"""

CONCURRENCY = 64
"""Requests in work at once, unless said otherwise. TrustGraph's own services take one."""

TEMPERATURE = 0.0
"""Of TrustGraph's text completions, where neither flow nor request names one."""

OFTEN = 1_000
"""As often as the seconds of the budget allow."""


@dataclass(frozen=True, slots=True)
class Processor:
    """What a process is to TrustGraph: its `id` names its type of config and its subscriptions.

    `concurrency` is how many requests of a flow are in work at once. `asks_topics`: prompts are put to the
    text-completion topics of their flow. `space` is the topic space (tenant) of the config service.
    """

    id: str = "prompt"
    kind: Literal["prompt-request", "text-completion"] = "prompt-request"
    concurrency: int = CONCURRENCY
    asks_topics: bool = True
    space: str = "tg"

    @property
    def facts(self) -> dict[str, str]:
        """What it runs with, for who looks at its metrics."""
        return {"id": self.id, "concurrency": str(self.concurrency)}

    @property
    def type(self) -> str:
        """The type of config that defines the flows of this processor."""
        return f"processor:{self.id}"

    def flow(self, workspace: str, variant: str, text: str) -> Flow:
        """The flow of a definition, `{"topics": {spec: queue}, "parameters": {name: text}}`.

        Raises `FlowError` saying what is wrong with it.
        """
        where = f"{self.type} {workspace}/{variant}"
        definition = _object(text, where)
        named, parameters = (_member(definition, key, where) for key in ("topics", "parameters"))
        specs = ["request", "response"]
        if self.asks_topics:
            specs += ["text-completion-request", "text-completion-response"]
        topic = _topics(named, specs, where)
        answers = self.kind == "text-completion"
        return Flow(
            name=f"{workspace}/{variant}",
            workspace=workspace,
            input=Input(topic["request"], f"{self.id}--{workspace}--{variant}--request", self.kind),
            outputs=Outputs(response=topic["response"]),
            concurrency=self.concurrency,
            deliveries=OFTEN,
            unusable="answer",
            budget=Budget(seconds=SECONDS_FOR_A_REQUEST, characters=None),  # theirs has no such limit
            provider=TopicChoice(
                topic["text-completion-request"],
                topic["text-completion-response"],
                timeout=SECONDS_FOR_A_REQUEST,
                again=SECONDS_TO_ANOTHER,
                counts=False,
            )
            if self.asks_topics
            else None,
            model=_model(parameters, where) if answers else None,
            temperature=_temperature(parameters, where) if answers else None,
            trustgraph=True,
        )


def _object(text: str, where: str) -> dict[str, Any]:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise FlowError(f"the definition is not JSON: {error}", where=where) from None
    if not isinstance(value, dict):
        raise FlowError("the definition is not an object", where=where, found=value, expected="an object")
    return value


def _member(definition: dict[str, Any], key: str, where: str) -> dict[str, Any]:
    value = definition.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise FlowError("not an object", where=where, path=f"/{key}", found=value, expected="an object")
    return value


def _topics(named: dict[str, Any], specs: list[str], where: str) -> dict[str, str]:
    """The topics of the specs, each another one."""
    taken: dict[str, str] = {}
    for spec in specs:
        path, queue = f"/topics/{spec}", named.get(spec)
        if not isinstance(queue, str):
            wrong = "the topic is missing" if queue is None else "the topic is not valid: it is not a text"
            raise FlowError(wrong, where=where, path=path, found=queue, expected="the name of a queue")
        try:
            topic = topics.resolve(queue)
        except TopicInvalid as error:
            raise FlowError(str(error), where=where, path=path) from None
        for other, its in taken.items():
            if topic == its:
                raise FlowError(
                    "the flow would hear itself",
                    where=where,
                    path=path,
                    found=queue,
                    expected=f"another topic than /topics/{other}",
                )
        taken[spec] = topic
    return taken


def _model(parameters: dict[str, Any], where: str) -> str | None:
    model = parameters.get("model")
    if model is not None and not isinstance(model, str):
        raise FlowError(
            "the model is not valid: it is not a text",
            where=where,
            path="/parameters/model",
            found=model,
            expected="a name",
        )
    return model or None


def _temperature(parameters: dict[str, Any], where: str) -> float:
    given = temperature(parameters.get("temperature"), where)
    return TEMPERATURE if given is None else given
