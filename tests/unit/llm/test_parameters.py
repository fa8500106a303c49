"""Further parameters of a call: a flow adds them, and says which of them a prompt may set."""

from __future__ import annotations

import json

import pytest

from tests.support.asking import Asked, Script
from trustgraph_prompt import package_data
from trustgraph_prompt.errors import ProviderInvalidRequest, Reason
from trustgraph_prompt.llm import RuntimeConfig, ScriptedAnswer
from trustgraph_prompt.llm.parameters import FlowParameters
from trustgraph_prompt.llm.records import NO_EXTRAS

EFFORT = {"reasoning_effort": "low"}


async def test_flow_adds_its_parameters_to_each_call(asked: Asked) -> None:
    script = Script(ScriptedAnswer("{"), ScriptedAnswer('{"n": 1}'))

    await asked(FlowParameters(script, EFFORT, ()), attempts=2)

    assert [call.config.extras for call in script.calls] == [EFFORT, EFFORT]


async def test_prompts_own_settings_take_precedence(asked: Asked) -> None:
    script = Script(ScriptedAnswer('{"n": 1}'))
    provider = FlowParameters(script, {"temperature": 0.5, "top_k": 5, "seed": 7}, ["top_k"])

    await asked(provider, config=RuntimeConfig(temperature=0.0, extras={"top_k": 9}))

    assert script.calls[0].config == RuntimeConfig(temperature=0.0, extras={"top_k": 9, "seed": 7})


async def test_parameter_of_a_prompt_that_the_flow_does_not_allow_costs_no_call(asked: Asked) -> None:
    script = Script(ScriptedAnswer('{"n": 1}'))

    outcome = await asked(FlowParameters(script, {}, ["top_k"]), config=RuntimeConfig(extras=EFFORT))

    assert (outcome.reason, script.calls) == (Reason.PROVIDER_ERROR, [])
    assert isinstance(outcome.cause, ProviderInvalidRequest)
    for words in ("'reasoning_effort'", "`allow-parameters`", "--allow-parameter reasoning_effort"):
        assert words in str(outcome.cause)


@pytest.mark.parametrize("allowed", [["reasoning_effort"], None])
async def test_allowed_parameter_of_a_prompt_is_sent(asked: Asked, allowed: list[str] | None) -> None:
    script = Script(ScriptedAnswer('{"n": 1}'))

    await asked(FlowParameters(script, {}, allowed), config=RuntimeConfig(extras=EFFORT))

    assert script.calls[0].config.extras == EFFORT


def test_answers_under_other_parameters_are_cached_apart() -> None:
    script = Script()

    assert FlowParameters(script, {}, ()).identity == script.identity
    assert FlowParameters(script, EFFORT, ()).identity != script.identity


def test_flow_file_refuses_the_same_parameters_as_prompts() -> None:
    schema = json.loads((package_data.flows() / "flow.schema.json").read_text())

    refused = [rule["not"]["required"] for rule in schema["properties"]["extras"]["allOf"]]
    assert refused == [[name] for name in NO_EXTRAS]
