"""What may be seen of a broker's URL."""

from __future__ import annotations

import traceback

import pytest

from trustgraph_prompt.broker import connect
from trustgraph_prompt.broker.urls import address
from trustgraph_prompt.errors import ConfigError


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        ("pulsar://pulsar:6650", "pulsar://pulsar:6650"),
        ("pulsar+ssl://one:6651,other:6651/", "pulsar+ssl://one:6651,other:6651"),
        ("pulsar://user:se/cr?et@pulsar:6650?token=secret", "pulsar://pulsar:6650"),
        ("embedded:", "embedded:"),
        ("embedded:/data/broker.db", "embedded:/data/broker.db"),
    ],
)
def test_address_names_the_broker_without_secrets(url: str, seen: str) -> None:
    assert address(url) == seen


@pytest.mark.parametrize(
    "hosts", ["h:665o", "h:99999", "h:0", "", "h,:6650", "[h", "a..b", "user:secret@h:x"]
)
async def test_pulsar_url_with_invalid_hosts_is_refused_without_its_secret(hosts: str) -> None:
    with pytest.raises(ConfigError, match="not a Pulsar URL") as error:
        await connect(f"pulsar://{hosts}")
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    "url",
    [
        "kafka://user:secret@h:9092",
        "pulsar://user:secret@127.0.0.1:1",
        "pulsar+ssl://user:secret@127.0.0.1:1",
        "pulsar://127.0.0.1:1?token=secret",
        "pulsar:user:secret@h",
        "user:secret@h:6650",
    ],
)
async def test_error_of_an_invalid_url_holds_no_password(url: str) -> None:
    with pytest.raises(ConfigError, match=r"not a (broker|Pulsar) URL") as error:
        await connect(url)
    told = "".join(traceback.format_exception(error.value))
    assert "secret" not in told
