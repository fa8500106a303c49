"""The schema for a server: values that a contract offers are an enum there, and no rule."""

from __future__ import annotations

from dataclasses import replace

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.contract.server_schema import server_schema

SCHEMA = {
    "type": "object",
    "properties": {"relation": {"type": "string", "description": "how"}, "note": {"type": "string"}},
    "required": ["relation"],
}
CONTRACT = Contract.from_schema(SCHEMA, format="jsonl")
OFFERING = replace(CONTRACT, offered={"relation": ["director", "cost"], "gone": ["x"]})


def test_offered_values_are_an_enum_for_the_server() -> None:
    schema = server_schema(OFFERING, items=True)
    assert schema is not None
    items = schema["properties"]["items"]["items"]
    assert items["properties"] == {
        "relation": {"type": "string", "description": "how", "enum": ["director", "cost"]},
        "note": {"type": "string"},
    }
    assert items["additionalProperties"] is False


def test_value_that_is_not_offered_is_accepted() -> None:
    assert OFFERING.accepts({"relation": "directed by", "more": 1})
    assert OFFERING.fingerprint == CONTRACT.fingerprint
    assert OFFERING.instructions() == CONTRACT.instructions()


def test_contract_that_offers_nothing_sends_its_own_schema() -> None:
    schema = server_schema(CONTRACT, items=True)
    assert schema is not None
    assert schema["properties"]["items"]["items"] == SCHEMA
    assert server_schema(replace(CONTRACT, schema=None, offered={"a": ["b"]}), items=True) is None
