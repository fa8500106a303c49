"""The type of `parsed` is that of what was asked for; mypy, which reads the tests, holds it to that."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, assert_type

import pytest
from pydantic import BaseModel, ValidationError, field_validator

from tests.support.error_frames import holds_frames
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import Reason, StructuredOutputInvalid
from trustgraph_prompt.llm import Limiter, Limits, Provider, Response, RetryPolicy, ScriptedProvider

ASKED = [{"role": "user", "content": "Who?"}]
NEMO = '{"name": "Nemo", "rank": "captain", "ships": [{"name": "Nautilus"}]}'


class Rank(StrEnum):
    CAPTAIN = "captain"
    HARPOONER = "harpooner"


@dataclass
class Ship:
    name: str


@dataclass
class Sailor:
    name: str
    rank: Rank
    ships: list[Ship] = field(default_factory=list)


class Passenger(BaseModel):
    name: str
    rank: Rank
    ships: list[dict[str, str]] = []

    @field_validator("name")
    @classmethod
    def is_somebody(cls, name: str) -> str:
        if name == "Nemo":
            raise ValueError("that is nobody")
        return name


def saying(*texts: str) -> ScriptedProvider:
    script = iter(texts)
    return ScriptedProvider(lambda call: next(script))


async def test_parsed_is_none_without_a_schema() -> None:
    response = await saying(NEMO).complete(ASKED)

    assert_type(response, Response[None])
    assert_type(response.parsed, None)


async def test_parsed_is_a_dict_with_a_json_schema() -> None:
    response = await saying(NEMO).complete(ASKED, None, None, {"type": "object"}, stream=True)

    assert_type(response, Response[dict[str, Any]])
    assert_type(response.parsed, dict[str, Any] | None)
    assert response.parsed is not None
    assert response.parsed["name"] == "Nemo"


async def test_parsed_is_an_instance_of_a_dataclass() -> None:
    response = await saying(NEMO).complete(ASKED, response_schema=Sailor)

    assert_type(response, Response[Sailor])
    assert_type(response.parsed, Sailor | None)
    assert response.parsed == Sailor("Nemo", Rank.CAPTAIN, [Ship("Nautilus")])


async def test_parsed_is_an_instance_of_a_pydantic_model() -> None:
    response = await saying(NEMO.replace("Nemo", "Aronnax")).complete(ASKED, response_schema=Passenger)

    assert_type(response, Response[Passenger])
    assert response.parsed == Passenger(name="Aronnax", rank=Rank.CAPTAIN, ships=[{"name": "Nautilus"}])


async def test_parsed_is_found_in_other_text_with_a_contract_of_a_type() -> None:
    response = await saying(f"Surely:\n```json\n{NEMO}\n```").complete(
        ASKED, response_schema=Contract.of(Sailor)
    )

    assert_type(response, Response[Any])
    assert isinstance(response.parsed, Sailor)


async def test_any_provider_or_wrapper_can_complete() -> None:
    provider: Provider = Limiter(saying(NEMO), Limits(in_flight=1))
    async with provider:
        response = await provider.complete(ASKED, response_schema=Sailor)

    assert_type(response, Response[Sailor])
    assert response.parsed == Sailor("Nemo", Rank.CAPTAIN, [Ship("Nautilus")])


async def test_schema_of_a_type_is_sent_to_the_provider() -> None:
    calls = []
    provider = ScriptedProvider(lambda call: calls.append(call) or NEMO)  # type: ignore[func-returns-value]
    await provider.complete(ASKED, response_schema=Sailor)

    [call] = calls
    assert call.response_schema == Contract.of(Sailor).schema


async def test_value_refused_by_the_schema_is_invalid() -> None:
    with pytest.raises(StructuredOutputInvalid, match=r"/rank: expected .*captain.* found .*cook"):
        await saying(NEMO.replace("captain", "cook")).complete(ASKED, response_schema=Sailor)


async def test_value_refused_by_the_class_alone_is_invalid() -> None:
    with pytest.raises(StructuredOutputInvalid, match="/name: that is nobody") as caught:
        await saying(NEMO).complete(ASKED, response_schema=Passenger)

    error = caught.value
    assert error.output_content == NEMO
    assert (error.finish_reason, error.issues[0].reason) == ("stop", Reason.INVARIANT_VIOLATION)
    assert error.calls[0].text == NEMO
    assert error.outcome is not None
    assert error.outcome.value is None
    assert isinstance(error.__cause__, StructuredOutputInvalid)
    assert isinstance(error.__cause__.__cause__, ValidationError)
    assert not holds_frames(error.__cause__)


async def test_value_refused_by_the_class_can_be_asked_for_again() -> None:
    policy = RetryPolicy(reask=lambda error: error.error_message)
    provider = saying(NEMO, NEMO.replace("Nemo", "Conseil"))
    response = await provider.complete(ASKED, response_schema=Passenger, retry=policy)

    assert response.parsed is not None
    assert response.parsed.name == "Conseil"
