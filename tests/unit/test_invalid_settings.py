"""An invalid setting of any room is refused with the value and the reason, not called missing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from trustgraph_prompt.ask import RedisCache
from trustgraph_prompt.broker import connect
from trustgraph_prompt.broker.pulsar.admin.client import PulsarAdmin, authorization
from trustgraph_prompt.broker.pulsar.credentials import Credentials
from trustgraph_prompt.cli.broker_options import check_workspace
from trustgraph_prompt.cli.prompt_options import terms
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.llm import OpenAIProvider
from trustgraph_prompt.worker import flow_file

NEITHER = "it begins with neither http:// nor https://"

GIVEN: dict[str, tuple[Callable[[], object], str]] = {
    "a temperature in words": (
        lambda: flow_file.temperature("hot"),
        "the temperature is not valid: it is not a number (found 'hot', expected a number from 0 to 100)",
    ),
    "a temperature below zero": (lambda: flow_file.temperature(-1), "it is below 0"),
    "a temperature of a furnace": (lambda: flow_file.temperature("1e400"), "it is above 100"),
    "a temperature of nothing": (lambda: flow_file.temperature("nan"), "it is not a number"),
    "a base URL without http": (
        lambda: OpenAIProvider("localhost:99", "m"),
        f"the base URL is not valid: {NEITHER} (found 'localhost:99', expected http://host:port/v1",
    ),
    "a base URL without a host": (lambda: OpenAIProvider("http://", "m"), "it names no host"),
    "a base URL with a port in words": (
        lambda: OpenAIProvider("http://h:port", "m"),
        "its host or its port cannot be read",
    ),
    "an admin URL without http": (lambda: PulsarAdmin("h:8080"), f"not an admin URL: {NEITHER}"),
    "an admin URL with a query": (lambda: PulsarAdmin("http://h/?a=b"), "it must not contain a query"),
    "a Redis over HTTP": (
        lambda: RedisCache("http://h"),
        "the URL is not valid: it begins with none of redis://, rediss://, unix://",
    ),
    "a Redis with an option of nobody": (lambda: RedisCache("redis://h?x=1"), "it has the option x"),
    "a term without a value": (
        lambda: terms(["name"]),
        "invalid term: there is no = (found 'name', expected NAME=VALUE or NAME:=JSON)",
    ),
    "a term without a name": (lambda: terms(["=value"]), "there is no name before the ="),
    "a workspace with a slash": (lambda: check_workspace("a/b"), "the name is not valid: there is a / in it"),
    "a workspace without a name": (lambda: check_workspace(""), "the name is not valid: it is empty"),
}

GIVEN_LATER: dict[str, tuple[Callable[[], Awaitable[object]], str]] = {
    "a broker of an unknown kind": (
        lambda: connect("kafka://h:9092"),
        "not a broker URL: unknown scheme 'kafka' (found 'kafka://h:9092', expected pulsar://HOST:PORT, ",
    ),
    "a broker of no kind": (lambda: connect("localhost"), "it has no scheme"),
    "a Pulsar with a port in words": (
        lambda: connect("pulsar://h:665o"),
        "not a Pulsar URL: a host or port is invalid (found 'pulsar://h:665o'",
    ),
    "a Pulsar without a host": (lambda: connect("pulsar://"), "a host is missing"),
    "a token with blanks": (
        lambda: authorization(Credentials(token="two words")),
        "the token is not valid: it has characters other than printable ASCII without spaces",
    ),
}


@pytest.mark.parametrize("case", GIVEN)
def test_invalid_setting_is_refused_with_the_value_and_the_reason(case: str) -> None:
    give, told = GIVEN[case]
    with pytest.raises(ConfigError) as refusal:
        give()
    assert told in str(refusal.value)


@pytest.mark.parametrize("case", GIVEN_LATER)
async def test_setting_found_invalid_when_used_is_refused_with_the_reason(case: str) -> None:
    give, told = GIVEN_LATER[case]
    with pytest.raises(ConfigError) as refusal:
        await give()
    assert told in str(refusal.value)
