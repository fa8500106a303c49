"""What may be seen of a broker's URL."""

from __future__ import annotations

import pytest

from trustgraph_prompt.broker.urls import address


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
def test_an_address_says_which_broker_it_is_and_no_secrets(url: str, seen: str) -> None:
    assert address(url) == seen
