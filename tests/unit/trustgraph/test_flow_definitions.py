"""What TrustGraph's definitions of flows mean for us."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trustgraph_prompt.errors import FlowError
from trustgraph_prompt.trustgraph.flow_definitions import Processor
from trustgraph_prompt.worker.flow import TopicChoice

TOPICS = {
    "request": "request:tg:prompt:default:f",
    "response": "response:tg:prompt:default:f",
    "text-completion-request": "request:tg:text-completion:default:f",
    "text-completion-response": "response:tg:text-completion:default:f",
    "more": "flow:tg:more:default:f",
}


def definition(topics: object = None, parameters: object = None) -> str:
    return json.dumps({"topics": TOPICS if topics is None else topics, "parameters": parameters})


def test_prompt_flow_has_the_subscription_and_the_topics_of_theirs() -> None:
    flow = Processor("prompt-rag", concurrency=3).flow("w", "f", definition())
    assert flow.input.topic == "non-persistent://tg/request/prompt:default:f"
    assert flow.input.subscription == "prompt-rag--w--f--request"
    assert flow.outputs.response == "non-persistent://tg/response/prompt:default:f"
    assert flow.outputs.answers is None
    assert not flow.outputs.objects
    assert isinstance(flow.provider, TopicChoice)
    assert flow.provider.request == "non-persistent://tg/request/text-completion:default:f"
    assert (flow.workspace, flow.concurrency, flow.trustgraph) == ("w", 3, True)
    assert flow.unusable == "answer"


def test_budget_of_requests_ends_before_their_requesters_give_up() -> None:
    flow = Processor().flow("w", "f", definition())
    assert flow.budget.seconds is not None
    assert flow.budget.seconds < 600


def test_flow_that_asks_in_the_process_needs_no_topics_for_it() -> None:
    topics = {spec: TOPICS[spec] for spec in ("request", "response")}
    assert Processor(asks_topics=False).flow("w", "f", definition(topics)).provider is None


@pytest.mark.parametrize(
    ("parameters", "model", "temperature"),
    [
        (None, None, 0.0),
        ({}, None, 0.0),
        ({"model": None, "temperature": None}, None, 0.0),
        ({"model": "qwen3", "temperature": "0.5", "other": 1}, "qwen3", 0.5),
        ({"model": "", "temperature": ""}, None, 0.0),
    ],
)
def test_completion_flow_has_the_model_and_temperature_of_its_parameters(
    parameters: object, model: str | None, temperature: float
) -> None:
    processor = Processor("text-completion", "text-completion", asks_topics=False)
    flow = processor.flow("w", "f", definition(parameters=parameters))
    assert (flow.model, flow.temperature) == (model, temperature)
    assert flow.input.subscription == "text-completion--w--f--request"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("{", ""),
        ("[]", ""),
        (definition([]), "/topics"),
        (definition({**TOPICS, "response": None}), "/topics/response"),
        (definition({**TOPICS, "response": "nonsense"}), "/topics/response"),
        (definition({**TOPICS, "response": TOPICS["request"]}), "/topics/response"),
        (
            definition({"request": "request:tg:a", "response": "response:tg:a"}),
            "/topics/text-completion-request",
        ),
        (definition(parameters="model"), "/parameters"),
    ],
)
def test_error_in_a_definition_is_named_with_its_path(text: str, path: str) -> None:
    with pytest.raises(FlowError) as caught:
        Processor().flow("w", "f", text)
    assert (caught.value.where, caught.value.path) == ("processor:prompt w/f", path)


@pytest.mark.parametrize(
    "parameters",
    [{"temperature": "hot"}, {"temperature": "-1"}, {"temperature": True}, {"temperature": []}, {"model": 3}],
)
def test_invalid_parameters_are_refused(parameters: dict[str, Any]) -> None:
    processor = Processor("text-completion", "text-completion", asks_topics=False)
    with pytest.raises(FlowError, match=f"/parameters/{next(iter(parameters))}"):
        processor.flow("w", "f", definition(parameters=parameters))
